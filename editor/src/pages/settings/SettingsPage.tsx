/** Secrets, data sources, queries, keys and the audit trail, one tab each. */

import type { ReactElement } from "react";
import { NavLink, Navigate, useParams } from "react-router";

import { ResourcePage } from "./ResourcePage";
import { SETTINGS } from "./resources";
import "./settings.css";

export default function SettingsPage(): ReactElement {
  const { part } = useParams();
  const resource = SETTINGS.find(({ path }) => path === part);
  if (resource === undefined) return <Navigate to={`/settings/${SETTINGS[0]!.path}`} replace />;
  return (
    <div className="content">
      <nav className="tabs-list" aria-label="Settings">
        {SETTINGS.map(({ path, title }) => (
          <NavLink key={path} to={`/settings/${path}`} className="tab settings-tab">
            {title}
          </NavLink>
        ))}
      </nav>
      <ResourcePage key={resource.path} resource={resource} />
    </div>
  );
}
