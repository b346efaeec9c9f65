/**
 * Runs the library's engine in simulated time, with the drawn requests, and derives the picture's state from its public
 * interface. The same settings give the same steps, however the time is cut into frames.
 */
import type { Engine, Run, Step } from "../../../src/embed/engine-browser.ts";
import { createEngine, VirtualClock } from "../../../src/embed/engine-browser.ts";
import { type BlockList, BlockMap } from "./block-map.ts";
import type { Settings } from "./settings.ts";
import { StepHistory } from "./step-history.ts";
import { type Arrival, arrivals } from "./traffic.ts";

/** Most open requests. Further ones are turned away, as by a server with `--max-num-queued-reqs`. */
export const OPEN_MOST = 1000;
const SEQUENCES_MOST = 256;
export const BLOCK_TOKENS = 16;
/** Number of latest requests whose latencies are shown. */
const RECENT = 200;

export interface OpenRequest {
  /** Number of the request, counted from 0 in the order of arrival. */
  readonly order: number;
  readonly run: Run;
  /** True if the engine runs it, false if it waits. */
  isRunning: boolean;
  /** True while the engine computes its prompt: from its admission until the next token. */
  computesPrompt: boolean;
  /** Number of its output tokens when it was last admitted. */
  tokensBefore: number;
  preemptions: number;
  /** Place in the picture of running requests; -1 while it waits. */
  place: number;
  readonly blocks: BlockList;
}

export class Simulation {
  /** Arrived requests that have not ended, by their arrival. Under vLLM's policy fcfs those at the front run. */
  readonly open: OpenRequest[] = [];
  readonly history = new StepHistory();
  readonly blocks: BlockMap;
  /** The running requests by their places; undefined for a free place. */
  readonly places: (OpenRequest | undefined)[] = [];
  /** Latencies of the latest requests, in microseconds: time to first token, and mean time between tokens. */
  readonly ttftsUs: number[] = [];
  readonly itlsUs: number[] = [];
  turnedAway = 0;
  preemptions = 0;
  readonly #engine: Engine;
  readonly #clock: VirtualClock;
  readonly #arrivals: Generator<Arrival, undefined>;
  #arrived = 0;
  #running = 0;
  /** Computed tokens of the step that is planned and has not ended. */
  #planned = { prefill: 0, decode: 0 };

  private constructor(engine: Engine, clock: VirtualClock, { load, blocks, seed }: Settings) {
    this.#engine = engine;
    this.#clock = clock;
    // The engine keeps one block, the null block, for itself.
    this.blocks = new BlockMap(blocks - 1);
    this.#arrivals = arrivals(load, seed);
    this.#awaitNext();
  }

  /** Creates a simulation at time 0. `core`: the bytes of core.wasm. */
  static async create(settings: Settings, core: Uint8Array): Promise<Simulation> {
    const clock = new VirtualClock();
    const options = {
      ...{ maxNumBatchedTokens: settings.budget, numGpuBlocksOverride: settings.blocks, seed: settings.seed },
      ...{ watermark: settings.watermark / 100, maxNumSeqs: SEQUENCES_MOST, maxNumActiveSeqs: SEQUENCES_MOST },
      // Prompts have nothing in common, and without the cache the block of an ended request is free.
      ...{ maxModelLen: 4096, blockSize: BLOCK_TOKENS, enablePrefixCaching: false },
    };
    return new Simulation(await createEngine(options, { core, clock }), clock, settings);
  }

  /** Simulated time in microseconds: the end of the last step, or the time up to which nothing happens. */
  get nowUs(): number {
    return this.#clock.now();
  }

  /**
   * Runs steps until the time is reached, and at most one step longer. Stops earlier, between two steps, if `mayContinue`
   * returns false.
   */
  advance(untilUs: number, mayContinue: () => boolean = () => true): void {
    while (this.nowUs < untilUs && mayContinue()) {
      // Run work that the engine deferred, because it may plan the next event.
      this.#clock.advanceTo(this.nowUs);
      const step = this.#clock.nextUs() > untilUs ? null : this.#engine.step();
      if (step === null) {
        this.#clock.advanceTo(Math.max(untilUs, this.nowUs));
        return;
      }
      this.#take(step);
    }
  }

