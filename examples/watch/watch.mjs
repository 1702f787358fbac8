// Says what a run does, from its first event to its end: `node watch.mjs INSTANCE_ID`.
// Needs socket.io-client (`npm install socket.io-client`). The server and the key are those of the command
// line: ANABRANCH_URL and ANABRANCH_TOKEN.

import { io } from "socket.io-client";

const ENDED = ["COMPLETED", "FAILED", "CANCELLED"];
const runId = process.argv[2];
const socket = io(process.env.ANABRANCH_URL, { auth: { key: process.env.ANABRANCH_TOKEN } });
let seen = 0; // the `seq` of the last update: after a lost connection it goes on from there

socket.on("connect", () => {
  socket.emit("workflow_run_join", { runId, since: seen }, (answer) => {
    if (!answer.ok) {
      console.error(answer.code, answer.message);
      socket.disconnect();
    }
  });
});

socket.on("connect_error", (error) => {
  if (!socket.active) { // refused, as by a wrong key; otherwise it tries again by itself
    console.error(error.message);
  }
});

socket.onAny((event, data) => {
  for (const update of updatesOf(event, data)) {
    seen = update.seq;
    if (update.event === "workflow_node_update") {
      console.log(update.nodeID, update.status, JSON.stringify(update.output));
    } else if (ENDED.includes(update.status)) {
      console.log("run", update.status, JSON.stringify(update.output));
      socket.disconnect();
    }
  }
});

function updatesOf(event, data) {
  if (event === "workflow_updates") { // more than 50 updates a second come together
    return data.updates;
  }
  if (event === "workflow_run_snapshot") { // more than 1,000 were missed: how the nodes stand now
    return data.nodes.map((node) => ({ event: "workflow_node_update", ...node }));
  }
  return [{ event, ...data }];
}
