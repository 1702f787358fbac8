/** Topics: which workflows start when a message is published, and publishing one to try it. */

import { Bell, Plus, Send } from "lucide-react";
import { useId, useMemo, useState, type ReactElement } from "react";
import { Link } from "react-router";

import { call, type Answer, type Schemas } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { FormContext, NO_SERVICES } from "../../ui/forms/context";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import type { JsonSchema } from "../../ui/forms/schema";
import { Empty, Notice, Problem } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh, useAsk } from "../data";
import { ConfirmDialog } from "../lists/ConfirmDialog";
import { FormDialog } from "../lists/FormDialog";
import { ListCard } from "../lists/ListCard";
import { useList } from "../lists/useList";
import { TriggersFrame } from "../schedules/TriggersFrame";
import { useMay } from "../session";

type Subscription = Schemas["SubscriptionSummary"];

type Open = { kind: "subscribe" } | { kind: "publish"; topic: string } | { kind: "delete"; subscription: Subscription };

export default function TopicsPage(): ReactElement {
  const list = useList("list_all_subscriptions");
  const mayEdit = useMay("editor");
  const mayPublish = useMay("operator");
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const subscribe = mayEdit && (
    <Button look="primary" onClick={() => setOpen({ kind: "subscribe" })}>
      <Plus size={15} /> Subscribe a workflow
    </Button>
  );
  const items = list.items.map(({ value }) => value).toSorted((left, right) => left.pattern.localeCompare(right.pattern) || left.name.localeCompare(right.name));
  return (
    <TriggersFrame
      title="Topics"
      buttons={
        <>
          {mayPublish && (
            <Button onClick={() => setOpen({ kind: "publish", topic: "" })}>
              <Send size={14} /> Publish a message
            </Button>
          )}
          {list.items.length > 0 && subscribe}
        </>
      }
    >
      <ListCard
        list={list}
        label="Subscriptions"
        columns={["Topic", "Starts", "Since"]}
        hasVerbs={mayPublish}
        empty={
          <Empty icon={<Bell size={32} />} title="No workflow is subscribed to a topic" action={subscribe}>
            A message on a topic, such as user.signup, starts a run of each workflow that is subscribed to it. The message is the input of the run.
          </Empty>
        }
      >
        {items.map((subscription) => (
          <tr key={subscription.subscriptionID} data-subscription={subscription.pattern}>
            <td className="wide">
              <code className="name">{subscription.pattern}</code>
            </td>
            <td>
              <Link to={`/workflows/${encodeURIComponent(subscription.name)}`}>{subscription.name}</Link>
              {subscription.version !== null && <span className="faint"> v{subscription.version}</span>}
              {subscription.nodeID !== null && <div className="small faint">armed by its node {subscription.nodeID}</div>}
            </td>
            <td className="tight faint">
              <Ago time={subscription.createdAt} />
            </td>
            {mayPublish && (
              <td className="verbs">
                <Button small onClick={() => setOpen({ kind: "publish", topic: subscription.pattern })} aria-label={`Publish a message for ${subscription.pattern}`}>
                  <Send size={13} aria-hidden /> Publish
                </Button>{" "}
                {mayEdit && subscription.nodeID === null && (
                  <Button small look="danger" onClick={() => setOpen({ kind: "delete", subscription })} aria-label={`End… the subscription of ${subscription.name} to ${subscription.pattern}`}>
                    End…
                  </Button>
                )}
              </td>
            )}
          </tr>
        ))}
      </ListCard>
      {open?.kind === "subscribe" && <SubscribeDialog onClose={close} />}
      {open?.kind === "publish" && <PublishDialog topic={open.topic} onClose={close} />}
      {open?.kind === "delete" && (
        <ConfirmDialog
          title={`End the subscription to ${open.subscription.pattern}?`}
          about={`Messages start no run of ${open.subscription.name} any more. Runs that have begun go on.`}
          verb="End it"
          onConfirm={async () => {
            const { pattern, subscriptionID } = open.subscription;
            await call("unsubscribe", { path: { pattern, subscription: subscriptionID } });
            refresh("list_all_subscriptions");
          }}
          onClose={close}
        />
      )}
    </TriggersFrame>
  );
}

