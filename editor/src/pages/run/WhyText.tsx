/** Why a run or one of its nodes is where it is: the server's words, what is waited for, and who decided. */

import { CircleHelp, Copy } from "lucide-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { call } from "../../api/client";
import { Button } from "../../ui/Button";
import { Notice, Problem } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { withCode } from "../../ui/withCode";
import { useAsk } from "../data";
import { SUSPENSIONS } from "../suspension";

export type Place = { nodeID: string; scope: string };

/** As the server says them: each kind has some of these. */
interface Reason extends Partial<Place> {
  readonly kind: string;
  readonly status?: string;
  readonly event?: string | null;
  readonly events?: Readonly<Record<string, unknown>> | null;
  /** The signal that has come for it, which it takes when the run goes on. */
  readonly arrived?: { event: string; seq: number };
  readonly match?: unknown;
  readonly childID?: string | null;
  readonly dueAt?: string | null;
  /** The one-time address that answers it, for those who may. */
  readonly url?: string | null;
  readonly since?: string | null;
  readonly attempt?: number;
  readonly worker?: string | null;
  readonly iteration?: string;
  readonly reason?: unknown;
  readonly hint?: string;
  readonly value?: number;
  /** What is paused: the workflow or the tenant. */
  readonly paused?: string;
  readonly by?: string;
  readonly error?: { code?: string | null; message?: string | null } | null;
  readonly why?: readonly Reason[];
}

interface Decider extends Place {
  readonly seq: number;
  readonly handle: string | null;
  readonly expression?: string;
  readonly value?: unknown;
  readonly error?: { code?: string | null; message?: string | null };
}

interface Incoming {
  readonly edgeID: string;
  readonly from: string;
  readonly handle: string;
  readonly verdict: "open" | "live" | "dead";
}

interface Answer {
  readonly sentence: string;
  readonly waitsFor: readonly unknown[];
  readonly decidedBy: readonly unknown[];
  readonly omitted: boolean;
  readonly edges?: readonly unknown[];
}

type Select = (place: Place) => void;

export function WhyRun({ instanceID, status, onSelect }: { instanceID: string; status: string; onSelect: Select }): ReactElement | null {
  const why = useQuery({ queryKey: ["get_why", instanceID, status], queryFn: ({ signal }) => call("get_why", { path: { instanceID }, signal }) });
  if (why.error) return <Problem error={why.error} onRetry={() => void why.refetch()} />;
  return why.data === undefined ? null : <Why answer={why.data} onSelect={onSelect} />;
}

export function WhyNode({ instanceID, nodeID, scope, onSelect }: Place & { instanceID: string; onSelect: Select }): ReactElement | null {
  const why = useAsk("get_why_node", { path: { instanceID, node: nodeID }, query: { scope } }, { staleMs: 1_000 });
  return why.data === undefined ? null : <Why answer={why.data} onSelect={onSelect} />;
}

