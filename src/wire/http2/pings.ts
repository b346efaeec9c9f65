/** Judges whether a client pings too often, like gRPC's core 1.85 (`ping_abuse_policy.cc`). */

/** Limits of the pings of a client. */
interface PingLimits {
  /** Shortest time between two pings while no data is sent. */
  readonly leastIntervalMs: number;
  /** Number of early pings allowed. 0: any number. */
  readonly strikesMost: number;
  /** True if clients may ping without an open call as often as during one. */
  readonly withoutCalls: boolean;
}

/** Time limits of connections, named like gRPC's channel arguments. 0 means no limit. */
export interface KeepAlive extends PingLimits {
  /** Silence after which the server sends a ping. */
  readonly timeMs: number;
  /** Time without an answer to that ping after which the connection is cut. */
  readonly timeoutMs: number;
  /** Time without a stream after which the connection ends. */
  readonly idleMs: number;
  /** Age at which the connection stops taking streams. `graceMs`: time after that until it is cut. */
  readonly ageMs: number;
  readonly graceMs: number;
}

/** Shortest time between two pings without an open call, unless `withoutCalls`. */
const IDLE_US = 2 * 3600 * 1e6;

export class PingRules {
  #lastUs = -Infinity;
  #strikes = 0;

  constructor(
    private readonly limits: PingLimits,
    private readonly nowUs: () => number,
  ) {}

  /**
   * Counts a ping and returns true if it is too many. `sent`: data or headers have been sent since the last ping. `idle`: no call
   * is open.
   */
  tooMany(sent: boolean, idle: boolean): boolean {
    const { leastIntervalMs, strikesMost, withoutCalls } = this.limits;
    if (sent) {
      this.#strikes = 0;
      this.#lastUs = -Infinity;
    }
    const leastUs = idle && !withoutCalls ? IDLE_US : leastIntervalMs * 1000;
    const nowUs = this.nowUs();
    const early = nowUs < this.#lastUs + leastUs;
    this.#lastUs = nowUs;
    if (early) this.#strikes++;
    return strikesMost > 0 && this.#strikes > strikesMost;
  }
}