const SUBSCRIPTION: JsonSchema = {
  type: "object",
  required: ["pattern", "name"],
  properties: {
    pattern: {
      title: "Topic, or a pattern of topics",
      type: "string",
      description: "Words with dots between them. `*` stands for one word, `#` for any number of words: `orders.#` takes all topics that begin with `orders`.",
      "x-ui": { placeholder: "user.signup" },
    },
    name: { title: "Workflow", type: "string", "x-ui": { widget: "workflow" } },
  },
};

function SubscribeDialog({ onClose }: { onClose: () => void }): ReactElement {
  const workflows = useAsk("list_workflows", { query: { limit: 100 } }, { staleMs: 30_000 });
  const services = useMemo(() => ({ ...NO_SERVICES, workflows: workflows.data?.items.map(({ name }) => name) ?? [] }), [workflows.data]);
  const [text, setText] = useState('{"pattern": "", "name": ""}');
  const save = async () => {
    const { pattern = "", name = "" } = JSON.parse(text) as { pattern?: string; name?: string };
    if (pattern.trim() === "") throw new Error("A topic is needed, such as user.signup.");
    await call("subscribe", { path: { pattern: pattern.trim() }, body: { type: "workflow", name } });
    refresh("list_all_subscriptions");
    toast(`${name} starts with messages on ${pattern}.`);
  };
  return (
    <FormContext.Provider value={services}>
      <FormDialog title="Subscribe a workflow" schema={SUBSCRIPTION} text={text} onChange={setText} verb="Subscribe" onSave={save} onClose={onClose} />
    </FormContext.Provider>
  );
}

function PublishDialog({ topic: given, onClose }: { topic: string; onClose: () => void }): ReactElement {
  const id = useId();
  // A pattern is not a topic: its wildcards are for the person to fill in.
  const [topic, setTopic] = useState(given.replaceAll(/[*#]/g, "test"));
  const [payload, setPayload] = useState("{}");
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const [done, setDone] = useState<Answer<"publish"> | null>(null);
  const publish = () => {
    const wrong = jsonProblem(payload);
    if (wrong !== null) {
      setProblem(new Error(wrong));
      return;
    }
    setProblem(null);
    setBusy(true);
    call("publish", { path: { topic: topic.trim() }, bodyText: payload })
      .then((answer) => {
        setDone(answer);
        refresh("list_runs");
      }, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Publish a message"
      about="Each workflow that is subscribed to the topic starts a real run, with the message as its input."
      onSubmit={publish}
      footer={
        <>
          <Button onClick={onClose}>{done === null ? "Not now" : "Close"}</Button>
          <Button type="submit" look="primary" disabled={isBusy || topic.trim() === ""}>
            <Send size={14} /> {done === null ? "Publish" : "Publish again"}
          </Button>
        </>
      }
    >
      <div className="field">
        <label htmlFor={`${id}-topic`}>Topic</label>
        <input id={`${id}-topic`} className="input mono" required value={topic} placeholder="user.signup" autoComplete="off" spellCheck={false} onChange={(event) => setTopic(event.target.value)} />
      </div>
      <div className="field">
        <label htmlFor={`${id}-payload`}>Message, as JSON</label>
        <textarea id={`${id}-payload`} className="input mono" rows={6} spellCheck={false} value={payload} onChange={(event) => setPayload(event.target.value)} />
      </div>
      {done !== null && <Published message={done} />}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

function Published({ message: { runs, errors, unfinished } }: { message: Answer<"publish"> }): ReactElement {
  const refused = errors as { name?: string; code?: string; message?: string }[];
  return (
    <div role="status" className="stack">
      <Notice kind={refused.length > 0 ? "warning" : "info"}>
        {runs.length === 0 && refused.length === 0 && unfinished === 0 ? "It is published. No workflow is subscribed to this topic." : `It is published and has started ${runs.length} ${runs.length === 1 ? "run" : "runs"}.`}
        {unfinished > 0 && ` ${unfinished} more will be started later.`}
        <ul className="uses">
          {runs.map((instanceID) => (
            <li key={instanceID}>
              <Link to={`/runs/${instanceID}`}>{instanceID}</Link>
            </li>
          ))}
          {refused.map(({ name, code, message }, index) => (
            <li key={index}>
              {name}: {message} <code className="faint">{code}</code>
            </li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}
