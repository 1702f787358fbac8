/* Runs that are followed live: joins their rooms, and joins them again after a break.
 *
 * Called by app.js, which owns the one connection, and by the views, which say whom they show. A
 * view follows by a name of its own ("board", "run"); a room is left when nobody follows it any more.
 * What a follower hears is in log order: what is older than the last thing heard is dropped here.
 * After a break it hears how things stand, and not all that was missed: a page shows what is, and
 * the answer to joining has exact times, which updates have not.
 */

import { Socket } from "./socket.js";

/** The server takes 50 requests a second from one client; joining at half that rate leaves room for the rest. */
const JOIN_PAUSE_MS = 40;

export class Live {
  #socket;
  #listener;
  #wanted = new Map();
  #rooms = new Map();
  #joining = false;

  /**
   * `authentication()` gives what the handshake carries. The listener has `snapshot(instanceID, ack)`,
   * `node(update)`, `status(update)` for the rooms, and `connected()`, `lost()`, `refused(message)`.
   */
  constructor(authentication, listener) {
    this.#listener = listener;
    this.#socket = new Socket(authentication, {
      connected: () => {
        listener.connected();
        this.#joinMissing();
      },
      lost: () => {
        for (const room of this.#rooms.values()) room.joined = false;
        listener.lost();
      },
      refused: (message) => listener.refused(message),
      event: (name, data) => this.#receive(name, data),
    });
  }

  get connected() {
    return this.#socket.connected;
  }

  /** From now on this follower shows exactly these runs. */
  follow(follower, instanceIDs) {
    this.#wanted.set(follower, new Set(instanceIDs));
    const wanted = new Set([...this.#wanted.values()].flatMap((ids) => [...ids]));
    for (const [instanceID, room] of this.#rooms) {
      if (wanted.has(instanceID)) continue;
      this.#rooms.delete(instanceID);
      if (room.joined) this.#socket.request("workflow_run_leave", { runId: instanceID }).catch(() => {});
    }
    for (const instanceID of wanted) {
      if (!this.#rooms.has(instanceID)) this.#rooms.set(instanceID, { joined: false, seq: 0 });
    }
    this.#joinMissing();
  }

  wake() {
    this.#socket.wake();
  }

  close() {
    this.#socket.close();
  }

  async #joinMissing() {
    if (this.#joining) return;
    this.#joining = true;
    try {
      for (let next = this.#nextMissing(); next !== undefined && this.connected; next = this.#nextMissing()) {
        await this.#join(...next);
        await new Promise((resolve) => setTimeout(resolve, JOIN_PAUSE_MS));
      }
    } catch {
      // The connection was lost; the next one begins here again.
    } finally {
      this.#joining = false;
    }
  }

  /** The newest wish first: it is what somebody has just opened. */
  #nextMissing() {
    return [...this.#rooms].filter(([, room]) => !room.joined).at(-1);
  }

  async #join(instanceID, room) {
    const ack = await this.#socket.request("workflow_run_join", { runId: instanceID });
    if (this.#rooms.get(instanceID) !== room) {
      // Nobody follows it any more: the wish was withdrawn while the join was on its way.
      await this.#socket.request("workflow_run_leave", { runId: instanceID });
      return;
    }
    room.joined = true;
    // A refusal is an answer, too: the run is gone, and asking again would not bring it back.
    if (ack?.ok) this.#take(instanceID, ack);
  }

  #receive(name, data) {
    if (name === "workflow_updates") {
      for (const update of data.updates) this.#receive(update.event, update);
    } else if (name === "workflow_run_snapshot") this.#take(data.instanceID, data);
    else if (this.#isNews(data)) {
      if (name === "workflow_node_update") this.#listener.node(data);
      else if (name === "workflow_status_update") this.#listener.status(data);
    }
  }

  #take(instanceID, snapshot) {
    const room = this.#rooms.get(instanceID);
    if (room === undefined || snapshot.seq < room.seq) return;
    room.seq = snapshot.seq;
    this.#listener.snapshot(instanceID, snapshot);
  }

  #isNews({ instanceID, seq }) {
    const room = this.#rooms.get(instanceID);
    if (room === undefined || seq < room.seq) return false;
    // One event may change a node and the run: equal is news, too. Applying an update twice changes nothing.
    room.seq = seq;
    return true;
  }
}
