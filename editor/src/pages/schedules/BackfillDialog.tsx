/** Starting the runs of past occurrences: each occurrence has one run, so it may be repeated. */

import { useId, useState, type ReactElement } from "react";
import { Link } from "react-router";

import { call, serverNow, type Answer, type Schemas } from "../../api/client";
import { useAttempt } from "../../ui/attempt";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Problem } from "../../ui/Notice";
import { absolute } from "../../ui/time";
import { refresh } from "../data";

const DAY_MS = 86_400_000;

/** More runs than these are seen in the list of runs. */
const SHOWN_MAX = 20;

export function BackfillDialog({ schedule, onClose }: { schedule: Schemas["ScheduleSummary"]; onClose: () => void }): ReactElement {
  const id = useId();
  const [from, setFrom] = useState(() => localText(serverNow() - DAY_MS));
  const [to, setTo] = useState(() => localText(serverNow()));
  const [done, setDone] = useState<Answer<"backfill_schedule">["items"] | null>(null);
  const { attempt, isBusy, problem } = useAttempt();
  const start = async () => {
    const answer = await call("backfill_schedule", {
      path: { schedule: schedule.scheduleID },
      body: { from: new Date(from).toISOString(), to: new Date(to).toISOString() },
    });
    setDone(answer.items);
    refresh("list_schedules", "list_runs");
  };
  const fresh = done?.filter(({ created }) => created).length ?? 0;
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Start past occurrences of ${schedule.name}`}
      about="Starts a run for each occurrence of this time that has none yet; up to 1,000 at once. Times are those of this device."
      onSubmit={() => attempt(start)}
      footer={
        done === null ? (
          <>
            <Button onClick={onClose}>Not now</Button>
            <Button type="submit" look="primary" disabled={isBusy || from === "" || to === ""}>
              Start the runs
            </Button>
          </>
        ) : (
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        )
      }
    >
      {done === null ? (
        <div className="row row-wrap">
          <div className="field">
            <label htmlFor={`${id}-from`}>From</label>
            <input id={`${id}-from`} className="input" type="datetime-local" required value={from} onChange={(event) => setFrom(event.target.value)} />
          </div>
          <div className="field">
            <label htmlFor={`${id}-to`}>Before</label>
            <input id={`${id}-to`} className="input" type="datetime-local" required value={to} onChange={(event) => setTo(event.target.value)} />
          </div>
        </div>
      ) : (
        <div role="status">
          <p>
            {fresh} {fresh === 1 ? "run is" : "runs are"} started{done.length > fresh ? `; ${done.length - fresh} had one already` : ""}.
          </p>
          <ul className="uses">
            {done.slice(0, SHOWN_MAX).map(({ occurrenceAt, instanceID, created }) => (
              <li key={instanceID}>
                <Link to={`/runs/${instanceID}`}>{absolute(occurrenceAt)}</Link> {!created && <span className="faint small">had a run</span>}
              </li>
            ))}
          </ul>
          {done.length > SHOWN_MAX && <Link to={`/runs?workflow=${encodeURIComponent(schedule.workflow)}`}>All runs of {schedule.workflow}</Link>}
        </div>
      )}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

/** A time as a field for local times has it. */
function localText(time: number): string {
  const at = new Date(time);
  return new Date(time - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
