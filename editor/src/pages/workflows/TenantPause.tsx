/** Whether all runs of the tenant are paused, and the switch for it. */

import { Pause, Play } from "lucide-react";
import { useState, type ReactElement } from "react";

import { ApiError, call } from "../../api/client";
import { Button } from "../../ui/Button";
import { Notice } from "../../ui/Notice";
import { absolute } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh, useAsk } from "../data";
import { useMay } from "../session";

const EVERY_MS = 30_000;

export function TenantPause(): ReactElement | null {
  const pause = useAsk("get_pause", {}, { everyMs: EVERY_MS });
  const mayPause = useMay("admin");
  const [isSure, setSure] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const paused = pause.data?.paused ?? null;
  const press = () => {
    if (paused === null && !isSure) {
      setSure(true);
      return;
    }
    setBusy(true);
    call(paused === null ? "pause_tenant" : "resume_tenant", {})
      .then(
        () => refresh("get_pause", "list_runs"),
        (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" }),
      )
      .finally(() => {
        setBusy(false);
        setSure(false);
      });
  };
  if (paused !== null) {
    return (
      <Notice
        kind="warning"
        action={
          mayPause && (
            <Button small disabled={isBusy} onClick={press}>
              <Play size={13} aria-hidden /> Resume all
            </Button>
          )
        }
      >
        All runs have been paused since {absolute(paused.since)} by <code>{paused.by}</code>.
      </Notice>
    );
  }
  if (!mayPause || pause.data === undefined) return null;
  return (
    <p className="tenant-pause">
      <Button small look="quiet" disabled={isBusy} onClick={press} onBlur={() => setSure(false)}>
        <Pause size={13} aria-hidden /> {isSure ? "Really pause all runs?" : "Pause all runs"}
      </Button>
    </p>
  );
}
