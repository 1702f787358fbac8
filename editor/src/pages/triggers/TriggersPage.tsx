/** By workflow: everything that the runs of each workflow begin by. */

import { Zap } from "lucide-react";
import type { ReactElement } from "react";
import { Link } from "react-router";

import type { Schemas } from "../../api/client";
import { Empty } from "../../ui/Notice";
import { ListCard } from "../lists/ListCard";
import { useList } from "../lists/useList";
import { TriggersFrame } from "../schedules/TriggersFrame";

type Beginning = Schemas["BeginningSummary"];

export default function TriggersPage(): ReactElement {
  const list = useList("list_triggers");
  return (
    <TriggersFrame title="What workflows begin by">
      <ListCard
        list={list}
        label="What workflows begin by"
        columns={["Workflow", "Its runs begin by"]}
        empty={
          <Empty icon={<Zap size={32} />} title="There is no workflow">
            A workflow begins at its start, or at triggers: webhooks, schedules, topics, failures of other workflows, calls of other workflows.
          </Empty>
        }
      >
        {list.items.map(({ value: workflow }) => (
          <tr key={workflow.workflowID} data-begins={workflow.name}>
            <td>
              <Link to={`/workflows/${encodeURIComponent(workflow.name)}`}>{workflow.name}</Link> <span className="faint">v{workflow.version}</span>
            </td>
            <td className="wide">
              {workflow.beginnings.length === 0 && <span className="faint">nothing: its triggers are disabled</span>}
              {workflow.beginnings.map((beginning) => (
                <div key={beginning.nodeID ?? beginning.savedID ?? beginning.type}>
                  {causeOf(beginning)} <span className="small faint">{placeOf(beginning)}</span>
                </div>
              ))}
            </td>
          </tr>
        ))}
      </ListCard>
    </TriggersFrame>
  );
}

function causeOf({ type, subject }: Beginning): ReactElement {
  switch (type) {
    case "start":
      return <>starts by hand and through the API</>;
    case "workflowCall":
      return <>calls of other workflows</>;
    case "failure":
      return <>failed runs of {subject ?? "any other workflow"}</>;
    case "webhook":
      return (
        <>
          requests to <code>/hooks/…/{subject}</code>
        </>
      );
    case "schedule":
      return (
        <>
          the schedule <code>{subject}</code>
        </>
      );
    case "topic":
      return (
        <>
          messages on <code>{subject}</code>
        </>
      );
  }
}

function placeOf({ type, nodeID, savedID, enabled }: Beginning): string {
  if (savedID === null) return nodeID === null ? "" : `at its node ${nodeID}`;
  if (!enabled) return "saved, and switched off";
  return type === "schedule" ? "saved as a schedule" : "saved as a subscription";
}
