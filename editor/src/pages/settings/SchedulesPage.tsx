import type { ReactElement } from "react";

import { ResourcePage } from "./ResourcePage";
import { SCHEDULES } from "./resources";
import "./settings.css";

export default function SchedulesPage(): ReactElement {
  return (
    <div className="content">
      <ResourcePage resource={SCHEDULES} />
    </div>
  );
}