  close(): void {
    this.#engine.close();
    this.#clock.close();
  }

  #awaitNext(): void {
    const next = this.#arrivals.next().value;
    if (next === undefined) return;
    this.#clock.at(next.atUs, () => {
      if (this.open.length < OPEN_MOST) this.#submit(next);
      else this.turnedAway++;
      this.#awaitNext();
    });
  }

  #submit({ promptTokens, outputTokens }: Arrival): void {
    const run = this.#engine.submit({ promptTokens, maxTokens: outputTokens, ignoreEos: true });
    const counts = { order: this.#arrived++, tokensBefore: 0, preemptions: 0, place: -1 };
    this.open.push({ ...counts, run, isRunning: false, computesPrompt: false, blocks: [] });
  }

  /** Brings the state up to date after a step. */
  #take(step: Step): void {
    const snapshot = this.#engine.snapshot();
    const { running, waiting, blocksUsed } = snapshot;
    this.#removeEnded();
    const changed = Math.min(this.open.length, Math.max(running, this.#running));
    this.#running = running;
    // Preemptions free places that admissions then take.
    for (let at = running; at < changed; at++) if (this.open[at]!.isRunning) this.#preempt(this.open[at]!);
    for (let at = 0; at < running; at++) {
      const request = this.open[at]!;
      if (!request.isRunning) this.#admit(request);
      else if (request.run.tokens.length > request.tokensBefore) request.computesPrompt = false;
    }
    this.#share(running, blocksUsed);
    this.preemptions += step.preemptions;
    this.history.add({ ...step, ...this.#planned, running, waiting, blocksUsed });
    const { planPrefillTokens, planScheduled, planPrefills } = snapshot;
    this.#planned = { prefill: planPrefillTokens, decode: planScheduled - planPrefills };
  }

  #removeEnded(): void {
    let kept = 0;
    for (const request of this.open) {
      if (request.run.endUs === null && request.run.refused === null) this.open[kept++] = request;
      else this.#leave(request);
    }
    this.open.length = kept;
  }

  #leave(request: OpenRequest): void {
    this.#stop(request);
    const { firstTokenUs, arrivalUs, endUs, tokens } = request.run;
    if (firstTokenUs === null || endUs === null) return;
    keepLatest(this.ttftsUs, firstTokenUs - arrivalUs);
    if (tokens.length > 1) keepLatest(this.itlsUs, (endUs - firstTokenUs) / (tokens.length - 1));
  }

  #admit(request: OpenRequest): void {
    const place = this.places.indexOf(undefined);
    request.place = place < 0 ? this.places.length : place;
    this.places[request.place] = request;
    request.isRunning = true;
    request.computesPrompt = true;
    request.tokensBefore = request.run.tokens.length;
  }

  #preempt(request: OpenRequest): void {
    request.preemptions++;
    this.#stop(request);
  }

  /** Takes away the place and the blocks of a request that no longer runs. */
  #stop(request: OpenRequest): void {
    this.blocks.resize(request.blocks, request.order, 0);
    if (request.place >= 0) this.places[request.place] = undefined;
    request.place = -1;
    request.isRunning = false;
    request.computesPrompt = false;
  }

  /**
   * Shares the blocks in use among the running requests. A request that generates holds blocks for all its tokens; requests
   * whose prompts are being computed hold the rest.
   */
  #share(running: number, blocksUsed: number): void {
    let rest = blocksUsed;
    for (const isPrompt of [false, true])
      for (let at = 0; at < running; at++) {
        const { blocks, order, run, computesPrompt } = this.open[at]!;
        if (computesPrompt !== isPrompt) continue;
        const full = Math.ceil((run.promptTokens + run.tokens.length) / BLOCK_TOKENS);
        const count = isPrompt ? Math.min(Math.max(0, rest), full) : full;
        this.blocks.resize(blocks, order, count);
        rest -= count;
      }
  }
}

function keepLatest(list: number[], value: number): void {
  list.push(value);
  if (list.length > RECENT) list.shift();
}
