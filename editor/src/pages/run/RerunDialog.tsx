/** Running a run again: a new run with the same input, or with another one. */

import { RotateCw } from "lucide-react";
import { useState, type ReactElement } from "react";
import { useNavigate } from "react-router";

import { ApiError, call } from "../../api/client";
import { prettyText } from "../../json";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import { Problem } from "../../ui/Notice";
import { refresh } from "../data";
import { InputFields } from "../start/InputFields";

export function RerunDialog({ instanceID, input, onClose }: { instanceID: string; input: string; onClose: () => void }): ReactElement {
  const navigate = useNavigate();
  const [text, setText] = useState(() => prettyText(input));
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const start = () => {
    const wrong = jsonProblem(text);
    if (wrong !== null) {
      setProblem(new Error(wrong));
      return;
    }
    setBusy(true);
    call("rerun_run", { path: { instanceID }, bodyText: `{"input": ${text}}` })
      .then((run) => {
        refresh("list_runs");
        onClose();
        void navigate(`/runs/${run.instanceID}`);
      }, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Run it again"
      about="A new run of the same workflow; this one stays as it is."
      onSubmit={start}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            <RotateCw size={14} /> Run again
          </Button>
        </>
      }
    >
      <InputFields schema={null} text={text} onChange={setText} onSubmit={start} places={problem instanceof ApiError ? problem.places : []} />
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
