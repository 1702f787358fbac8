import { Lock } from "lucide-react";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { Empty } from "../../ui/Notice";
import { useSession } from "../session";

/** Shown in place of what the key may not see. */
export function NoPermission({ what, role }: { what: string; role: string }): ReactElement {
  const own = useSession(({ me }) => me?.role);
  return (
    <div className="card">
      <Empty icon={<Lock size={28} />} title={`Your key may not see ${what}`} action={<Link to="/">To the workflows</Link>}>
        This needs a key of the role {role}. Yours has the role {own ?? "unknown"}.
      </Empty>
    </div>
  );
}
