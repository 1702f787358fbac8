/** Webhooks: the addresses that are armed, and what a call of each begins. They are changed in their workflows. */

import { Copy, Webhook } from "lucide-react";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { IconButton } from "../../ui/Button";
import { Empty } from "../../ui/Notice";
import { toast } from "../../ui/toasts";
import { ListCard } from "../lists/ListCard";
import { useList } from "../lists/useList";
import { TriggersFrame } from "../schedules/TriggersFrame";

const AUTH = { none: "anybody may call it", header: "a secret in a header", basic: "name and password", hmac: "signed requests" } as const;
const RESPONDS = { immediately: "at once", atEnd: "when the run has ended", respondNode: "by its respond node" } as const;

export default function WebhooksPage(): ReactElement {
  const list = useList("list_webhooks");
  return (
    <TriggersFrame title="Webhooks">
      <ListCard
        list={list}
        label="Webhooks"
        columns={["Address", "Begins", "Called with", "Answers"]}
        hasVerbs={false}
        empty={
          <Empty icon={<Webhook size={32} />} title="No webhook is armed">
            A workflow with a webhook among its nodes has an address as soon as it is published. A call of it starts a run, with the request as its input.
          </Empty>
        }
      >
        {list.items.map(({ value: hook }) => (
          <tr key={hook.triggerID} data-webhook={hook.path}>
            <td className="wide">
              {hook.methods.join(", ")} <code className="name">{hook.url}</code>{" "}
              <IconButton
                label={`Copy the address ${hook.path}`}
                icon={<Copy size={14} />}
                small
                onClick={() => void navigator.clipboard.writeText(hook.url).then(() => toast("Copied"))}
              />
            </td>
            <td>
              <Link to={`/workflows/${encodeURIComponent(hook.name)}`}>{hook.name}</Link> <span className="faint">v{hook.version}</span>
              <div className="small faint">at its node {hook.nodeID}</div>
            </td>
            <td>{AUTH[hook.auth]}</td>
            <td>{RESPONDS[hook.respond]}</td>
          </tr>
        ))}
      </ListCard>
    </TriggersFrame>
  );
}
