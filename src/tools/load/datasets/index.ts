/** Which dataset is meant, and which requests are in it? By vLLM's and aiperf's names; what is not said has vLLM's defaults. */
import { TraceFile } from "../../../workloads/lines.ts";
import { openTrace, rowShapeOf } from "../../../workloads/open.ts";
import type { SkippedRows } from "../../../workloads/skipped-rows.ts";
import type { Timestamps } from "../../../workloads/timestamps.ts";
import { type BadLine, TraceError, type TraceOptions, type TraceRequest } from "../../../workloads/trace.ts";
import type { Dataset, Turn } from "../requests/types.ts";
import { custom } from "./custom.ts";
import { mooncakeDataset, promptOfIds, type Writers } from "./mooncake.ts";
import { type Dated, inOrder, isBad } from "./rows.ts";
import { shareGptDataset } from "./sharegpt.ts";
import { alone, conversations, prefixRepetition, type Range, random, rangeOf, shuffle } from "./synthetic.ts";
import { type Count, type Measure, measure, PromptWriter, Streams, UNMEASURED } from "./text.ts";
import type { ThinkTime } from "./think.ts";

export type { Range } from "./synthetic.ts";
export type { Count } from "./text.ts";
export { parseThinkTime, THINK_FORM, type ThinkTime } from "./think.ts";

/** Those that are made up, and those that are read. */
export const SYNTHETIC = ["random", "prefix_repetition", "multi_turn"] as const;
export const FROM_FILES = ["sharegpt", "mooncake", "bailian", "weka", "azure", "burstgpt", "otel", "custom"] as const;
export const DATASET_NAMES = [...SYNTHETIC, ...FROM_FILES] as const;
export type DatasetName = (typeof DATASET_NAMES)[number];

/** What is left out has its default; what a dataset does not know is refused by name. */
export interface DatasetOptions {
  readonly name: DatasetName;
  /** `-` is standard input, which can be read once. */
  readonly path?: string | undefined;
  /** Chat and conversations need text; completions get token ids where a prompt is made up. */
  readonly chat: boolean;
  /** How the server counts; null: it has no `/tokenize`, and words stand for tokens. */
  readonly count: Count | null;
  /** For what is drawn from a file; made-up prompts take the seed of `turns`. */
  readonly seed: number;
  /** How many requests will be asked for; null: nobody knows. */
  readonly limit: number | null;
  /** Tokens: of random and multi_turn the prompt's (1024), of a turn in multi_turn what is new. */
  readonly inputLen?: number | undefined;
  /** Tokens (128); of sharegpt and custom those that the file would say. */
  readonly outputLen?: number | undefined;
  /** Used by random and multi_turn: lengths are drawn evenly from len·(1−r) to len·(1+r). From 0 to below 1. */
  readonly rangeRatio?: number | undefined;
  /** Tokens that all prompts (random, multi_turn: 0), or those of one prefix (prefix_repetition: 256), begin with. */
  readonly prefixLen?: number | undefined;
  /** Used by prefix_repetition: tokens behind the prefix (256), and how many prefixes there are (10). */
  readonly suffixLen?: number | undefined;
  readonly numPrefixes?: number | undefined;
  /** Used by traces with hash ids: units and sizes of their rows. */
  readonly trace?: TraceOptions | undefined;
  /** Used by multi_turn: turns of a conversation, drawn evenly (2 to 6). */
  readonly turns?: Range | undefined;
  /** Used by multi_turn: the pause before each turn but the first (exponential, 5 s on average). */
  readonly think?: ThinkTime | undefined;
}

/** With prompts for warming up: endless, and none has a beginning in common with those that are measured. */
export interface LoadDataset extends Dataset {
  warmUp(seed: number): Iterable<Turn>;
  /** How long a made-up prompt is on the server: counted there, as ids, or by words that are one token in common vocabularies. */
  readonly lengths: "counted" | "ids" | "estimated";
  /** Timestamps and left-out rows of the part of the dataset that has been read. */
  rows(): RowsRead;
}

