/** The parts of "Schedules and topics". */
export const TRIGGER_TABS = [
  { to: "/schedules", title: "Schedules" },
  { to: "/schedules/topics", title: "Topics" },
] as const;
