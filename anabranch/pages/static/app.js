/* The page at `/`: signing in, which view is shown, and the one live connection.
 *
 * Loaded by index.html. Everything else is a room of its own: api.js (REST), live.js and socket.js
 * (what happens now), board.js and run.js (what is seen). An address below `#/` names a view, so
 * that going back and sharing a link work as anywhere else.
 */

import { Refusal, key, request, setKey, takeKeyFromAddress, withQuery } from "./api.js";
import { Board } from "./board.js";
import { byId, setAttribute, setNote } from "./dom.js";
import { Live } from "./live.js";
import { RunView } from "./run.js";

let live = null;
let view = null;

const board = new Board((ids) => live?.follow("board", ids), hear);
const run = new RunView(byId("run"), {
  follow: (ids) => live?.follow("run", ids),
  isLive: () => live?.connected ?? false,
  onRefusal: hear,
});

takeKeyFromAddress();
window.addEventListener("hashchange", show);
document.addEventListener("visibilitychange", () => document.hidden || live?.wake());
window.addEventListener("online", () => live?.wake());
byId("sign-out").addEventListener("click", () => signOut(null));
byId("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(byId("key").value.trim());
});
if (key() === null) signOut(null);
else start();

function start() {
  byId("sign-in").hidden = true;
  byId("sign-out").hidden = false;
  showLink("connecting", "connecting");
  live = new Live(() => ({ key: key() }), {
    snapshot: (instanceID, ack) => {
      board.status({ instanceID, status: ack.status });
      run.snapshot(instanceID, ack);
    },
    node: (update) => run.node(update),
    status: (update) => {
      board.status(update);
      run.status(update);
    },
    connected: () => showLink("live", "live"),
    lost: () => showLink("polling", "connecting again"),
    // The server says no to a key that was revoked, but also while it shuts down: REST tells which.
    refused: () => request(withQuery("/runs", { limit: 1 })).then(() => hear(null), hear),
  });
  show();
}

/** Show what the address names. */
function show() {
  if (live === null) return;
  const [, kind, name] = location.hash.split("/").map(decodeURIComponent);
  view?.close();
  document.title = "anabranch";
  view = kind === "runs" && name ? run : board;
  if (view === run) run.open(name);
  else board.open(kind === "workflows" && name ? name : null);
  window.scrollTo(0, 0);
}

async function signIn(typed) {
  const problem = byId("sign-in-error");
  setNote(problem, null);
  setKey(typed);
  try {
    await request(withQuery("/workflows", { limit: 1 }));
  } catch (refusal) {
    setKey(null);
    setNote(problem, refusal.status === 401 ? "The server does not know this key." : refusal.advice);
    byId("key").select();
    return;
  }
  byId("key").value = "";
  start();
}

/** Forget the key and ask for one; `why` is shown where it was not the person's own wish. */
function signOut(why) {
  setKey(null);
  view?.close();
  view = null;
  live?.close();
  live = null;
  document.title = "anabranch";
  setNote(byId("alarm"), null);
  byId("link").hidden = true;
  byId("sign-out").hidden = true;
  byId("sign-in").hidden = false;
  setNote(byId("sign-in-error"), why);
  byId("key").focus();
}

/** How the last request ended: null if well. A key that is no longer good ends everything. */
function hear(refusal) {
  if (refusal === null) setNote(byId("alarm"), null);
  else if (!(refusal instanceof Refusal)) throw refusal;
  else if (refusal.status === 401) live !== null && signOut("The server does not know this key (any more).");
  else setNote(byId("alarm"), refusal.advice);
}

function showLink(state, text) {
  setAttribute(byId("link"), "data-state", state);
  setNote(byId("link"), text);
}
