/* A Socket.IO client over one WebSocket: as much of Engine.IO 4 and Socket.IO 5 as this page needs.
 *
 * Called by live.js and by nobody else. It knows packets and nothing of runs: it connects with the
 * key, answers pings, hands events on, matches acknowledgements with what they answer, and connects
 * again with growing pauses. It has no polling transport and no attachments.
 */

const OPEN = "0";
const CLOSE = "1";
const PING = "2";
const PONG = "3";
const MESSAGE = "4";

const CONNECT = "0";
const DISCONNECT = "1";
const EVENT = "2";
const ACK = "3";
const CONNECT_ERROR = "4";

/** The first pause before connecting again, and the longest: a restart is over in a second, an outage is not. */
const PAUSE_MS = 500;
const PAUSE_MS_MAX = 10_000;

/** An acknowledgement that takes longer will not come. */
const ACK_MS_MAX = 10_000;

/** How long opening and connecting may take together. */
const CONNECT_MS_MAX = 10_000;

export class Socket {
  #url;
  #authentication;
  #listeners;
  #web = null;
  #connected = false;
  #closed = false;
  #attempts = 0;
  #nextAck = 0;
  #waiting = new Map();
  #silence = null;
  #silence_ms = CONNECT_MS_MAX;
  #again = null;

  /**
   * `authentication()` is asked at each connection. The listeners are `connected()`, `lost()` (also when
   * an attempt to connect was in vain), `refused(message)` and `event(name, data)`.
   */
  constructor(authentication, listeners) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.#url = `${scheme}//${location.host}/socket.io/?EIO=4&transport=websocket`;
    this.#authentication = authentication;
    this.#listeners = listeners;
    this.#open();
  }

  get connected() {
    return this.#connected;
  }

  /** The acknowledgement of an event. Rejects if the connection is lost before it comes, or it takes too long. */
  request(name, data) {
    if (!this.#connected) return Promise.reject(new Error("not connected"));
    const id = this.#nextAck++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#settle(id, ({ reject }) => reject(new Error("no answer"))), ACK_MS_MAX);
      this.#waiting.set(id, { resolve, reject, timer });
      this.#send(MESSAGE + EVENT + id + JSON.stringify([name, data]));
    });
  }

  /** Try again now, if a pause is what we are in: the network or the person has come back. */
  wake() {
    if (this.#again === null) return;
    clearTimeout(this.#again);
    this.#open();
  }

  /** End the connection for good. */
  close() {
    this.#closed = true;
    clearTimeout(this.#again);
    this.#web?.close();
    this.#drop();
  }

  #open() {
    this.#again = null;
    const web = new WebSocket(this.#url);
    this.#web = web;
    this.#silence_ms = CONNECT_MS_MAX;
    this.#heard();
    web.onmessage = ({ data }) => web === this.#web && this.#receive(data);
    web.onclose = () => web === this.#web && this.#lost();
  }

  #receive(packet) {
    this.#heard();
    const content = packet.slice(1);
    if (packet[0] === OPEN) {
      const { pingInterval, pingTimeout } = JSON.parse(content);
      this.#silence_ms = pingInterval + pingTimeout;
      this.#send(MESSAGE + CONNECT + JSON.stringify(this.#authentication()));
    } else if (packet[0] === PING) this.#send(PONG);
    else if (packet[0] === CLOSE) this.#lost();
    else if (packet[0] === MESSAGE) this.#receiveMessage(content[0], content.slice(1));
  }

  #receiveMessage(type, content) {
    if (type === CONNECT) {
      this.#connected = true;
      this.#attempts = 0;
      this.#listeners.connected();
    } else if (type === CONNECT_ERROR) {
      this.#listeners.refused(JSON.parse(content || "{}").message ?? "");
      this.#lost();
    } else if (type === DISCONNECT) this.#lost();
    else if (type === EVENT) {
      // An id before the array would ask for an acknowledgement; the server never does.
      const [name, data] = JSON.parse(content.replace(/^\d+/, ""));
      this.#listeners.event(name, data);
    } else if (type === ACK) {
      const [id] = content.match(/^\d+/);
      const [data] = JSON.parse(content.slice(id.length));
      this.#settle(Number(id), ({ resolve }) => resolve(data));
    }
  }

  #send(packet) {
    if (this.#web.readyState === WebSocket.OPEN) this.#web.send(packet);
  }

  #settle(id, how) {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    clearTimeout(waiting.timer);
    how(waiting);
  }

  /** A server that says nothing for longer than it promised is gone, whatever the network stack believes. */
  #heard() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lost(), this.#silence_ms);
  }

  #lost() {
    this.#drop();
    if (this.#closed) return;
    this.#listeners.lost();
    const pause = Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** this.#attempts++);
    // Half of it by chance: many pages that lost one server must not come back in one moment.
    this.#again = setTimeout(() => this.#open(), pause / 2 + (Math.random() * pause) / 2);
  }

  #drop() {
    clearTimeout(this.#silence);
    const web = this.#web;
    this.#web = null;
    web?.close();
    for (const id of [...this.#waiting.keys()]) {
      this.#settle(id, ({ reject }) => reject(new Error("the connection was lost")));
    }
    this.#connected = false;
  }
}
