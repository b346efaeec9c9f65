/**
 * Loads the core, writes its configuration and tables, and wraps its exported calls. Only this folder uses WebAssembly.
 * It uses no Bun API, so that it also runs in Node and browsers.
 */
import {
  ABI,
  Config,
  HISTOGRAM_WIDTH,
  type Histogram,
  LINEAR_POINTS_MOST,
  TEMPLATE,
  type Total,
  Word,
} from "../../../assembly/layout.ts";
import { TrtConfig } from "../../../assembly/trtllm/layout.ts";
import { CoreViews } from "./views.ts";

/** The raw exports of `assembly/vllm/index.ts`. */
export interface CoreExports {
  readonly memory: WebAssembly.Memory;
  wordsAt(): number;
  totalsAt(): number;
  configAt(): number;
  bytesNeeded(): number;
  init(): void;
  submit(): number;
  feed(handle: number, ids: number): number;
  unblock(handle: number): number;
  close(handle: number, reason: number, tokens: number, nowUs: number): number;
  observeChoices(choices: number, longest: number): void;
  flush(): void;
  schedule(nowUs: number): number;
  update(nowUs: number): number;
  coast(limitUs: number, leastUs: number, most: number): number;
  open(): number;
  hasWork(): number;
  pause(state: number): void;
  resetPrefixCache(force: number): number;
  drainEvents(): void;
  retime(): void;
  verify(): void;
  /** Only in the core with TensorRT-LLM's policies, `assembly/trtllm/index.ts`. */
  trtConfigAt?(): number;
  trtWordsAt?(): number;
  kvTotalsAt?(): number;
}

/** Input of `init`: the configuration words by index, and the tables. */
export interface CoreSetup {
  readonly config: Readonly<Partial<Record<Config, number>>>;
  /** For the core with TensorRT-LLM's policies. */
  readonly trt?: Readonly<Record<Exclude<TrtConfig, TrtConfig.Count>, number>>;
  readonly linearTokens?: readonly number[];
  readonly linearUs?: readonly number[];
  /** Rising bounds per histogram, in microseconds or tokens. */
  readonly bounds?: Readonly<Partial<Record<Histogram, readonly number[]>>>;
  /** Tables of default text. Absent: ids are hashes. */
  readonly answers?: {
    readonly templates: Uint8Array;
    readonly categoryStart: Int32Array;
    readonly ids: Int32Array;
  };
}

/** A broken invariant, with the core's message and the line in `assembly/`. The instance cannot be used afterwards. */
export class CoreTrap extends Error {
  override readonly name = "CoreTrap";
}

/** The configuration needs more memory than a core can have. */
export class CoreTooLarge extends Error {
  override readonly name = "CoreTooLarge";
}

const PAGE_BYTES = 65_536;
/** Upper limit of the addresses of the core's static data. */
const HEAP_BEGIN_BYTES = 65_536;
/** The prefix table has three times as many entries, rounded to a power of two, and a column of the core must be below 1 GiB. */
const BLOCKS_MOST = Math.floor(2 ** 26 / 3);
/** Largest number of token ids in blocks with partial reuse, because they are a column, too. */
const IDS_MOST = 2 ** 28 - 2 ** 16;
const LARGEST_BYTES = 4 * 2 ** 30 - 2 ** 26;

/** Starts a core synchronously from a compiled module (`build/core.wasm` or `build/core.debug.wasm`, which each entry point loads). */
export function startCore(module: WebAssembly.Module, setup: CoreSetup): Core {
  let memory: WebAssembly.Memory | undefined;
  const abort = (message: number, file: number, line: number, column: number) => {
    throw new CoreTrap(`${text(memory!, message)} (${text(memory!, file)}:${line}:${column})`);
  };
  const { exports } = new WebAssembly.Instance(module, { env: { abort } });
  const core = exports as unknown as CoreExports;
  memory = core.memory;
  return new Core(core, setup);
}

/** Reads a UTF-16 text of the core. Its length in bytes is in the word before it. */
function text(memory: WebAssembly.Memory, at: number): string {
  if (at === 0) return "?";
  const length = new Uint32Array(memory.buffer, at - 4, 1)[0]!;
  return String.fromCharCode(...new Uint16Array(memory.buffer, at, length >> 1));
}

/** The state machine of one engine. `exports` has the calls and `views` the memory, for `engine/` and tests only. */
export class Core {
  readonly views: CoreViews;

