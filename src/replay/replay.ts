/**
 * What happens when a trace meets the engine on a clock of its own? Requests are submitted at their times, or as others
 * end, and time jumps from one event to the next. The engine and its loop are those of the server.
 */
import { VirtualClock } from "../clock.ts";
import type { EngineConfig } from "../config/types.ts";
import type { Observer } from "../engine/observer.ts";
import type { EngineSnapshot } from "../engine/types.ts";
import type { Pace, TraceRequest } from "../traces/trace.ts";
import { Fleet } from "./fleet.ts";

/** Work between two calls of `collect`: requests, and steps at so many for a request. */
const COLLECT_EVERY = 40_000;
const STEPS_PER_REQUEST = 16;

/** So much simulated time passes between two calls of `onProgress`, at most. */
const SLICE_US = 100_000;

export interface ReplayOptions {
  readonly config: EngineConfig;
  readonly module: WebAssembly.Module;
  readonly engines: number;
  readonly requests: Iterator<TraceRequest>;
  readonly pace: Pace;
  /** The replay ends at this time, with what runs then unfinished; Infinity: when all is done. */
  readonly untilUs: number;
  /** Looked at after each interval of simulated time. */
  readonly series?: {
    readonly intervalUs: number;
    readonly onRow: (atUs: number, engines: readonly EngineSnapshot[], counts: Counts) => void;
  };
  /** Of the engine with this index: told of every step and request. */
  readonly observer?: (engine: number) => Observer;
  /** Frees memory. The host's own collector takes the core's memory, most of it never touched, for live data and so waits too long. */
  readonly collect?: () => void;
  readonly onProgress?: (atUs: number, counts: Counts) => void;
}

/** Requests so far: arrived = finished + refused + unfinished. */
export interface Counts {
  arrived: number;
  finished: number;
  /** Of the finished and unfinished: with less output than the trace says, for want of context. */
  cut: number;
  tooLong: number;
  busy: number;
}

export class Replay {
  readonly counts: Counts = { arrived: 0, finished: 0, cut: 0, tooLong: 0, busy: 0 };
  readonly fleet: Fleet;
  readonly #clock = new VirtualClock();
  readonly #options: ReplayOptions;
  /** Concurrency of a closed loop; Infinity in an open one. */
  readonly #most: number;
  #next: TraceRequest | undefined;
  #live = 0;
  #lastEndUs = 0;
  #steps = 0;
  #collectAt = COLLECT_EVERY;
  #rowUs: number;

  constructor(options: ReplayOptions) {
    this.#options = options;
    this.#most = options.pace.kind === "closed" ? options.pace.concurrency : Number.POSITIVE_INFINITY;
    this.#rowUs = options.series?.intervalUs ?? Number.POSITIVE_INFINITY;
    const { config, module, engines, observer = null } = options;
    this.fleet = new Fleet({
      config,
      clock: this.#clock,
      module,
      engines,
      onEnd: this.#ended,
      onStep: this.#stepped,
      observer,
    });
    this.#advance();
  }

  /** Runs to the end; simulated microseconds until the last request ended, or until `untilUs`. Throws what the trace throws. */
  run(): number {
    const { untilUs, onProgress } = this.#options;
    const clock = this.#clock;
    this.#fill();
    while (this.#next !== undefined || this.#live > 0) {
      const arrivalUs =
        this.#next !== undefined && this.#live < this.#most ? this.#next.arrivalUs : Number.POSITIVE_INFINITY;
      const sliceUs = this.#live > 0 ? clock.now() + SLICE_US : Number.POSITIVE_INFINITY;
      clock.until(Math.min(arrivalUs, sliceUs, this.#rowUs, untilUs));
      if (clock.now() >= this.#rowUs) this.#row();
      if (clock.now() >= untilUs) return untilUs;
      this.#fill();
      onProgress?.(clock.now(), this.counts);
    }
    // The row that shows the last end, and the empty step that an asynchronous engine still has open.
    if (this.#options.series && this.#rowUs - this.#options.series.intervalUs <= this.#lastEndUs) {
      clock.until(this.#rowUs);
      this.#row();
    }
    clock.drain();
    return this.#lastEndUs;
  }

  /** No more steps; an observer is told of those that are unfinished. */
  stop(): void {
    for (const engine of this.fleet.engines) engine.stop();
  }

  get unfinished(): number {
    return this.#live;
  }

  /** Submits what is due: in an open loop all that has arrived by now, in a closed one as many as there is room for. */
  #fill(): void {
    const closed = this.#most !== Number.POSITIVE_INFINITY;
    const nowUs = this.#clock.now();
    while (this.#next !== undefined && this.#live < this.#most && (closed || this.#next.arrivalUs <= nowUs)) {
      this.#submit(this.#next);
      this.#advance();
    }
  }

  #submit(request: TraceRequest): void {
    const { counts } = this;
    counts.arrived++;
    const outcome = this.fleet.submit(request);
    if (outcome === "tooLong" || outcome === "busy") {
      counts[outcome]++;
      return;
    }
    this.#live++;
    if (outcome === "cut") counts.cut++;
  }

  #advance(): void {
    const { value, done } = this.#options.requests.next();
    this.#next = done ? undefined : value;
  }

  readonly #ended = (refused: boolean): void => {
    this.#live--;
    this.#lastEndUs = this.#clock.now();
    if (refused) this.counts.busy++;
    else this.counts.finished++;
  };

  /** In a closed loop those that ended in a step make room; not before all its ends are told, since slots are used again. */
  readonly #stepped = (): void => {
    this.#steps++;
    this.#collect();
    if (this.#live < this.#most && this.#most !== Number.POSITIVE_INFINITY) this.#fill();
  };

  #collect(): void {
    const work = this.counts.arrived + this.#steps / STEPS_PER_REQUEST;
    if (work < this.#collectAt) return;
    this.#collectAt = work + COLLECT_EVERY;
    this.#options.collect?.();
  }

  #row(): void {
    const { intervalUs, onRow } = this.#options.series!;
    onRow(this.#rowUs, this.fleet.snapshots(), this.counts);
    this.#rowUs += intervalUs;
  }
}
