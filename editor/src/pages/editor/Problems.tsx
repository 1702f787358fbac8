/** The bar below the canvas: problems with what helps, and the certificate, always seen. */

import { ChevronDown, ChevronUp, CircleAlert, Info, ShieldCheck, TriangleAlert } from "lucide-react";
import { useState, type ReactElement } from "react";

import { flowOf } from "../../canvas/Canvas";
import { useCanvas, useCanvasModel } from "../../canvas/CanvasModel";
import { focusNode, reveal } from "../../canvas/focus";
import { titleOf } from "../../canvas/flow";
import type { Problem } from "../../canvas/validation";
import { applyFix } from "../../edit";
import { isNodeKey, nodeByID, selected } from "../../model";
import { Button } from "../../ui/Button";
import { withCode } from "../../ui/withCode";
import type { EditorSession } from "./session";

export function Problems({ session }: { session: EditorSession }): ReactElement {
  const verdict = useCanvas((view) => view.verdict);
  const [isOpen, setOpen] = useState(false);
  const errors = verdict?.problems.filter(({ severity }) => severity === "error").length ?? 0;
  const warnings = verdict?.problems.filter(({ severity }) => severity === "warning").length ?? 0;
  const total = verdict?.problems.length ?? 0;
  const notes = total - errors - warnings;
  return (
    <section className="problems" aria-label="Problems">
      {isOpen && total > 0 && (
        <ul className="problem-list">
          {verdict!.problems.map((problem, index) => (
            <ProblemRow key={index} problem={problem} session={session} />
          ))}
        </ul>
      )}
      <div className="problems-bar">
        <button type="button" className="button quiet small" aria-expanded={isOpen && total > 0} disabled={total === 0} onClick={() => setOpen(!isOpen)}>
          {errors > 0 && (
            <span className="count error">
              <CircleAlert size={14} aria-hidden /> {errors} {errors === 1 ? "problem" : "problems"}
            </span>
          )}
          {warnings > 0 && (
            <span className="count warning">
              <TriangleAlert size={14} aria-hidden /> {warnings} {warnings === 1 ? "warning" : "warnings"}
            </span>
          )}
          {notes > 0 && (
            <span className="count">
              <Info size={14} aria-hidden /> {notes} {notes === 1 ? "note" : "notes"}
            </span>
          )}
          {total === 0 && (verdict === null ? "Not checked yet" : "No problems")}
          {total > 0 && (isOpen ? <ChevronDown size={14} aria-hidden /> : <ChevronUp size={14} aria-hidden />)}
        </button>
        <span className="grow" />
        <Certificate />
      </div>
    </section>
  );
}

const SIGNS = {
  error: <CircleAlert size={14} className="error" aria-label="Problem" />,
  warning: <TriangleAlert size={14} className="warning" aria-label="Warning" />,
  info: <Info size={14} aria-label="Note" />,
} as const;

function ProblemRow({ problem, session }: { problem: Problem; session: EditorSession }): ReactElement {
  const model = useCanvasModel();
  const name = useCanvas((view) => (problem.key !== null && isNodeKey(problem.key) ? titleOf(view.document.nodes.get(problem.key)) : null));
  const judged = useCanvas((view) => view.verdict?.document ?? null);
  const go = () => {
    if (problem.key === null) return;
    if (isNodeKey(problem.key)) {
      focusNode(model, flowOf(model), problem.key);
      if (problem.place.startsWith("/config") || problem.place !== "") model.set({ open: problem.key, openPlace: problem.place });
    } else {
      const edge = model.document.edges.get(problem.key);
      const source = edge && nodeByID(model.document, edge.source);
      model.select(selected(problem.key));
      if (source) reveal(model, flowOf(model), source.key);
    }
  };
  return (
    <li>
      {SIGNS[problem.severity]}
      <button type="button" className="problem-text" onClick={go}>
        {name && <strong>{name}: </strong>}
        {withCode(problem.message)} <code className="faint">{problem.code}</code>
      </button>
      {!model.isReadOnly &&
        judged !== null &&
        problem.fixes?.map((fix) => (
          <Button key={fix.title} small onClick={() => model.try(() => applyFix(session.store, fix, judged))}>
            {fix.title.charAt(0).toUpperCase() + fix.title.slice(1)}
          </Button>
        ))}
    </li>
  );
}

/** "always ends, at most 212 activations", or what may wait for ever. */
function Certificate(): ReactElement {
  const model = useCanvasModel();
  const answer = useCanvas((view) => view.verdict?.answer ?? null);
  const nodes = useCanvas((view) => view.document);
  if (answer === null || !answer.valid) return <span className="certificate faint">{answer === null ? "" : "Cannot be run yet"}</span>;
  if (answer.terminates) {
    return (
      <span className="certificate good">
        <ShieldCheck size={15} aria-hidden /> always ends{answer.activationsMax !== null && <>, at most {answer.activationsMax.toLocaleString("en")} activations</>}
      </span>
    );
  }
  return (
    <span className="certificate waiting">
      may wait for ever at
      {answer.unbounded.slice(0, 3).map((id) => {
        const node = nodeByID(nodes, id);
        return (
          <button key={id} type="button" className="link" onClick={() => node && focusNode(model, flowOf(model), node.key)}>
            {titleOf(node) || id}
          </button>
        );
      })}
      {answer.unbounded.length > 3 && <>and {answer.unbounded.length - 3} more</>}
    </span>
  );
}
