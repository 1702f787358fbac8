/** Why a run or one of its nodes is where it is, in the server's words. */

import { CircleHelp } from "lucide-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";

import { call } from "../../api/client";
import { Notice, Problem } from "../../ui/Notice";
import { withCode } from "../../ui/forms/SchemaForm";
import { useAsk } from "../data";

export function WhyRun({ instanceID, status }: { instanceID: string; status: string }): ReactElement | null {
  const why = useQuery({ queryKey: ["get_why", instanceID, status], queryFn: ({ signal }) => call("get_why", { path: { instanceID }, signal }) });
  if (why.error) return <Problem error={why.error} onRetry={() => void why.refetch()} />;
  if (why.data === undefined) return null;
  return (
    <Notice kind="info">
      <strong>Why?</strong> {withCode(why.data.sentence)}
    </Notice>
  );
}

export function WhyNode({ instanceID, nodeID, scope }: { instanceID: string; nodeID: string; scope: string }): ReactElement | null {
  const why = useAsk("get_why_node", { path: { instanceID, node: nodeID }, query: { scope } }, { staleMs: 1_000 });
  if (why.data === undefined) return null;
  return (
    <Notice kind="info" action={<CircleHelp size={16} aria-hidden />}>
      <strong>Why?</strong> {withCode(why.data.sentence)}
    </Notice>
  );
}
