import { Compass } from "lucide-react";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { Empty } from "../../ui/Notice";

export function NotFoundPage(): ReactElement {
  return (
    <Empty icon={<Compass size={32} />} title="There is no such page" action={<Link to="/">To the workflows</Link>}>
      The address may be mistyped, or what it names has been deleted.
    </Empty>
  );
}