  constructor(
    readonly exports: CoreExports,
    setup: CoreSetup,
  ) {
    this.#write(setup);
    if (setup.trt) this.#writeTrt(setup.trt);
    const config = this.#config;
    config[Config.Templates] = (setup.answers?.templates.length ?? 0) / TEMPLATE;
    config[Config.Categories] = (setup.answers?.categoryStart.length ?? 1) - 1;
    config[Config.AnswerIds] = setup.answers?.ids.length ?? 0;
    const blocks = setup.config[Config.NumGpuBlocks] ?? 0;
    if (blocks > BLOCKS_MOST) throw new CoreTooLarge(`the core holds at most ${BLOCKS_MOST} KV blocks, not ${blocks}`);
    const ids = setup.trt?.[TrtConfig.PartialReuse] ? blocks * (setup.config[Config.BlockSize] ?? 0) : 0;
    if (ids > IDS_MOST) {
      throw new CoreTooLarge(`with partial reuse the core holds KV blocks of at most ${IDS_MOST} tokens, not ${ids}`);
    }
    const needed = exports.bytesNeeded();
    if (needed > LARGEST_BYTES) {
      throw new CoreTooLarge(`the core would need ${mib(needed)} MiB, the most is ${mib(LARGEST_BYTES)} MiB`);
    }
    // Grown once and exactly. The core's allocator would double the memory instead, and the host counts it as live.
    const { memory } = exports;
    const missing = needed + PAGE_BYTES - (memory.buffer.byteLength - HEAP_BEGIN_BYTES);
    if (missing > 0) memory.grow(Math.ceil(missing / PAGE_BYTES));
    exports.init();
    this.views = new CoreViews(exports);
    if (this.views.word(Word.Abi) !== ABI) throw new Error("core and reader were built apart: run the build");
    this.#fill(setup);
  }

  /** Applies step times from the next plan on. Only reads timing, noise and the table from `setup`. */
  retime(setup: Pick<CoreSetup, "config" | "linearTokens" | "linearUs">): void {
    this.#write(setup);
    this.#fillTable(setup);
    this.exports.retime();
  }

  get #config(): Float64Array {
    return new Float64Array(this.exports.memory.buffer, this.exports.configAt(), Config.Count);
  }

  #write({ config, linearTokens = [] }: Pick<CoreSetup, "config" | "linearTokens">): void {
    if (linearTokens.length > LINEAR_POINTS_MOST) throw new Error(`a table takes at most ${LINEAR_POINTS_MOST} points`);
    const words = this.#config;
    for (const [index, value] of Object.entries(config)) words[Number(index)] = value!;
    words[Config.LinearPoints] = linearTokens.length;
  }

  #writeTrt(words: NonNullable<CoreSetup["trt"]>): void {
    const at = this.exports.trtConfigAt;
    if (!at) throw new Error("options of TensorRT-LLM's policies for a core of vLLM's");
    const row = new Float64Array(this.exports.memory.buffer, at(), TrtConfig.Count);
    for (const [index, value] of Object.entries(words)) row[Number(index)] = value;
  }

  #fillTable({ linearTokens, linearUs }: Pick<CoreSetup, "linearTokens" | "linearUs">): void {
    if (!linearTokens || !linearUs) return;
    const { buffer } = this.exports.memory;
    new Float64Array(buffer, this.views.word(Word.LinearTokensAt) >>> 0, linearTokens.length).set(linearTokens);
    new Float64Array(buffer, this.views.word(Word.LinearUsAt) >>> 0, linearUs.length).set(linearUs);
  }

  #fill({ bounds, answers, ...tables }: CoreSetup): void {
    const { buffer } = this.exports.memory;
    const at = (word: Word) => this.views.word(word) >>> 0;
    this.#fillTable(tables);
    for (const [histogram, values] of Object.entries(bounds ?? {})) {
      if (values!.length >= HISTOGRAM_WIDTH) throw new Error(`a histogram takes at most ${HISTOGRAM_WIDTH - 1} bounds`);
      this.views.bounds.set(values!, Number(histogram) * HISTOGRAM_WIDTH);
    }
    if (answers) {
      new Uint8Array(buffer, at(Word.TemplatesAt), answers.templates.length).set(answers.templates);
      new Int32Array(buffer, at(Word.CategoriesAt), answers.categoryStart.length).set(answers.categoryStart);
      new Int32Array(buffer, at(Word.AnswerIdsAt), answers.ids.length).set(answers.ids);
    }
  }

  total(index: Total): number {
    return this.views.totals[index]!;
  }
}

const mib = (bytes: number) => Math.ceil(bytes / 2 ** 20);
