/**
 * Chooses the engine for a request like vLLM chooses among data-parallel ranks, from counts as old as the front end's
 * view of them. Source: vLLM 0.33 `v1/engine/core_client.py` (`get_core_engine_for_request`) and
 * `v1/engine/coordinator.py`. Has no clock: times are arguments in microseconds and must not fall.
 */

/** Shortest time between two reports of changed counts to the front end, and the interval of reports without a change. */
const CHANGED_US = 100_000;
const HEARTBEAT_US = 5_000_000;
/** Weight of a waiting request at a full pool. Zero up to half full. */
const PRESSURE = 6;
const PRESSURE_FROM = 0.5;

interface Counts {
  waiting: number;
  running: number;
  kvUsage: number;
}

const zero = (): Counts => ({ waiting: 0, running: 0, kvUsage: 0 });

export class Balance {
  /** Counts that the engines published last, and the front end's view of them plus its own additions. */
  readonly #published: Counts[];
  readonly #heard: Counts[];
  readonly #clientCount: number;
  /** True if the front end has not received the last change yet. */
  #changed = false;
  #heardUs: number;
  /** First engine of the next scan. The first of equal engines wins, so the start moves with each choice. */
  #start: number;

  /** `clientCount`: front ends that share the engines. This is number `clientIndex` of them. */
  constructor(engines: number, nowUs: number, clientCount = 1, clientIndex = 0) {
    this.#published = Array.from({ length: engines }, zero);
    this.#heard = Array.from({ length: engines }, zero);
    this.#clientCount = clientCount;
    this.#heardUs = nowUs;
    this.#start = Math.floor((engines * clientIndex) / clientCount);
  }

  /** Publishes an engine's counts, if the numbers of its requests have changed. `waiting` includes deferred requests. */
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

  /** Returns the engine for a request that names none. `inFlight`: returns this front end's unfinished requests of an engine. */
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

  /** Applies the reports that have reached the front end since the last call: a delayed change, and heartbeats. */
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
