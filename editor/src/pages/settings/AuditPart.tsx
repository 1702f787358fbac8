/** The audit trail: who changed what, newest first. */

import { ScrollText } from "lucide-react";
import type { ReactElement } from "react";

import { Empty } from "../../ui/Notice";
import { absolute } from "../../ui/time";
import { ListCard } from "../lists/ListCard";
import { useList } from "../lists/useList";

export function AuditPart(): ReactElement {
  const list = useList("list_audit");
  return (
    <>
      <p className="page-about">Who made, changed, deleted or started something, newest first. Nobody can change this list unnoticed.</p>
      <ListCard list={list} label="Audit trail" columns={["When", "Who", "What", "Details"]} empty={<Empty icon={<ScrollText size={32} />} title="Nothing has been recorded yet" />}>
        {list.items.map(({ value: { position, at, actor, action, target, details } }) => (
          <tr key={position} data-audit={action}>
            <td className="tight">
              <time dateTime={at}>{absolute(at)}</time>
            </td>
            <td>
              <code>{actor}</code>
            </td>
            <td>
              {action.replaceAll(/[._]/g, " ")}
              <div className="small faint">
                <code>{target}</code>
              </div>
            </td>
            <td className="wide small">
              <span className="audit-details">
                {Object.entries(details).map(([name, value]) => (
                  <span key={name}>
                    <span className="faint">{name}</span> {typeof value === "string" ? value : JSON.stringify(value)}
                  </span>
                ))}
              </span>
            </td>
          </tr>
        ))}
      </ListCard>
    </>
  );
}
