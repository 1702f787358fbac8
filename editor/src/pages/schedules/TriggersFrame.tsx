/** The frame of the pages under "Triggers": their heading with its buttons, and the links to each of them. */

import type { ReactElement, ReactNode } from "react";

import { PageTabs } from "../lists/PageTabs";
import { useTitle } from "../title";

const TABS = [
  { to: "/schedules", title: "Schedules" },
  { to: "/schedules/topics", title: "Topics" },
  { to: "/schedules/webhooks", title: "Webhooks" },
  { to: "/schedules/workflows", title: "By workflow" },
] as const;

export function TriggersFrame({ title, buttons, children }: { title: string; buttons?: ReactNode; children: ReactNode }): ReactElement {
  useTitle(title);
  return (
    <div className="content">
      <div className="content-head">
        <h1>Triggers</h1>
        {buttons}
      </div>
      <PageTabs label="What starts runs" tabs={TABS} />
      {children}
    </div>
  );
}
