/** The parts of "Triggers". */
export const TRIGGER_TABS = [
  { to: "/schedules", title: "Schedules" },
  { to: "/schedules/topics", title: "Topics" },
  { to: "/schedules/webhooks", title: "Webhooks" },
  { to: "/schedules/workflows", title: "By workflow" },
] as const;