function Why({ answer, onSelect }: { answer: Answer; onSelect: Select }): ReactElement {
  const [waitsFor, decidedBy, edges] = [answer.waitsFor as readonly Reason[], answer.decidedBy as readonly Decider[], (answer.edges ?? []) as readonly Incoming[]];
  return (
    <Notice kind="info" action={<CircleHelp size={16} aria-hidden />}>
      <strong>Why?</strong> {withCode(answer.sentence)}
      {waitsFor.length > 0 && (
        <>
          <p className="why-head">Waits for</p>
          <Reasons reasons={waitsFor} onSelect={onSelect} />
        </>
      )}
      {decidedBy.length > 0 && (
        <>
          <p className="why-head">Decided by</p>
          <ul className="why">
            {decidedBy.map((each) => (
              <li key={`${each.nodeID} ${each.scope}`}>
                <PlaceButton place={each} onSelect={onSelect} /> {each.error ? `failed: ${each.error.message || "without a message"} (${each.error.code ?? ""})` : <>left by <code>{each.handle ?? "no exit"}</code></>}
                {each.expression !== undefined && (
                  <>
                    : <code>{each.expression}</code> was <code>{JSON.stringify(each.value)}</code>
                  </>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {edges.length > 1 && (
        <>
          <p className="why-head">Ways here</p>
          <ul className="why">
            {edges.map((edge) => (
              <li key={edge.edgeID}>
                <code>{edge.from}</code> by <code>{edge.handle}</code>: {VERDICTS[edge.verdict]}
              </li>
            ))}
          </ul>
        </>
      )}
      {answer.omitted && <p className="faint small">There are more reasons than are listed.</p>}
    </Notice>
  );
}

const VERDICTS = { live: "taken", dead: "not taken", open: "not decided yet" } as const;

function Reasons({ reasons, onSelect }: { reasons: readonly Reason[]; onSelect: Select }): ReactElement {
  return (
    <ul className="why">
      {reasons.map((reason, index) => (
        <li key={index}>
          {reason.nodeID && <PlaceButton place={{ nodeID: reason.nodeID, scope: reason.scope ?? "" }} onSelect={onSelect} />} <ReasonText reason={reason} />
          {reason.why !== undefined && reason.why.length > 0 && <Reasons reasons={reason.why} onSelect={onSelect} />}
        </li>
      ))}
    </ul>
  );
}

function PlaceButton({ place: { nodeID, scope }, onSelect }: { place: Place; onSelect: Select }): ReactElement {
  return (
    <>
      <button type="button" className="link" onClick={() => onSelect({ nodeID, scope })}>
        {nodeID}
      </button>
      {scope !== "" && <code className="faint"> {scope}</code>}
    </>
  );
}

/** A reason of a kind that is new to this page is shown by its name. */
function ReasonText({ reason }: { reason: Reason }): ReactElement {
  const { kind, dueAt, since, error } = reason;
  const until = dueAt && (
    <>
      {" "}
      due <Ago time={dueAt} />
    </>
  );
  switch (kind) {
    case "signal": {
      const { url } = reason;
      if (url) {
        return (
          <>
            a call of its address <code>{url}</code>{" "}
            <Button onClick={() => void navigator.clipboard.writeText(url).then(() => toast("Copied"))}>
              <Copy size={14} aria-hidden /> Copy
            </Button>
            {until && <>;{until}</>}
          </>
        );
      }
      const names = reason.event ? [reason.event] : Object.keys(reason.events ?? {});
      return (
        <>
          the signal{" "}
          {names.map((name, index) => (
            <span key={name}>
              {index > 0 && " or "}
              <code>{name}</code>
            </span>
          ))}
          {reason.match != null && (
            <>
              {" "}
              with <code>{JSON.stringify(reason.match)}</code>
            </>
          )}
          {reason.arrived ? <>, which has arrived and is delivered when the run goes on</> : until && <>;{until}</>}
        </>
      );
    }
    case "timer":
      return error ? (
        <>
          try {reason.attempt}, since the last one failed: {withCode(error.message ?? "")} <code className="faint">{error.code}</code>;{until}
        </>
      ) : (
        <>a time{until}</>
      );
    case "child":
      return reason.childID ? (
        <>
          the run <Link to={`/runs/${reason.childID}`}>{reason.childID}</Link>
        </>
      ) : (
        <>a run that it starts</>
      );
    case "worker":
      return (
        <>
          a worker{reason.worker ? <> ({reason.worker})</> : ""} to end try {reason.attempt}
          {since && (
            <>
              , begun <Ago time={since} />
            </>
          )}
        </>
      );
    case "iteration":
      return (
        <>
          the iteration <code>{reason.iteration}</code>
        </>
      );
    case "node":
      return <>{reason.status === "pending" ? "is not reached yet" : `is ${reason.status}`}</>;
    case "paused":
    case "suspended": {
      const words = SUSPENSIONS[reason.reason as keyof typeof SUSPENSIONS] as (typeof SUSPENSIONS)["PAUSED"] | undefined;
      if (reason.paused) {
        return (
          <>
            the {reason.paused} to be resumed; it was paused by {reason.by}
            {since && (
              <>
                {" "}
                <Ago time={since} />
              </>
            )}
          </>
        );
      }
      return (
        <>
          the run to be resumed{words && <>: {words.short}</>}. {reason.hint}
          {until && <> It is tried again,{until}.</>}
        </>
      );
    }
    case "limit":
      return <>an iteration to end: {reason.value} of them go on at once at most</>;
    default:
      return (
        <>
          something else (<code>{kind}</code>){until}
        </>
      );
  }
}
