/** The input of a test run. What was used last is remembered, per workflow, in this browser. */

import { Play } from "lucide-react";
import { useState, type ReactElement } from "react";

import { ApiError } from "../../api/client";
import { memberText, prettyText } from "../../json";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import { Problem } from "../../ui/Notice";
import { InputFields } from "../start/InputFields";
import { sketchInput, type InputSchema } from "../start/inputSketch";
import type { EditorSession } from "./session";

export type TestRequest = { kind: "all" } | { kind: "until"; nodeID: string } | { kind: "alone"; nodeID: string };

interface TestDialogProps {
  session: EditorSession;
  request: TestRequest;
  onClose: () => void;
}

export function TestDialog({ session, request, onClose }: TestDialogProps): ReactElement {
  const options = memberText(session.store.document.head.text, "workflowOptions");
  const schemaText = options === undefined ? undefined : memberText(options, "inputSchema");
  const schema = schemaText === undefined ? null : (JSON.parse(schemaText) as InputSchema | null);
  const place = `anabranch.testInput.${session.opened.workflow?.workflowID ?? session.saver?.draft?.draftID ?? "new"}`;
  const [text, setText] = useState(() => localStorage.getItem(place) ?? prettyText(sketchInput(schema)));
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
    const shown = session.test.getState().run;
    const from = request.kind === "alone" && shown !== null ? { from: { instanceID: shown.instanceID, nodeID: request.nodeID } } : {};
    void session
      .startTest(text, request.kind === "all" ? {} : { until: request.nodeID, ...from })
      .then((instanceID) => {
        if (instanceID !== null) onClose();
        else setProblem(session.test.getState().failure);
      })
      .finally(() => setBusy(false));
  };
  const titles = { all: "Test the workflow as it is drawn", until: "Run to a node", alone: "Run one node alone" };
  return (
    <Dialog
      open
      onClose={onClose}
      title={titles[request.kind]}
      about={
        request.kind === "all"
          ? "Nothing is saved or published. Nodes do what they do, except pinned ones."
          : request.kind === "until"
            ? `The run ends behind ${request.nodeID}.`
            : "Nodes before it give what they gave in the run that is shown."
      }
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
      <InputFields schema={schema} text={text} onChange={setText} onSubmit={start} places={problem instanceof ApiError ? problem.places : []} />
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
