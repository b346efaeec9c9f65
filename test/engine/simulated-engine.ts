/** Shared by the simulations: an engine on virtual time, receivers that record tokens and times, and the plans. */
import { spyOn } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Field, SLOTS, Total, Word } from "../../assembly/layout.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { engineConfig } from "../../src/embed/options.ts";
import { Batch } from "../../src/engine/batch.ts";
import type { EngineConfig, VllmPolicy } from "../../src/engine/config/engine-config.ts";
import { Engine } from "../../src/engine/engine.ts";
import { Finish, type Generation, type Receiver, type Submission } from "../../src/engine/interface/types.ts";
import type { EngineOptions } from "../../src/engine/options.ts";
import type { StepLoad } from "../../src/engine/timing/timing.ts";
import type { Core } from "../../src/engine/wasm/core.ts";
import { loadAnswers, nextToken } from "../../src/text/answers/answers.ts";

const read = (name: string) => readFileSync(join(import.meta.dir, "../../build", name));
export const release = new WebAssembly.Module(read("core.wasm"));
/** Checks all invariants after each call. */
export const debug = new WebAssembly.Module(read("core.debug.wasm"));
/** Cores with TensorRT-LLM's policies. */
export const trtllm = {
  release: new WebAssembly.Module(read("trtllm.wasm")),
  debug: new WebAssembly.Module(read("trtllm.debug.wasm")),
};
export const answers = loadAnswers(read("answers.bin"));
/** No answer table contains it. */
export const EOS = 200_002;

/** Defaults of the server. */
const { engine: defaults } = engineConfig({});

/** A small engine with the server's other defaults. */
/** Changes of an engine's configuration, and of the options that only vLLM's scheduler has. */
export type ConfigChanges = Partial<Omit<EngineConfig, "vllm">> & { readonly vllm?: Partial<VllmPolicy> };

export function configOf(changes: ConfigChanges = {}): EngineConfig {
  return {
    ...defaults,
    maxModelLen: 512,
    maxNumSeqs: 8,
    maxNumActiveSeqs: changes.maxNumSeqs ?? 8,
    maxNumBatchedTokens: 128,
    maxNumScheduledTokens: changes.maxNumBatchedTokens ?? 128,
    numGpuBlocks: 129,
    timing: { kind: "linear", baseUs: 1000, prefillUs: 10, decodeUs: 20 },
    ...changes,
    vllm: { ...defaults.vllm, ...changes.vllm },
  };
}

/** Returns ids of a stream. Equal streams share their prefixes. */
export const promptOf = (length: number, stream = 0) =>
  Uint32Array.from({ length }, (_, i) => 1000 + ((stream * 7919 + i * 31) % 50_000));

export function generationOf(changes: Partial<Generation> = {}): Generation {
  return {
    promptIds: promptOf(20),
    maxTokens: 8,
    minTokens: 0,
    ignoreEos: false,
    plannedTokens: null,
    stopTokenIds: [],
    seed: 1,
    priority: 0,
    cacheSalt: "",
    skipReadingPrefixCache: false,
    arrivalUs: 0,
    ...changes,
  };
}

export interface Event {
  readonly us: number;
  readonly ids: readonly number[];
  readonly finish: Finish | null;
  readonly stopTokenId: number;
}

/** The front end of one request, which records everything it receives. */
export class RecordingReceiver implements Receiver {
  readonly events: Event[] = [];
  submission!: Submission;
  /** True if the front end ended the request. */
  ended = false;
  /** True if it did so because of a stop string. */
  stopped = false;
  callsAfterEnd = 0;
  /** Called at the end of each call. */
  afterwards: (() => void) | null = null;

  constructor(
    readonly generation: Generation,
    readonly clock: VirtualClock,
    readonly endsOnly = false,
  ) {}

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.ended || this.finish !== null) this.callsAfterEnd++;
    this.events.push({ us: this.clock.now(), ids: Array.from(ids.subarray(at, at + count)), finish, stopTokenId });
    this.afterwards?.();
  }

  get ids(): number[] {
    return this.events.flatMap((event) => event.ids);
  }
  get finish(): Finish | null {
    return this.events.at(-1)?.finish ?? null;
  }
  /** Times of the tokens. */
  get tokenUs(): number[] {
    return this.events.flatMap(({ ids, us }) => ids.map(() => us));
  }
  get ttftUs(): number {
    return this.tokenUs[0]! - this.generation.arrivalUs;
  }
  get gapsUs(): number[] {
    return this.tokenUs.slice(1).map((us, i) => us - this.tokenUs[i]!);
  }

  cancel(): void {
    this.ended = true;
    this.submission.cancel();
  }
  stopAfter(tokens: number): void {
    this.ended = true;
    this.stopped = true;
    this.submission.finish(Finish.Stop, tokens);
  }
}

