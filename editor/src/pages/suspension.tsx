/** Why runs are suspended, in plain words: what it is, what goes on by itself, and what to do. */

import type { ReactElement } from "react";

import type { Schemas } from "../api/client";
import { withCode } from "../ui/withCode";
import { Notice } from "../ui/Notice";
import { Ago } from "../ui/time";

type SuspendReason = Schemas["SuspendReason"];
type Suspended = Schemas["Suspended"];

interface Words {
  /** Behind "suspended", in lists. */
  readonly short: string;
  readonly what: string;
  readonly byItself: string;
}

const BY_OTHER_CODE = "It goes on by itself as soon as code of it is deployed that fits, and is tried again from time to time.";
const UNTIL_RESUMED = "It stays so until somebody resumes it.";

export const SUSPENSIONS: Readonly<Record<SuspendReason, Words>> = {
  PAUSED: { short: "paused by somebody", what: "Somebody has paused the run.", byItself: UNTIL_RESUMED },
  FUNCTION_ERROR: { short: "its function failed", what: "Its workflow function failed for good.", byItself: UNTIL_RESUMED },
  CRASHED: { short: "its worker crashed again and again", what: "Worker processes crashed again and again while the run was in them.", byItself: UNTIL_RESUMED },
  NONDETERMINISM: { short: "its code does not fit its log", what: "Its code no longer does what its log says.", byItself: BY_OTHER_CODE },
  DEFINITION_ERROR: { short: "its code calls a step in a wrong way", what: "Its code calls a step in a way that is not possible.", byItself: BY_OTHER_CODE },
  ENGINE_DEFECT: { short: "a fault in anabranch", what: "anabranch itself fails at this run: that is a fault in it, not in the workflow.", byItself: "It goes on by itself when a worker of another release looks at it." },
  HISTORY_LOST: { short: "the database lost rows of its log", what: "The database was failed over or restored to an earlier state, without rows of this run that had been stored.", byItself: UNTIL_RESUMED },
  UNKNOWN_NODE_TYPE: { short: "no worker has its node types", what: "No running worker has all of its node types.", byItself: "It goes on by itself as soon as such a worker runs." },
  UNSERVED_POOL: { short: "no worker serves its pools", what: "No running worker serves all pools of its nodes.", byItself: "It goes on by itself as soon as such a worker runs." },
  UNKNOWN_WORKFLOW: { short: "no worker has its code", what: "No running worker has the code of this workflow in its version.", byItself: "It goes on by itself as soon as such a worker runs." },
};

/** Above a suspended run, with the server's words for this one. */
export function SuspendedNotice({ suspended: { reason, message, hint, since }, triedAt }: { suspended: Suspended; triedAt: string | null }): ReactElement {
  const { what, byItself } = SUSPENSIONS[reason];
  return (
    <Notice kind={reason === "PAUSED" ? "info" : "warning"}>
      <strong>{what}</strong> Suspended <Ago time={since} />.
      {message && <p>{withCode(message)}</p>}
      <p>
        {byItself} {triedAt !== null && <>Next try <Ago time={triedAt} />.</>} <strong>{hint}</strong>
      </p>
      <p className="faint small">Until then no node starts and no timer fires. Signals are kept for it, runs that it started go on, and its deadline counts.</p>
    </Notice>
  );
}
