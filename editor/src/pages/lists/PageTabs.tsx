/** Links to the parts of a page that has several. */

import type { ReactElement } from "react";
import { NavLink } from "react-router";

export function PageTabs({ label, tabs }: { label: string; tabs: readonly { to: string; title: string }[] }): ReactElement {
  return (
    <nav className="tabs-list page-tabs" aria-label={label}>
      {tabs.map(({ to, title }) => (
        <NavLink key={to} to={to} end className="tab">
          {title}
        </NavLink>
      ))}
    </nav>
  );
}
