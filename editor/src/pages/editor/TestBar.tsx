/** How the test run stands that the canvas shows; signals that it waits for are sent from here. */

import { Bell, ExternalLink, Square, X } from "lucide-react";
import { useEffect, useState, useSyncExternalStore, type ReactElement } from "react";
import { Link } from "react-router";
import { useStore } from "zustand";

import { useCanvasModel } from "../../canvas/CanvasModel";
import { flowOf } from "../../canvas/Canvas";
import { showNextFailure } from "../../canvas/iterations";
import type { ShownRun } from "../../canvas/run";
import { isOver } from "../../run";
import { Button, IconButton } from "../../ui/Button";
import { Status } from "../../ui/Status";
import { announce } from "../../ui/toasts";
import { withCode } from "../../ui/withCode";
import { SignalDialog } from "../run/SignalDialog";
import type { EditorSession } from "./session";

export function TestBar({ session }: { session: EditorSession }): ReactElement | null {
  const run = useStore(session.test, (state) => state.run);
  return run === null ? null : <Bar key={run.instanceID} session={session} run={run} />;
}

function Bar({ session, run }: { session: EditorSession; run: ShownRun }): ReactElement {
  const model = useCanvasModel();
  const head = useSyncExternalStore(
    (changed) => run.store.subscribeRun(changed),
    () => run.store.head,
  );
  const failures = useSyncExternalStore(
    (changed) => run.store.subscribeRun(changed),
    () => run.store.failures(),
  );
  const [isSignalling, setSignalling] = useState(false);
  const isEnded = isOver(head.status);
  useEffect(() => announce(`Test run ${head.status.toLowerCase()}${failures.length > 0 ? `, ${failures.length} failed` : ""}`), [head.status, failures.length]);
  const error = head.error as { code?: string; message?: string; nodeID?: string } | null;
  return (
    <div className="test-bar" role="region" aria-label="Test run">
      <span className="faint small">Test run</span>
      <Status status={head.status} />
      {error?.message && (
        <span className="test-error clip" title={error.message}>
          {error.nodeID ? `${error.nodeID}: ` : ""}
          {withCode(error.message)}
        </span>
      )}
      <span className="grow" />
      {failures.length > 0 && (
        <Button small look="danger" onClick={() => void showNextFailure(run, model, flowOf(model))}>
          Next failure ({failures.length})
        </Button>
      )}
      {head.status === "WAITING" && (
        <Button small onClick={() => setSignalling(true)}>
          <Bell size={13} /> Send a signal
        </Button>
      )}
      {!isEnded && (
        <Button small onClick={() => void session.stopTest()}>
          <Square size={12} /> Stop
        </Button>
      )}
      <Link className="button small" to={`/runs/${run.instanceID}`}>
        <ExternalLink size={13} aria-hidden /> Open the run
      </Link>
      <IconButton label="Hide the test run" icon={<X size={14} />} small onClick={() => session.hideRun()} />
      {isSignalling && <SignalDialog instanceID={run.instanceID} isWaiting onClose={() => setSignalling(false)} />}
    </div>
  );
}
