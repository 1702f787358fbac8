/** The input of a test run. What was used last is remembered, per workflow, in this browser. */

import { Play } from "lucide-react";
import { useId, useState, type ReactElement } from "react";

import { ApiError } from "../../api/client";
import { scopeOfNode } from "../../canvas/run";
import { memberText, prettyText } from "../../json";
import { beginningsOf } from "../../model/beginnings";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import { Problem } from "../../ui/Notice";
import { InputFields } from "../start/InputFields";
import { sketchInput, type InputSchema } from "../start/inputSketch";
import type { EditorSession, TestOptions } from "./session";

export type TestRequest = { kind: "all" } | { kind: "until" | "alone" | "from"; nodeID: string };

interface TestDialogProps {
  session: EditorSession;
  request: TestRequest;
  onClose: () => void;
}

export function TestDialog({ session, request, onClose }: TestDialogProps): ReactElement {
  const id = useId();
  const beginnings = beginningsOf(session.store.document);
  const [beginning, setBeginning] = useState(beginnings[0]);
  const options = memberText(session.store.document.head.text, "workflowOptions");
  const schema = schemaIn(beginning === undefined || beginning.type === "start" ? options : beginning.config);
  const whose = `anabranch.testInput.${session.opened.workflow?.workflowID ?? session.saver?.draft?.draftID ?? "new"}`;
  const place = beginning === undefined || beginning.type === "start" ? whose : `${whose}.${beginning.id}`;
  const [typed, setText] = useState<string | null>(null);
  const text = typed ?? localStorage.getItem(place) ?? prettyText(sketchInput(schema));
  const begin = (id: string) => {
    setBeginning(beginnings.find((each) => each.id === id));
    setText(null);
  };
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const start = () => {
    const wrong = jsonProblem(text);
    if (wrong !== null) {
      setProblem(new Error(wrong));
      return;
    }
    localStorage.setItem(place, text);
    setBusy(true);
    setProblem(null);
    void session
      .startTest(text, { ...optionsOf(session, request), ...(beginnings.length > 1 && beginning !== undefined ? { trigger: beginning.id } : {}) })
      .then((instanceID) => {
        if (instanceID !== null) onClose();
        else setProblem(session.test.getState().failure);
      })
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={TITLES[request.kind]}
      about={aboutOf(request, session.test.getState().run !== null)}
      onSubmit={start}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            <Play size={14} /> Run the test
          </Button>
        </>
      }
    >
      {beginnings.length > 1 && beginning !== undefined && (
        <div className="field">
          <label htmlFor={id}>Begins at</label>
          <select id={id} className="input" value={beginning.id} onChange={(event) => begin(event.target.value)}>
            {beginnings.map((each) => (
              <option key={each.id} value={each.id}>
                {each.type === "start" ? each.id : `${each.id} (${each.type})`}
              </option>
            ))}
          </select>
        </div>
      )}
      <InputFields key={place} schema={schema} text={text} onChange={setText} onSubmit={start} places={problem instanceof ApiError ? problem.places : []} />
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

function schemaIn(holder: string | null | undefined): InputSchema | null {
  const text = holder == null ? undefined : memberText(holder, "inputSchema");
  return text === undefined ? null : (JSON.parse(text) as InputSchema | null);
}

const TITLES = { all: "Test the workflow as it is drawn", until: "Run to a node", alone: "Run one node alone", from: "Run again from a node" } as const;

function aboutOf(request: TestRequest, isRunShown: boolean): string {
  if (request.kind === "all") return "Nothing is saved or published. Nodes do what they do, except pinned ones.";
  if (request.kind === "until") return `The run ends behind ${request.nodeID}.`;
  if (!isRunShown) return `No run is shown that says what nodes before ${request.nodeID} give: they run, too.`;
  const before = "Nodes before it give what they gave in the run that is shown";
  return request.kind === "alone" ? `${before}; the run ends behind ${request.nodeID}.` : `${before}; ${request.nodeID} and all behind it run.`;
}

/** What is known of the run that is shown is given; of a node in a loop, what its iteration knew that is looked at. */
function optionsOf(session: EditorSession, request: TestRequest): TestOptions {
  if (request.kind === "all") return {};
  const { nodeID } = request;
  const until = request.kind === "from" ? {} : { until: nodeID };
  const { run } = session.test.getState();
  if (request.kind === "until" || run === null) return until;
  const scope = scopeOfNode(session.model.view.getState(), nodeID, run.focus.getState().scope);
  return { ...until, from: { instanceID: run.instanceID, nodeID, ...(scope === "" ? {} : { scope }) } };
}
