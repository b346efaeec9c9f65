/** The server's engine without a server, on a clock that the program advances. */

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

/** Parts of an engine in addition to its options. */
export interface EngineParts {
  /** The bytes of `llm-understudy/core.wasm`. Optional in Node and Bun. Compiled once per array. */
  readonly core: Uint8Array;
  /** The bytes of `llm-understudy/answers.bin`, for output ids of the server's prose. Without them ids are uniformly random. */
  readonly answers?: Uint8Array | undefined;
  /** Default: a new `VirtualClock`. Several engines may share a clock. With a `WallClock`, steps take real time. */
  readonly clock?: Clock | undefined;
}

/** One step. Times are microseconds of the engine's clock. */
export interface Step {
  /** Time at which the scheduler planned the step. */
  readonly plannedUs: number;
  /** End of the step, at which all its tokens are delivered. */
  readonly endUs: number;
  /** Number of generated tokens over all runs. */
  readonly tokens: number;
  /** Number of runs that were preempted for the step. */
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

/** The scheduler of the server, driven by a clock. */
export class Engine extends ClosedByUsing {
  /** Clock of the engine. A `VirtualClock` only advances when told to. */
  readonly clock: Clock;
  /** All options with their defaults. */
  readonly config: FlatEngineConfig;
  readonly #scheduler: Scheduler;
  readonly #naturalLength: NaturalLength;
  readonly #nextSeed: Random;
  /** Runs whose arrival time is in the future. */
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

  /** Creates an engine. Throws a TypeError for a wrong option, and an Error named CoreTooLarge if the KV pool is too large. */
  static async create(options: EngineOptions, parts: EngineParts): Promise<Engine> {
    const config = engineConfig(options);
    if (config.text.outputTokens.kind === "trace")
      throw new TypeError("outputTokens: an engine takes constant:N or lognormal:mean=N,sigma=X; it reads no files");
    return new Engine(await compiled(parts.core), config, parts);
  }

  /** Submits a request. If the engine refuses it, `refused` has the reason. Throws a TypeError or RangeError for invalid values. */
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
    // Like vLLM 0.33: the context must leave room for at least one output token.
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

  /** Submits a run at its arrival time. */
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
   * Advances the virtual clock to the end of the next step, and delivers its tokens. Returns null if no work is left. Under
   * asynchronous scheduling, the default, the following step is already planned then, and the last step of a busy period is empty.
   */
  step(): Step | null {
    const { clock } = this;
    if (!(clock instanceof VirtualClock)) throw new Error("step: only on a VirtualClock; real time cannot be moved");
    this.#ended = null;
    while (this.#ended === null) if (!clock.next()) break;
    return this.#ended;
  }

  /** Same as `run.cancel()`. */
  cancel(run: Run): void {
    run.cancel();
  }

  /** Returns a copy of the numbers of `/metrics`: gauges after the last step, counters and histograms since the start. */
  snapshot(): EngineSnapshot {
    return this.#scheduler.snapshot();
  }

  /** Number of runs that have not ended, including future ones. */
  get live(): number {
    return this.#scheduler.live + [...this.#coming].filter(({ ended }) => !ended).length;
  }

  /** Stops the engine. Remaining runs end with reason "abort". The clock stays open. */
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

  /** Returns prompt ids, or for a length two unique hash words per full block. */
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
