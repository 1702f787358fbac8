/** Starting a run: the input as a form where the workflow says what it takes, else as JSON. */

import { Play } from "lucide-react";
import { useState, type ReactElement } from "react";
import { useNavigate } from "react-router";

import { ApiError, call } from "../../api/client";
import { prettyText, scanDocument } from "../../json";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { isBeginning } from "../../model/beginnings";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { refresh, useAsk } from "../data";
import { InputFields } from "./InputFields";
import { sketchInput, type InputSchema } from "./inputSketch";

export interface StartDialogProps {
  workflow: { workflowID: string; name: string; title: string | null };
  version?: number;
  onClose: () => void;
}

export function StartDialog({ workflow, version, onClose }: StartDialogProps): ReactElement {
  const navigate = useNavigate();
  const full = useAsk("get_workflow", { path: { workflow: workflow.workflowID }, query: version === undefined ? {} : { version } });
  const schema = (full.data?.workflowOptions as { inputSchema?: InputSchema } | null | undefined)?.inputSchema ?? null;
  // A coded workflow has no nodes, and begins with its function.
  const nodes = (full.data?.nodes ?? []) as { id: string; type: string }[];
  const triggers = nodes.some(({ type }) => type === "start") ? [] : nodes.filter(({ type }) => isBeginning(type));
  const [typed, setTyped] = useState<string | null>(null);
  const text = typed ?? (full.data === undefined ? null : prettyText(sketchInput(schema)));
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const start = () => {
    setProblem(null);
    try {
      scanDocument(text ?? "");
    } catch (failure) {
      setProblem(new Error(`This is not JSON: ${(failure as Error).message}. Texts need double quotes; nothing at all is {}.`));
      return;
    }
    setBusy(true);
    const body = version === undefined ? `{"input": ${text}}` : `{"input": ${text}, "version": ${version}}`;
    call("start_run", { path: { workflow: workflow.workflowID }, bodyText: body })
      .then((run) => {
        refresh("list_workflows", "list_runs");
        onClose();
        void navigate(`/runs/${encodeURIComponent(run.instanceID)}`);
      }, setProblem)
      .finally(() => setBusy(false));
  };

  const places = problem instanceof ApiError ? problem.places : [];
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Start ${workflow.title ?? workflow.name}`}
      onSubmit={start}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy || text === null || triggers.length > 0}>
            <Play size={14} /> Start the run
          </Button>
        </>
      }
    >
      {full.error && <Problem error={full.error} />}
      {triggers.length > 0 ? (
        <Notice kind="info">
          It has no start node, so nobody can start it by hand: its runs begin at {triggers.map(({ id, type }) => `${id} (${type})`).join(", ")}. A test run in the editor may begin at any of
          them. <code className="faint">NO_MANUAL_START</code>
        </Notice>
      ) : text === null ? <Skeleton lines={3} /> : <InputFields schema={schema} text={text} onChange={setTyped} onSubmit={start} places={places} />}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
