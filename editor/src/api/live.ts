/**
 * Runs that are followed over the one Socket.IO connection of this tab.
 *
 * A room is joined while somebody follows its run, and joined again after a break. A follower first hears how things
 * stand (`snapshot`), then what happens, in log order: what is older than the last thing heard is dropped here.
 */

import { io, type Socket } from "socket.io-client";

import { currentKey } from "./key";

export type NodeStatus = "running" | "queued" | "waiting" | "retrying" | "success" | "error" | "skipped" | "cancelled";

export interface RunError {
  code?: string;
  type?: string;
  message?: string;
  nodeID?: string | null;
  scope?: string | null;
  attempt?: number | null;
}

export interface NodeUpdate {
  instanceID: string;
  nodeID: string;
  scope: string;
  status: NodeStatus;
  output?: unknown;
  error?: RunError | null;
  attempt: number;
  seq: number | null;
  at?: string;
  handles?: string[];
  waitsFor?: { kind: string; event?: string; match?: unknown; childID?: string; dueAt?: string } | null;
  progress?: unknown;
  startedAt?: string | null;
  endedAt?: string | null;
  pinned?: boolean;
  queued?: boolean;
  beganAt?: string | null;
}

export interface StatusUpdate {
  instanceID: string;
  status: string;
  output?: unknown;
  error?: RunError | null;
  contextData?: unknown;
  seq: number;
}

export interface Snapshot {
  instanceID: string;
  status: string;
  nodes: NodeUpdate[];
  nodesOmitted?: number;
  counts?: { nodeID: string; counts: Record<string, number> }[] | Record<string, Record<string, number>>;
  seq: number;
  output?: unknown;
  error?: RunError | null;
}

export interface RunListener {
  snapshot?(snapshot: Snapshot): void;
  nodes?(updates: NodeUpdate[]): void;
  status?(update: StatusUpdate): void;
  gone?(code: string): void;
}

export type LinkState = "connecting" | "live" | "lost";

/** The server takes 50 requests a second from one client; joining at half that rate leaves room for the rest. */
const JOIN_PAUSE_MS = 40;

/** An acknowledgement that takes longer will not come. */
const ACK_MS_MAX = 10_000;

interface Room {
  readonly listeners: Set<RunListener>;
  joined: boolean;
  seq: number;
}

type Update = ({ event: "workflow_node_update" } & NodeUpdate) | ({ event: "workflow_status_update" } & StatusUpdate);

export class Live {
  readonly #socket: Socket;
  readonly #rooms = new Map<string, Room>();
  readonly #watchers = new Set<() => void>();
  #link: LinkState = "connecting";
  #joining = false;

