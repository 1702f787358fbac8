/** The addresses of a webhook: the live one of the published version, and the draft's own for tests, which feeds a test run that listens. */

import { useQuery } from "@tanstack/react-query";
import { Copy, Radio } from "lucide-react";
import { useState, useSyncExternalStore, type ReactElement } from "react";
import { useStore } from "zustand";

import { ApiError, call } from "../../api/client";
import { useCanvasModel } from "../../canvas/CanvasModel";
import { isOver } from "../../run";
import { useAttempt } from "../../ui/attempt";
import { Button, IconButton } from "../../ui/Button";
import { Problem } from "../../ui/Notice";
import { toast } from "../../ui/toasts";
import { useMay } from "../session";
import type { EditorSession } from "./session";

export function HookAddresses({ session, nodeID }: { session: EditorSession; nodeID: string }): ReactElement {
  const model = useCanvasModel();
  const workflow = session.opened.workflow;
  const draft = useSyncExternalStore(
    (changed) => session.saver?.subscribe(changed) ?? (() => undefined),
    () => session.saver?.draft ?? null,
  );
  const workflowID = draft?.workflow ?? workflow?.workflowID ?? null;
  const mayOperate = useMay("operator");
  const live = useQuery({
    queryKey: ["list_webhooks", "of", workflowID, draft?.baseVersion],
    queryFn: async ({ signal }) => (await call("list_webhooks", { query: { workflow: workflowID! }, signal })).items,
    enabled: workflowID !== null,
  });
  const test = useQuery({
    queryKey: ["test-hook", draft?.draftID, nodeID],
    queryFn: ({ signal }) => call("get_test_hook", { path: { draft: draft!.draftID, node: nodeID }, signal }),
    enabled: draft !== null && mayOperate,
  });
  const hook = live.data?.find((each) => each.nodeID === nodeID);
  return (
    <section className="stack" aria-label="Addresses">
      {hook === undefined ? (
        <p className="faint small">It has a live address once the workflow is published with it.</p>
      ) : (
        <Address label={`Live address, of version ${hook.version}`} url={hook.url} />
      )}
      {test.data !== undefined && <Address label="Test address of this draft" url={test.data.url} />}
      {test.error !== null && <Problem error={test.error} />}
      {!model.isReadOnly && <Listen session={session} nodeID={nodeID} onListening={() => void test.refetch()} />}
    </section>
  );
}

function Address({ label, url }: { label: string; url: string }): ReactElement {
  return (
    <div className="field">
      <span className="small">{label}</span>
      <div className="row">
        <code className="hook-address">{url}</code>
        <IconButton label={`Copy: ${label}`} icon={<Copy size={14} />} small onClick={() => void navigator.clipboard.writeText(url).then(() => toast("Copied"))} />
      </div>
    </div>
  );
}

/** Starts the test run that waits for the next request to the test address. */
function Listen({ session, nodeID, onListening }: { session: EditorSession; nodeID: string; onListening: () => void }): ReactElement {
  const { attempt, isBusy, problem } = useAttempt();
  const [listening, setListening] = useState<string | null>(null);
  const run = useStore(session.test, (state) => state.run);
  const isWaiting = useSyncExternalStore(
    (changed) => {
      const parts = run === null ? [] : [run.store.subscribeRun(changed), run.store.subscribeNode(nodeID, changed)];
      return () => parts.forEach((leave) => leave());
    },
    () => run !== null && run.instanceID === listening && !isOver(run.store.head.status) && run.store.activation(nodeID, "")?.status === "waiting",
  );
  const listen = async () => {
    setListening(await session.listen(nodeID));
    onListening();
  };
  return (
    <>
      <div className="row">
        <Button small disabled={isBusy || isWaiting} onClick={() => attempt(listen)}>
          <Radio size={13} /> Listen for a test call
        </Button>
        {isWaiting && (
          <span className="small" role="status">
            Waiting for a request to the test address, ten minutes at most.
          </span>
        )}
      </div>
      {problem !== null && <Problem error={problem instanceof ApiError ? problem : new Error((problem as Error).message)} />}
    </>
  );
}