/** `times` null: the dataset has no times of its own; `passed` null: it passes no rows over. */
export interface RowsRead {
  readonly times: Timestamps | null;
  readonly passed: SkippedRows | null;
}

const NO_ROWS: RowsRead = { times: null, passed: null };

type Knob = Exclude<keyof DatasetOptions, "trace" | "name" | "path" | "chat" | "count" | "seed" | "limit">;

const KNOBS: Readonly<Record<DatasetName, readonly Knob[]>> = {
  random: ["inputLen", "outputLen", "rangeRatio", "prefixLen"],
  prefix_repetition: ["outputLen", "prefixLen", "suffixLen", "numPrefixes"],
  multi_turn: ["inputLen", "outputLen", "rangeRatio", "prefixLen", "turns", "think"],
  sharegpt: ["outputLen"],
  mooncake: [],
  bailian: [],
  weka: [],
  otel: [],
  azure: [],
  burstgpt: [],
  custom: ["outputLen"],
};

/** As users type them, for messages. */
const FLAGS: Readonly<Record<Knob, string>> = {
  inputLen: "--input-len",
  outputLen: "--output-len",
  rangeRatio: "--random-range-ratio",
  prefixLen: "--random-prefix-len or --prefix-repetition-prefix-len",
  suffixLen: "--prefix-repetition-suffix-len",
  numPrefixes: "--prefix-repetition-num-prefixes",
  turns: "--turns",
  think: "--think-time",
};

/** Warm-up prompts of a dataset from a file. */
const WARM_UP_INPUT = 512;
const WARM_UP_OUTPUT = 32;

/** Opens it, and asks the server for its tokens where texts are made up. Throws a TraceError that says in one line what is wrong. */
export async function dataset(options: DatasetOptions): Promise<LoadDataset> {
  const { name, path, chat, count } = options;
  refuseStrangers(options);
  rowShapeOf(name, options.trace ?? {});
  const isMadeUp = (SYNTHETIC as readonly string[]).includes(name);
  if (isMadeUp && path !== undefined)
    throw new TraceError(`--dataset-name ${name} is made up; --dataset-path ${path} is for the others`);
  if (!isMadeUp && path === undefined) throw new TraceError(`--dataset-name ${name} needs --dataset-path FILE`);
  // The answers that a conversation carries are text, so what is new in it is text, too.
  const talks = name === "multi_turn" || name === "mooncake";
  const measured: Measure = (chat || talks) && count ? await measure(count) : UNMEASURED;
  const text = new PromptWriter(measured);
  const writer = chat || name === "multi_turn" ? text : new PromptWriter(null);
  const lengths = writer !== text ? "ids" : measured.measured ? "counted" : "estimated";
  const close = () => {};
  if (isMadeUp) {
    const make = madeUp(options, writer);
    return {
      name,
      total: null,
      turns: (seed) => make(new Streams(seed)),
      warmUp: (seed) => make(new Streams(seed, true)),
      lengths,
      rows: () => NO_ROWS,
      close,
    };
  }
  const warmUp = (seed: number) =>
    random(
      writer,
      { input: exactly(WARM_UP_INPUT), output: exactly(WARM_UP_OUTPUT), prefixLen: 0 },
      new Streams(seed, true),
    );
  if (name === "sharegpt") {
    const shape = { outputTokens: options.outputLen ?? null, limit: options.limit, count };
    const { turns, bad, passed } = await shareGptDataset(path!, shape, new Streams(options.seed));
    const shuffled = (seed: number): (Turn | BadLine)[] => {
      const order = [...turns];
      if (seed !== options.seed) shuffle(order, new Streams(seed).of("order"));
      return [...bad, ...order];
    };
    return {
      name,
      total: turns.length,
      turns: shuffled,
      warmUp,
      lengths,
      rows: () => ({ times: null, passed }),
      close,
    };
  }
  // Now, so that a path that cannot be read is told before anything is sent.
  if (path !== "-") new TraceFile(path!).close();
  let rows = NO_ROWS;
  const onRows = (read: RowsRead) => {
    rows = read;
  };
  return {
    name,
    total: null,
    turns: (seed) => fromFile(options, { writer, text }, new Streams(seed), onRows),
    warmUp,
    lengths,
    rows: () => rows,
    close,
  };
}

