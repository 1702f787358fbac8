// Slots for handlers: high priority first, but after ten of these one of normal priority has its turn.

const HIGH_IN_A_ROW_MAX = 10;

export class Slots {
  #waiting = { high: [], normal: [] };
  #highInARow = 0;
  #isClosed = false;

  constructor(free) {
    this.free = free;
  }

  /** A slot: true once there is one, or false when there will be none any more. */
  take(priority) {
    const slot = new Promise((begin) => this.#waiting[priority === "high" ? "high" : "normal"].push(begin));
    this.#assign();
    return slot;
  }

  giveBack() {
    this.free += 1;
    this.#assign();
  }

  close() {
    this.#isClosed = true;
    this.#assign();
  }

  #assign() {
    const { high, normal } = this.#waiting;
    while ((this.free > 0 || this.#isClosed) && high.length + normal.length > 0) {
      const isHigh = high.length > 0 && (normal.length === 0 || this.#highInARow < HIGH_IN_A_ROW_MAX);
      this.#highInARow = isHigh ? this.#highInARow + 1 : 0;
      if (!this.#isClosed) this.free -= 1;
      (isHigh ? high : normal).shift()(!this.#isClosed);
    }
  }
}