  /** `refused` is called when the server does not take the key. */
  constructor(refused: () => void) {
    this.#socket = io({
      transports: ["websocket"],
      auth: (give) => give({ key: currentKey() }),
      reconnectionDelay: 500,
      reconnectionDelayMax: 5_000,
    });
    this.#socket.on("connect", () => {
      this.#setLink("live");
      void this.#joinMissing();
    });
    this.#socket.on("disconnect", (reason) => {
      for (const room of this.#rooms.values()) room.joined = false;
      this.#setLink("lost");
      // A server that ends says so, and Socket.IO would then not come back by itself.
      if (reason === "io server disconnect") this.#socket.connect();
    });
    this.#socket.on("connect_error", () => {
      this.#setLink("lost");
      if (!this.#socket.active) {
        refused();
        setTimeout(() => currentKey() !== null && this.#socket.connect(), 2_000);
      }
    });
    this.#socket.on("workflow_node_update", (update: NodeUpdate) => this.#hear(update.instanceID, [{ event: "workflow_node_update", ...update }]));
    this.#socket.on("workflow_status_update", (update: StatusUpdate) => this.#hear(update.instanceID, [{ event: "workflow_status_update", ...update }]));
    this.#socket.on("workflow_updates", ({ instanceID, updates }: { instanceID: string; updates: Update[] }) => this.#hear(instanceID, updates));
    this.#socket.on("workflow_run_snapshot", (snapshot: Snapshot) => this.#heard(snapshot));
  }

  get link(): LinkState {
    return this.#link;
  }

  /** Call `changed` whenever the state of the connection changes; the result ends that. */
  watchLink(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  /** Hear about a run; the result ends that. */
  follow(instanceID: string, listener: RunListener): () => void {
    const room = this.#rooms.get(instanceID) ?? { listeners: new Set(), joined: false, seq: 0 };
    this.#rooms.set(instanceID, room);
    room.listeners.add(listener);
    // A second follower has missed the snapshot that the first one heard.
    room.joined = false;
    void this.#joinMissing();
    return () => {
      room.listeners.delete(listener);
      if (room.listeners.size > 0 || this.#rooms.get(instanceID) !== room) return;
      this.#rooms.delete(instanceID);
      if (this.#socket.connected) this.#socket.emit("workflow_run_leave", { runId: instanceID }, () => undefined);
    };
  }

  /** A run that had ended goes on: the server has left its room, and is asked how things stand. */
  joinAgain(instanceID: string): void {
    const room = this.#rooms.get(instanceID);
    if (room !== undefined) room.joined = false;
    void this.#joinMissing();
  }

  /** The answer to a request over the socket. Rejects if none comes in time. */
  request(event: string, data: object): Promise<Record<string, unknown> & { ok: boolean; code?: string; message?: string }> {
    return this.#socket.timeout(ACK_MS_MAX).emitWithAck(event, data);
  }

  /** Connect at once if a pause is what we are in: the network or the person has come back. */
  wake(): void {
    if (!this.#socket.connected) this.#socket.connect();
  }

  close(): void {
    this.#rooms.clear();
    this.#socket.close();
  }

  async #joinMissing(): Promise<void> {
    if (this.#joining) return;
    this.#joining = true;
    try {
      for (let next = this.#nextMissing(); next !== undefined && this.#socket.connected; next = this.#nextMissing()) {
        const [instanceID, room] = next;
        room.joined = true;
        const answer = await this.request("workflow_run_join", { runId: instanceID });
        if (answer.ok) this.#heard(answer as unknown as Snapshot);
        else for (const listener of [...room.listeners]) listener.gone?.(answer.code ?? "");
        await new Promise((resolve) => setTimeout(resolve, JOIN_PAUSE_MS));
      }
    } catch {
      for (const room of this.#rooms.values()) room.joined = false; // the next connection begins here again
    } finally {
      this.#joining = false;
    }
  }

  #nextMissing(): [string, Room] | undefined {
    return [...this.#rooms].find(([, room]) => !room.joined);
  }

  #heard(snapshot: Snapshot): void {
    const room = this.#rooms.get(snapshot.instanceID);
    if (room === undefined) return;
    room.seq = Math.max(room.seq, snapshot.seq);
    for (const listener of [...room.listeners]) listener.snapshot?.(snapshot);
  }

  #hear(instanceID: string, updates: readonly Update[]): void {
    const room = this.#rooms.get(instanceID);
    if (room === undefined) return;
    const heard = room.seq;
    // One transaction may bring several updates with one seq: all of them are new together.
    const fresh = updates.filter((update) => update.seq === null || update.seq >= heard);
    room.seq = fresh.reduce((newest, { seq }) => Math.max(newest, seq ?? 0), heard);
    const nodes = fresh.filter((update) => update.event === "workflow_node_update");
    for (const listener of [...room.listeners]) {
      if (nodes.length > 0) listener.nodes?.(nodes);
      for (const update of fresh) if (update.event === "workflow_status_update") listener.status?.(update);
    }
  }

  #setLink(link: LinkState): void {
    if (link === this.#link) return;
    this.#link = link;
    for (const changed of [...this.#watchers]) changed();
  }
}