function refuseStrangers(options: DatasetOptions): void {
  const known = KNOBS[options.name];
  for (const knob of Object.keys(FLAGS) as Knob[]) {
    if (options[knob] === undefined || known.includes(knob)) continue;
    const takes = known.length > 0 ? `it takes ${known.map((one) => FLAGS[one]).join(", ")}` : "it takes no lengths";
    throw new TraceError(`${FLAGS[knob]} is not for --dataset-name ${options.name}; ${takes}`);
  }
}

const exactly = (length: number): Range => ({ least: length, most: length });

function madeUp(options: DatasetOptions, writer: PromptWriter): (streams: Streams) => Iterable<Turn> {
  const { name, inputLen = 1024, outputLen = 128, rangeRatio = 0 } = options;
  if (!(rangeRatio >= 0 && rangeRatio < 1)) {
    throw new TraceError(`--random-range-ratio ${rangeRatio}: takes a number from 0 to below 1`);
  }
  if (name === "prefix_repetition") {
    const { prefixLen = 256, suffixLen = 256, numPrefixes: prefixes = 10 } = options;
    if (prefixLen + suffixLen < 1)
      throw new TraceError("--dataset-name prefix_repetition: a prompt needs at least one token");
    return (streams) => prefixRepetition(writer, { prefixLen, suffixLen, prefixes, outputTokens: outputLen }, streams);
  }
  const { prefixLen = 0, turns = { least: 2, most: 6 }, think = { kind: "exponential", meanUs: 5e6 } } = options;
  const input = rangeOf(inputLen, rangeRatio, name === "random" && prefixLen > 0 ? 0 : 1);
  const shape = { input, output: rangeOf(outputLen, rangeRatio, 1), prefixLen };
  if (name === "random") return (streams) => random(writer, shape, streams);
  return (streams) => conversations(writer, { ...shape, turns, think }, streams);
}

/** `onRows` receives what is read of the rows, which changes as they are read. */
function* fromFile(
  options: DatasetOptions,
  writers: Writers,
  streams: Streams,
  onRows: (rows: RowsRead) => void,
): Generator<Turn | BadLine> {
  const { name, chat, path, outputLen = null } = options;
  if (name !== "mooncake" && name !== "custom") return yield* fromTrace(options, writers.writer, streams, onRows);
  const file = new TraceFile(path!);
  try {
    if (name === "custom") yield* inOrder(custom(file.lines(), { chat, outputTokens: outputLen }));
    else {
      const rows = rowShapeOf(name, options.trace ?? {});
      onRows({ times: rows.times, passed: null });
      yield* inOrder(mooncakeDataset(file.lines(), writers, { rows, chat }, streams));
    }
  } finally {
    file.close();
  }
}

function* fromTrace(
  { name, path, trace: asked }: DatasetOptions,
  writer: PromptWriter,
  streams: Streams,
  onRows: (rows: RowsRead) => void,
): Generator<Turn | BadLine> {
  const trace = openTrace(path!, name, asked);
  try {
    onRows(trace);
    const dated = function* (): Generator<Dated | BadLine> {
      for (const item of trace.items(0)) {
        trace.passed.rows++;
        yield isBad(item) ? item : turnOf(item, trace.blockTokens, writer, streams);
      }
    };
    yield* inOrder(dated());
  } finally {
    trace.close();
  }
}

/** Equal hash ids become equal text; the rest of a prompt is its own. A prompt has the whole conversation so far. */
function turnOf(request: TraceRequest, blockTokens: number, writer: PromptWriter, streams: Streams): Dated {
  const { line, arrivalUs, promptTokens, outputTokens, blockIds, conversation, thinkUs = 0 } = request;
  const prompt = promptOfIds(writer, streams, { line, promptTokens, blockIds: blockIds ?? [], blockTokens });
  const whole = conversation === undefined ? {} : { conversation, thinkUs, whole: true as const };
  return { line, turn: { ...alone(prompt, promptTokens, outputTokens), arrivalUs, ...whole } };
}
