/** Where something is used: the workflows whose newest version names it. */

import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Problem, Skeleton } from "../../ui/Notice";
import { findUses, WORKFLOWS_MAX } from "./uses";

interface UsesDialogProps {
  what: string;
  uses: (documentText: string) => boolean;
  onClose: () => void;
}

export function UsesDialog({ what, uses, onClose }: UsesDialogProps): ReactElement {
  const found = useQuery({ queryKey: ["uses", what], queryFn: ({ signal }) => findUses(uses, signal), staleTime: 0, gcTime: 0 });
  return (
    <Dialog open onClose={onClose} title={`Where ${what} is used`} about="Looks at the newest version of every drawn workflow." footer={<Button onClick={onClose}>Close</Button>}>
      {found.error && <Problem error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && !found.error && <Skeleton lines={3} />}
      {found.data && (
        <div role="status">
          {found.data.workflows.length === 0 ? (
            <p>No workflow uses it.</p>
          ) : (
            <ul className="uses">
              {found.data.workflows.map(({ name, title }) => (
                <li key={name}>
                  <Link to={`/workflows/${encodeURIComponent(name)}`}>{title ?? name}</Link> <code className="faint">{name}</code>
                </li>
              ))}
            </ul>
          )}
          {found.data.isCut && <p className="faint">Only the first {WORKFLOWS_MAX.toLocaleString("en")} workflows were looked at.</p>}
        </div>
      )}
    </Dialog>
  );
}
