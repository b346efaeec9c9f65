/** Does a client ping too often? As gRPC's core judges it: `ping_abuse_policy.cc` of 1.85. */

export interface PingLimits {
  /** Least time between two pings while nothing is sent. */
  readonly leastIntervalMs: number;
  /** Pings that may come too early; 0: any number. */
  readonly strikesMost: number;
  /** Clients may ping without a call. */
  readonly withoutCalls: boolean;
}

/** Without a call, unless that is allowed. */
const IDLE_US = 2 * 3600 * 1e6;

export class PingRules {
  readonly #limits: PingLimits;
  readonly #nowUs: () => number;
  #lastUs = -Infinity;
  #strikes = 0;

  constructor(limits: PingLimits, nowUs: () => number) {
    this.#limits = limits;
    this.#nowUs = nowUs;
  }

  /** A ping came. `sent`: data or headers were sent since the one before; `idle`: there is no call. */
  tooMany(sent: boolean, idle: boolean): boolean {
    const { leastIntervalMs, strikesMost, withoutCalls } = this.#limits;
    if (sent) {
      this.#strikes = 0;
      this.#lastUs = -Infinity;
    }
    const leastUs = idle && !withoutCalls ? IDLE_US : leastIntervalMs * 1000;
    const nowUs = this.#nowUs();
    const early = nowUs < this.#lastUs + leastUs;
    this.#lastUs = nowUs;
    if (early) this.#strikes++;
    return strikesMost > 0 && this.#strikes > strikesMost;
  }
}