export interface WorldOptions {
  readonly module?: WebAssembly.Module;
  readonly startUs?: number;
  readonly countersFrom?: number;
  /** True if receivers only need ends. */
  readonly endsOnly?: boolean;
  /** Further observers of the engine. */
  readonly more?: (
    clock: VirtualClock,
  ) => Pick<EngineOptions, "meters" | "loopObservers" | "rank" | "cacheFeed" | "kvEvents">;
}

export class World {
  readonly clock: VirtualClock;
  readonly engine: Engine;
  readonly receivers: RecordingReceiver[] = [];
  readonly #endsOnly: boolean;
  refused = 0;

  constructor(
    readonly config: EngineConfig,
    { module = debug, startUs = 0, countersFrom = 0, endsOnly = false, more = () => ({}) }: WorldOptions = {},
  ) {
    this.#endsOnly = endsOnly;
    this.clock = new VirtualClock(startUs);
    const { clock } = this;
    const own = { config, clock, module, free: false, eosId: EOS, answers, countersFrom };
    this.engine = new Engine({ ...own, ...more(clock) });
  }

  /** Submits a request now. Returns null if it was refused. */
  submit(changes: Partial<Generation> = {}): RecordingReceiver | null {
    const receiver = new RecordingReceiver(
      generationOf({ arrivalUs: this.clock.now(), ...changes }),
      this.clock,
      this.#endsOnly,
    );
    const taken = this.engine.submit(receiver.generation, receiver);
    if ("refused" in taken) {
      this.refused++;
      return null;
    }
    receiver.submission = taken;
    this.receivers.push(receiver);
    return receiver;
  }

  /** Returns everything that was delivered, with times from the clock's start. Equal runs give equal text. */
  digest(fromUs = 0): string {
    return this.receivers
      .map(({ events }) => events.map((e) => `${e.us - fromUs}:${e.ids}:${e.finish ?? ""}:${e.stopTokenId}`).join(" "))
      .join("\n");
  }
}

/** Returns the answer of a generation, which does not depend on load: a second implementation of the rules. */
export function answerOf(generation: Generation, maxModelLen: number): { ids: number[]; finish: Finish } {
  const { script, seed, minTokens, maxTokens, ignoreEos, plannedTokens, stopTokenIds, promptIds } = generation;
  const most = Math.min(maxTokens, maxModelLen - promptIds.length);
  const eosAt = script ? script.length + 1 : plannedTokens && Math.max(plannedTokens, minTokens + 1);
  const ids: number[] = [];
  for (;;) {
    const position = ids.length;
    let id = script?.subarray(position, position + 1)[0] ?? nextToken(answers, seed, position);
    for (let again = 1; !script && position < minTokens && stopTokenIds.includes(id); again++) {
      id = nextToken(answers, (seed + again) | 0, position);
    }
    if (!ignoreEos && eosAt === position + 1) id = EOS;
    ids.push(id);
    if (id === EOS) return { ids, finish: Finish.Stop };
    if (ids.length >= minTokens && stopTokenIds.includes(id)) return { ids, finish: Finish.Stop };
    if (ids.length >= (script && ignoreEos ? Math.min(most, script.length) : most)) {
      return { ids, finish: Finish.Length };
    }
  }
}

/** One planned step, read from the core's memory. */
export interface PlanInMemory {
  readonly core: Core;
  readonly nowUs: number;
  readonly durationUs: number;
  readonly rows: number;
  readonly tokens: number;
  readonly load: StepLoad;
}

/** Calls `look` with each plan of every engine, until the returned function is called. */
export function watchPlans(look: (planned: PlanInMemory) => void): () => void {
  const plan = Batch.prototype.plan;
  const spy = spyOn(Batch.prototype, "plan").mockImplementation(function (this: Batch, nowUs: number) {
    const durationUs = plan.call(this, nowUs);
    look({ core: this.core, nowUs, durationUs, ...loadOf(this.core) });
    return durationUs;
  });
  return () => spy.mockRestore();
}

function loadOf({ views }: Core) {
  const rows = views.word(Word.PlanRows);
  const handles = views.list(Word.RowHandleAt, rows);
  const each = views.list(Word.RowTokensAt, rows);
  const load = { promptTokens: 0, prefix: 0, pairs: 0, decodes: 0, context: 0 };
  handles.forEach((handle, row) => {
    const slot = handle % SLOTS;
    const n = each[row]!;
    const before = views.field(Field.Computed, slot) - n;
    if (n === 1 && before >= views.field(Field.Prompt, slot)) {
      load.decodes++;
      load.context += before + 1;
    } else {
      load.promptTokens += n;
      load.prefix += before;
      load.pairs += n * (before + (n + 1) / 2);
    }
  });
  return { rows, tokens: each.reduce((sum, n) => sum + n, 0), load };
}

/** Returns all cumulative counters minus their start value. */
export const totalsOf = (core: Core, from = 0) =>
  Array.from({ length: Total.Count }, (_, total) => core.total(total as Total) - from);
