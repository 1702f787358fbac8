/** Schedules: what starts by the clock, when it is due next, and how the last start went. */

import { CalendarClock, MoreHorizontal, Pencil, Play, Plus, Rewind, Trash2 } from "lucide-react";
import { useState, type ReactElement } from "react";
import { Link, useNavigate } from "react-router";

import { ApiError, call, type Schemas } from "../../api/client";
import { setMember } from "../../json";
import { Button, IconButton } from "../../ui/Button";
import { Menu } from "../../ui/Menu";
import { Empty } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh } from "../data";
import { ConfirmDialog } from "../lists/ConfirmDialog";
import { ListCard } from "../lists/ListCard";
import { useList, type Listed } from "../lists/useList";
import { useMay } from "../session";
import { BackfillDialog } from "./BackfillDialog";
import { ScheduleDialog } from "./ScheduleDialog";
import { TriggersFrame } from "./TriggersFrame";

type Schedule = Schemas["ScheduleSummary"];

/** A schedule that starts something is seen to do so. */
const EVERY_MS = 3_000;

type Open = { kind: "new" } | { kind: "edit" | "backfill" | "delete"; schedule: Listed<Schedule> };

export default function SchedulesPage(): ReactElement {
  const list = useList("list_schedules", { everyMs: EVERY_MS });
  const mayEdit = useMay("editor");
  const mayStart = useMay("operator");
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const create = mayEdit && (
    <Button look="primary" onClick={() => setOpen({ kind: "new" })}>
      <Plus size={15} /> New schedule
    </Button>
  );
  return (
    <TriggersFrame title="Schedules" buttons={list.items.length > 0 && create}>
      <ListCard
        list={list}
        label="Schedules"
        columns={["Name", "When", "Next", "Last", "State"]}
        hasVerbs={mayStart}
        empty={
          <Empty icon={<CalendarClock size={32} />} title="No schedule yet" action={create}>
            A schedule starts a workflow by the clock: every weekday at nine, or every fifteen minutes.
          </Empty>
        }
      >
        {list.items.map((schedule) => (
          <Row key={schedule.value.scheduleID} schedule={schedule} mayEdit={mayEdit} mayStart={mayStart} onOpen={(kind) => setOpen({ kind, schedule })} />
        ))}
      </ListCard>
      {open?.kind === "new" && <ScheduleDialog schedule={null} onClose={close} />}
      {open?.kind === "edit" && <ScheduleDialog schedule={open.schedule} onClose={close} />}
      {open?.kind === "backfill" && <BackfillDialog schedule={open.schedule.value} onClose={close} />}
      {open?.kind === "delete" && (
        <ConfirmDialog
          title={`Delete ${open.schedule.value.name}?`}
          about="It starts nothing any more. Runs that it has started go on."
          verb="Delete"
          onConfirm={async () => {
            await call("delete_schedule", { path: { schedule: open.schedule.value.scheduleID } });
            refresh("list_schedules");
            toast(`${open.schedule.value.name} is deleted.`);
          }}
          onClose={close}
        />
      )}
    </TriggersFrame>
  );
}

interface RowProps {
  schedule: Listed<Schedule>;
  mayEdit: boolean;
  mayStart: boolean;
  onOpen: (kind: "edit" | "backfill" | "delete") => void;
}

function Row({ schedule, mayEdit, mayStart, onOpen }: RowProps): ReactElement {
  const { scheduleID, name, workflow, version, enabled, nextAt, nodeID } = schedule.value;
  const navigate = useNavigate();
  const [isBusy, setBusy] = useState(false);
  const say = (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" });
  const toggle = () => {
    setBusy(true);
    call("update_schedule", { path: { schedule: scheduleID }, bodyText: setMember(schedule.text, "enabled", String(!enabled)) })
      .then(() => refresh("list_schedules"), say)
      .finally(() => setBusy(false));
  };
  const trigger = () => {
    setBusy(true);
    call("trigger_schedule", { path: { schedule: scheduleID }, bodyText: "{}" })
      .then(({ instanceID }) => {
        toast(`${name} has started a run.`, { action: { label: "Open it", run: () => void navigate(`/runs/${instanceID}`) } });
        refresh("list_schedules", "list_runs");
      }, say)
      .finally(() => setBusy(false));
  };
  return (
    <tr data-schedule={name}>
      <td className="wide">
        <span className="name">{name}</span>
        <div className="small">
          <span className="faint">starts</span> <Link to={`/workflows/${encodeURIComponent(workflow)}`}>{workflow}</Link>
          {version !== null && <span className="faint"> v{version}</span>}
          {nodeID !== null && <span className="faint">, armed by its node {nodeID}</span>}
        </div>
      </td>
      <td>
        <Timing schedule={schedule.value} />
      </td>
      <td className="tight">{nextAt === null ? <span className="faint">–</span> : <Ago time={nextAt} />}</td>
      <td>
        <Last schedule={schedule.value} />
      </td>
      <td className="tight">
        {mayEdit && nodeID === null ? (
          <label className="check">
            <input type="checkbox" role="switch" checked={enabled} disabled={isBusy} onChange={toggle} aria-label={`${name} is enabled`} />
            <span>{enabled ? "on" : "off"}</span>
          </label>
        ) : (
          <span className={enabled ? "" : "off"}>{enabled ? "on" : "off"}</span>
        )}
      </td>
      {mayStart && (
        <td className="verbs">
          <Button small disabled={isBusy} onClick={trigger} aria-label={`Start now: ${name}`}>
            <Play size={13} aria-hidden /> Start now
          </Button>{" "}
          <Menu
            trigger={<IconButton label={`More about ${name}`} icon={<MoreHorizontal size={16} />} small />}
            entries={[
              { label: "Start past occurrences…", icon: <Rewind size={15} />, onSelect: () => onOpen("backfill") },
              ...(mayEdit && nodeID === null
                ? [
                    { label: "Edit…", icon: <Pencil size={15} />, onSelect: () => onOpen("edit") },
                    null,
                    { label: "Delete…", icon: <Trash2 size={15} />, danger: true, onSelect: () => onOpen("delete") },
                  ]
                : []),
            ]}
          />
        </td>
      )}
    </tr>
  );
}

function Timing({ schedule }: { schedule: Schedule }): ReactElement {
  const { kind, cron, timezone, every } = schedule;
  return (
    <>
      {kind === "cron" ? <code>{cron}</code> : `every ${every ?? ""}`}
      {kind === "cron" && <div className="small faint">{timezone}</div>}
    </>
  );
}

function Last({ schedule }: { schedule: Schedule }): ReactElement {
  const { lastAt, lastInstanceID, lastError } = schedule;
  const error = lastError as { code?: string; message?: string; occurrenceAt?: string } | null;
  return (
    <>
      {lastAt === null ? (
        error === null && <span className="faint">never</span>
      ) : lastInstanceID === null ? (
        <Ago time={lastAt} />
      ) : (
        <Link to={`/runs/${lastInstanceID}`}>
          <Ago time={lastAt} />
        </Link>
      )}
      {error !== null && (
        <div className="small run-error">
          Not started{error.occurrenceAt && <> (<Ago time={error.occurrenceAt} />)</>}: {error.message} <code>{error.code}</code>
        </div>
      )}
    </>
  );
}
