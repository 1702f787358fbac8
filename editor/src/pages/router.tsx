/** Which page is shown for which address below `#/`. Pages are loaded when they are first shown. */

import { lazy, type ComponentType } from "react";
import { createHashRouter, Navigate } from "react-router";

import { Layout } from "./shell/Layout";
import { NotFoundPage } from "./shell/NotFoundPage";
import { PageError } from "./shell/PageError";
import { WorkflowsPage } from "./workflows/WorkflowsPage";

const page = (load: () => Promise<{ default: ComponentType }>) => {
  const Page = lazy(load);
  return <Page />;
};

export const router = createHashRouter([
  {
    element: <Layout />,
    errorElement: <PageError />,
    children: [
      { index: true, element: <WorkflowsPage /> },
      { path: "workflows", element: <Navigate to="/" replace /> },
      { path: "workflows/:workflow", element: page(() => import("./editor/EditorPage")) },
      { path: "drafts/:draft", element: page(() => import("./editor/EditorPage")) },
      { path: "runs", element: page(() => import("./runs/RunsPage")) },
      { path: "runs/:instanceID", element: page(() => import("./run/RunPage")) },
      { path: "schedules", element: page(() => import("./schedules/SchedulesPage")) },
      { path: "schedules/topics", element: page(() => import("./topics/TopicsPage")) },
      { path: "schedules/webhooks", element: page(() => import("./webhooks/WebhooksPage")) },
      { path: "schedules/workflows", element: page(() => import("./triggers/TriggersPage")) },
      { path: "settings/:part?", element: page(() => import("./settings/SettingsPage")) },
      { path: "*", element: <NotFoundPage /> },
    ],
  },
]);
