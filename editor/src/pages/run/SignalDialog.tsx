/** Sending a signal to a run; what its open waits ask for is offered. */

import { Bell } from "lucide-react";
import { useId, useState, type ReactElement } from "react";

import { call } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import { Problem } from "../../ui/Notice";
import { toast } from "../../ui/toasts";
import { useAsk } from "../data";

interface SignalDialogProps {
  instanceID: string;
  /** Does a node wait now? Then what it waits for is offered. */
  isWaiting: boolean;
  /** The event to begin with. */
  event?: string;
  onClose: () => void;
}

export function SignalDialog({ instanceID, isWaiting, event: given, onClose }: SignalDialogProps): ReactElement {
  const id = useId();
  const log = useAsk("get_log", { path: { instanceID }, query: { limit: 1_000 } }, { enabled: isWaiting });
  const offered = [...new Set((log.data?.items ?? []).flatMap(({ eventType, payload }) => (eventType === "NODE_WAITING" && isWait(payload) ? [payload.event] : [])))];
  const [typed, setTyped] = useState<string | null>(given ?? null);
  const event = typed ?? offered[0] ?? "";
  const [payload, setPayload] = useState("{}");
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const send = () => {
    const wrong = jsonProblem(payload);
    if (wrong !== null) {
      setProblem(new Error(wrong));
      return;
    }
    setBusy(true);
    call("send_signal", { path: { instanceID, event }, bodyText: payload })
      .then(({ delivered }) => {
        toast(delivered ? `${event} is delivered.` : `${event} is kept: nothing waits for it now.`);
        onClose();
      }, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Send a signal"
      about="A node that waits for this event takes it; until then it is kept."
      onSubmit={send}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy || event === ""}>
            <Bell size={14} /> Send
          </Button>
        </>
      }
    >
      <div className="field">
        <label htmlFor={`${id}-event`}>Event</label>
        <input id={`${id}-event`} className="input mono" list={`${id}-events`} required value={event} autoComplete="off" onChange={(change) => setTyped(change.target.value)} />
        <datalist id={`${id}-events`}>
          {offered.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
      <div className="field">
        <label htmlFor={`${id}-payload`}>Payload, as JSON</label>
        <textarea id={`${id}-payload`} className="input mono" rows={5} spellCheck={false} value={payload} onChange={(change) => setPayload(change.target.value)} />
      </div>
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

function isWait(payload: unknown): payload is { event: string } {
  return typeof payload === "object" && payload !== null && typeof (payload as { event?: unknown }).event === "string";
}
