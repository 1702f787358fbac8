// Watches one run with the client that people's pages use, and prints what it was sent, a JSON line each.
// Usage: node watch_run.mjs URL KEY RUN_ID TRANSPORT [SINCE]

import { io } from "socket.io-client";

const [url, key, runId, transport, since] = process.argv.slice(2);
const ENDED = ["COMPLETED", "FAILED", "CANCELLED"];
const socket = io(url, { auth: { key }, transports: transport.split(","), reconnection: false });

function say(event, data) {
  process.stdout.write(JSON.stringify({ event, ...data }) + "\n");
}

socket.onAny((event, data) => {
  const updates = event === "workflow_updates" ? data.updates : [{ event, ...data }];
  for (const update of updates) {
    say(update.event, update);
    if (update.event === "workflow_status_update" && ENDED.includes(update.status)) {
      socket.disconnect();
    }
  }
});
socket.on("connect_error", (error) => {
  say("refused", { message: error.message, code: error.data?.code });
  process.exitCode = 1;
  socket.disconnect();
});
socket.on("connect", () => {
  const request = since === undefined ? { runId } : { runId, since: Number(since) };
  socket.emit("workflow_run_join", request, (answer) => {
    say("joined", answer);
    if (!answer.ok || (since === undefined && ENDED.includes(answer.status))) {
      socket.disconnect();
    }
  });
});
