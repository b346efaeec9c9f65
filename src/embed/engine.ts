/** How does a program schedule requests without a server? The server's own engine, on a clock that the program moves. */

import type { ServeConfig } from "../app/config/serve-config.ts";
import type { Clock } from "../base/clock.ts";
import { ADAPTERS_MOST } from "../base/core-limits.ts";
import { ClosedByUsing } from "../base/disposal.ts";
import { type Random, seeded } from "../base/random.ts";
import { VirtualClock } from "../base/virtual-clock.ts";
import { type FlatEngineConfig, flatEngineConfig } from "../engine/config/engine-config.ts";
import { Engine as Scheduler } from "../engine/engine.ts";
import type { EngineSnapshot, Generation } from "../engine/interface/types.ts";
import type { Observer } from "../engine/observer.ts";
import { loadAnswers, type NaturalLength, naturalLength } from "../text/answers/answers.ts";
import { HARMONY } from "../text/tokens/vocabulary.ts";
import type { EngineOptions } from "./engine-option-types.ts";
import { engineConfig } from "./options.ts";
import { LiveRun, type Run, type RunListener, type RunRequest } from "./run.ts";
import { checkRequest } from "./run-request.ts";

/** What an engine is made of besides its options. */
export interface EngineParts {
  /** The bytes of `llm-understudy/core.wasm`. Node and Bun find them alone; compiled once per array. */
  readonly core: Uint8Array;
  /** The bytes of `llm-understudy/answers.bin`: output ids are then those of the server's prose, else evenly drawn. */
  readonly answers?: Uint8Array | undefined;
  /** A `VirtualClock` of its own, unless given; one clock may drive several engines. With a `WallClock` steps take real time. */
  readonly clock?: Clock | undefined;
}

/** What a step was. Times are microseconds on the engine's clock. */
export interface Step {
  /** When the scheduler planned it. */
  readonly plannedUs: number;
  /** When it ended: all its tokens come then. */
  readonly endUs: number;
  /** That came out of it, over all runs. */
  readonly tokens: number;
  /** Runs that its planning put back into the queue. */
  readonly preemptions: number;
}

const modules = new WeakMap<Uint8Array, Promise<WebAssembly.Module>>();

function compiled(core: Uint8Array): Promise<WebAssembly.Module> {
  let module = modules.get(core);
  if (module === undefined) {
    module = WebAssembly.compile(core as Uint8Array<ArrayBuffer>);
    modules.set(core, module);
  }
  return module;
}

/** The scheduler of the server, on a clock. */
export class Engine extends ClosedByUsing {
  /** Time of the engine; a `VirtualClock` stands still until it is moved. */
  readonly clock: Clock;
  /** Every option with its default filled in. */
  readonly config: FlatEngineConfig;
  readonly #scheduler: Scheduler;
  readonly #naturalLength: NaturalLength;
  readonly #nextSeed: Random;
  /** Runs whose time has not come. */
  readonly #coming = new Set<LiveRun>();
  #submitted = 0;
  #ended: Step | null = null;

