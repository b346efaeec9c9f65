/**
 * Which engine takes the next request? vLLM's choice among data-parallel ranks, on counts that are as old as the front's
 * view of them. Facts from vLLM 0.33 `v1/engine/core_client.py` (`get_core_engine_for_request`) and
 * `v1/engine/coordinator.py`. Pure: times are handed in, in microseconds, and must not fall.
 */

/** The front hears of changed counts at most so often, and of unchanged ones as a heartbeat. */
const CHANGED_US = 100_000;
const HEARTBEAT_US = 5_000_000;
/** How much a waiting request weighs on a full pool; nothing up to half full. */
const PRESSURE = 6;
const PRESSURE_FROM = 0.5;

interface Counts {
  waiting: number;
  running: number;
  kvUsage: number;
}

const zero = (): Counts => ({ waiting: 0, running: 0, kvUsage: 0 });

export class Balance {
  /** What the engines published last; what the front has heard of it, with its own additions. */
  readonly #published: Counts[];
  readonly #heard: Counts[];
  readonly #clientCount: number;
  /** A change that the front has not heard of yet. */
  #changed = false;
  #heardUs: number;
  /** Where the scan begins: of equals the first wins, so it moves on with each choice. */
  #start: number;

  /** `clientCount`: front ends that share the engines, of which this is number `clientIndex`. */
  constructor(engines: number, nowUs: number, clientCount = 1, clientIndex = 0) {
    this.#published = Array.from({ length: engines }, zero);
    this.#heard = Array.from({ length: engines }, zero);
    this.#clientCount = clientCount;
    this.#heardUs = nowUs;
    this.#start = Math.floor((engines * clientIndex) / clientCount);
  }

  /** An engine's counts; one that has the same requests as before says nothing. `waiting` has the deferred in it. */
  publish(engine: number, waiting: number, running: number, kvUsage: number, nowUs: number): void {
    const counts = this.#published[engine]!;
    if (counts.waiting === waiting && counts.running === running) return;
    this.#catchUp(nowUs);
    counts.waiting = waiting;
    counts.running = running;
    counts.kvUsage = kvUsage;
    this.#changed = nowUs < this.#heardUs + CHANGED_US;
    if (!this.#changed) this.#hear(nowUs);
  }

  /** The engine for a request that names none; `inFlight`: what this front has unfinished there. */
  choose(inFlight: (engine: number) => number, nowUs: number): number {
    this.#catchUp(nowUs);
    const engines = this.#heard.length;
    let least = Number.POSITIVE_INFINITY;
    let chosen = 0;
    for (let i = 0; i < engines; i++) {
      const engine = (this.#start + i) % engines;
      const { waiting, running, kvUsage } = this.#heard[engine]!;
      let score = Math.max(this.#clientCount * inFlight(engine), waiting + running);
      score += waiting * PRESSURE * Math.max(0, kvUsage - PRESSURE_FROM);
      if (score >= least) continue;
      least = score;
      chosen = engine;
    }
    this.#heard[chosen]!.waiting += this.#clientCount;
    this.#start = (this.#start + 1) % engines;
    return chosen;
  }

  /** What the front heard since it was last asked: a change that had to wait, and heartbeats. */
  #catchUp(nowUs: number): void {
    if (this.#changed && nowUs >= this.#heardUs + CHANGED_US) this.#hear(this.#heardUs + CHANGED_US);
    const beats = Math.floor((nowUs - this.#heardUs) / HEARTBEAT_US);
    if (beats > 0 && !this.#changed) this.#hear(this.#heardUs + beats * HEARTBEAT_US);
  }

  #hear(us: number): void {
    for (const [engine, counts] of this.#published.entries()) Object.assign(this.#heard[engine]!, counts);
    this.#changed = false;
    this.#heardUs = us;
  }
}
