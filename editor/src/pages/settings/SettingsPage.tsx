/** Settings: secrets, variables, data sources, data queries, keys and the audit trail. What the key may not see is not offered. */

import type { ReactElement } from "react";
import { Navigate, useParams } from "react-router";

import { Skeleton } from "../../ui/Notice";
import { NoPermission } from "../lists/NoPermission";
import { PageTabs } from "../lists/PageTabs";
import { useMay, useSession } from "../session";
import { NotFoundPage } from "../shell/NotFoundPage";
import { useTitle } from "../title";
import { AuditPart } from "./AuditPart";
import { KeysPart } from "./KeysPart";
import { QueriesPart } from "./QueriesPart";
import { SecretsPart } from "./SecretsPart";
import { SourcesPart } from "./SourcesPart";
import { VariablesPart } from "./VariablesPart";
import "./settings.css";

interface Part {
  readonly title: string;
  readonly role: "viewer" | "admin";
  readonly Shown: () => ReactElement;
}

const PARTS: Readonly<Record<string, Part>> = {
  secrets: { title: "Secrets", role: "admin", Shown: SecretsPart },
  variables: { title: "Variables", role: "viewer", Shown: VariablesPart },
  sources: { title: "Data sources", role: "viewer", Shown: SourcesPart },
  queries: { title: "Data queries", role: "viewer", Shown: QueriesPart },
  keys: { title: "Keys", role: "admin", Shown: KeysPart },
  audit: { title: "Audit trail", role: "admin", Shown: AuditPart },
};

export default function SettingsPage(): ReactElement {
  const { part: name } = useParams();
  const isAdmin = useMay("admin");
  const isKnown = useSession((session) => session.me !== null);
  const part = name === undefined ? undefined : PARTS[name];
  useTitle(part?.title ?? "Settings");
  if (!isKnown) return <Skeleton lines={6} />;
  if (name === undefined) return <Navigate to={isAdmin ? "/settings/secrets" : "/settings/sources"} replace />;
  if (part === undefined) return <NotFoundPage />;
  const tabs = Object.entries(PARTS)
    .filter(([, { role }]) => role === "viewer" || isAdmin)
    .map(([each, { title }]) => ({ to: `/settings/${each}`, title }));
  return (
    <div className="content">
      <h1>Settings</h1>
      <PageTabs label="Settings" tabs={tabs} />
      {part.role === "admin" && !isAdmin ? <NoPermission what={part.title.toLowerCase()} role="admin" /> : <part.Shown key={name} />}
    </div>
  );
}