  private constructor(module: WebAssembly.Module, { engine, text: { outputTokens } }: ServeConfig, parts: EngineParts) {
    super();
    const { answers, clock = new VirtualClock() } = parts;
    this.clock = clock;
    this.config = flatEngineConfig(engine);
    this.#naturalLength = naturalLength(outputTokens, null);
    this.#nextSeed = seeded(engine.seed);
    this.#scheduler = new Scheduler({
      config: engine,
      clock,
      module,
      eosId: HARMONY.return,
      free: !(clock instanceof VirtualClock),
      observer: { step: this.#stepped, request() {}, idle() {} },
      ...(answers ? { answers: loadAnswers(answers) } : {}),
    });
  }

  /** Throws a TypeError for a wrong option; an Error named CoreTooLarge when the pool needs more memory than there can be. */
  static async create(options: EngineOptions, parts: EngineParts): Promise<Engine> {
    const config = engineConfig(options);
    if (config.text.outputTokens.kind === "trace")
      throw new TypeError("outputTokens: an engine takes constant:N or lognormal:mean=N,sigma=X; it reads no files");
    return new Engine(await compiled(parts.core), config, parts);
  }

  /** Takes a request; its `refused` says so when it does not. Throws a TypeError or RangeError for values that no request can have. */
  submit(request: RunRequest, listener: RunListener = {}): Run {
    const { maxModelLen } = this.config;
    checkRequest(request);
    const promptTokens = request.promptTokens ?? request.promptIds!.length;
    const { maxTokens: asked = maxModelLen, minTokens = 0 } = request;
    const adapter = this.#adapter(request);
    const seed = request.seed ?? this.#nextSeed();
    const { script, ignoreEos = false } = request;
    const drawn = request.maxTokens === undefined && !ignoreEos && script === undefined;
    const maxTokens = Math.min(asked, maxModelLen - promptTokens);
    const now = this.clock.now();
    const arrivalUs = Math.max(now, request.at ?? now);
    const run = new LiveRun(this.clock, listener, promptTokens, Math.max(0, maxTokens), arrivalUs);
    // As vLLM 0.33: at least one token must be left to generate.
    if (maxTokens < 1 || asked > maxModelLen) {
      run.refuse("tooLong");
      return run;
    }
    const generation = {
      ...this.#prompt(request, promptTokens),
      maxTokens,
      minTokens,
      ignoreEos,
      plannedTokens: drawn ? this.#naturalLength(seed) : null,
      stopTokenIds: request.stopTokenIds ?? [],
      seed,
      priority: request.priority ?? 0,
      cacheSalt: request.cacheSalt ?? "",
      skipReadingPrefixCache: request.skipReadingPrefixCache ?? false,
      blocked: request.blocked ?? false,
      adapter,
      arrivalUs,
      ...(script ? { script: Uint32Array.from(script) } : {}),
    };
    if (arrivalUs <= now) this.#hand(generation, run);
    else this.#later(generation, run);
    return run;
  }

  /** Keeps it until its time comes. */
  #later(generation: Generation, run: LiveRun): void {
    this.#coming.add(run);
    this.clock.at(generation.arrivalUs, () => {
      if (this.#coming.delete(run) && !run.ended) this.#hand(generation, run);
    });
  }

  #hand(generation: Generation, run: LiveRun): void {
    const submission = this.#scheduler.submit(generation, run);
    if ("refused" in submission) run.refuse(submission.refused === "busy" ? "busy" : "closed");
    else run.take(submission);
  }

  /**
   * Moves the virtual clock to the end of the next step, whose tokens are then out; null when nothing is left to do. Under
   * asynchronous scheduling, the default, the step after it is planned by then, and the last one of a busy time is empty.
   */
  step(): Step | null {
    const { clock } = this;
    if (!(clock instanceof VirtualClock)) throw new Error("step: only on a VirtualClock; real time cannot be moved");
    this.#ended = null;
    while (this.#ended === null) if (!clock.next()) break;
    return this.#ended;
  }

  /** As `run.cancel()`. */
  cancel(run: Run): void {
    run.cancel();
  }

  /** Gauges as the last step left them, counters and histograms since the start: what `/metrics` prints. A copy. */
  snapshot(): EngineSnapshot {
    return this.#scheduler.snapshot();
  }

  /** Runs that have not ended, those included whose time has not come. */
  get live(): number {
    return this.#scheduler.live + [...this.#coming].filter(({ ended }) => !ended).length;
  }

  /** No further step. Runs that have not ended end with reason "abort"; the clock is the caller's. */
  close(): void {
    for (const run of this.#coming) run.cancel();
    this.#coming.clear();
    this.#scheduler.abortAll();
    this.#scheduler.stop();
  }

  readonly #stepped: Observer["step"] = ({ plannedUs, dueUs, tokens, preemptions }) => {
    this.#ended = { plannedUs, endUs: dueUs, tokens, preemptions };
  };

  #adapter({ adapter = 0 }: RunRequest): number {
    if (adapter > ADAPTERS_MOST) throw new RangeError(`adapter: at most ${ADAPTERS_MOST}, not ${adapter}`);
    if (adapter > 0 && this.config.maxLoras === 0) throw new RangeError(`adapter: ${adapter}, but enableLora is off`);
    return adapter;
  }

  /** Ids as they are; for a length two words per full block that no other prompt has. */
  #prompt({ promptIds }: RunRequest, promptTokens: number) {
    const order = this.#submitted++;
    if (promptIds !== undefined) return { promptIds: Uint32Array.from(promptIds) };
    const words = new Uint32Array(2 * Math.floor(promptTokens / this.config.blockSize));
    for (let at = 0; at < words.length; at += 2) {
      words[at] = order;
      words[at + 1] = at | 0x80000000;
    }
    return { promptIds: words, promptTokens };
  }
}
