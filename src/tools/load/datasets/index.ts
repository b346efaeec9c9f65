/** Opens a dataset by its name, with the names of vLLM and aiperf. Options that are not set have vLLM's defaults. */
import { TraceFile } from "../../../workloads/lines.ts";
import { openTrace, rowShapeOf } from "../../../workloads/open.ts";
import type { SkippedRows } from "../../../workloads/skipped-rows.ts";
import type { Timestamps } from "../../../workloads/timestamps.ts";
import { type BadLine, TraceError, type TraceOptions, type TraceRequest } from "../../../workloads/trace.ts";
import type { Turn } from "../requests/types.ts";
import { custom } from "./custom.ts";
import { mooncakeDataset, promptOfIds, type Writers } from "./mooncake.ts";
import { type DatedTurn, inOrder, isBad } from "./rows.ts";
import { shareGptDataset } from "./sharegpt.ts";
import { conversations, prefixRepetition, type Range, random, rangeOf, shuffle, singleTurn } from "./synthetic.ts";
import { type Count, type Measure, measure, PromptWriter, Streams, UNMEASURED } from "./text.ts";
import type { ThinkTime } from "./think.ts";

export type { Range } from "./synthetic.ts";
export type { Count } from "./text.ts";
export { parseThinkTime, THINK_FORM, type ThinkTime } from "./think.ts";

/** Datasets that are generated, and datasets that are read from files. */
export const SYNTHETIC = ["random", "prefix_repetition", "multi_turn"] as const;
export const FROM_FILES = ["sharegpt", "mooncake", "bailian", "weka", "azure", "burstgpt", "otel", "custom"] as const;
export const DATASET_NAMES = [...SYNTHETIC, ...FROM_FILES] as const;
export type DatasetName = (typeof DATASET_NAMES)[number];

/** Options of a dataset. Options that are not set have their defaults; options that a dataset does not know are refused. */
export interface DatasetOptions {
  readonly name: DatasetName;
  /** Path of the file. `-` is standard input, which can be read only once. */
  readonly path?: string | undefined;
  /** True for chat and conversations, which need text. Generated prompts of completions are token ids. */
  readonly chat: boolean;
  /** Counts tokens with the server's tokenizer. Null if the server has no `/tokenize`; words then stand for tokens. */
  readonly count: Count | null;
  /** Seed for draws from a file. Generated prompts use the seed of `turns`. */
  readonly seed: number;
  /** Number of requests that will be needed. Null if unknown. */
  readonly limit: number | null;
  /** Prompt tokens of random and multi_turn. Default 1024. In multi_turn only the new part of a turn. */
  readonly inputLen?: number | undefined;
  /** Output tokens. Default 128. For sharegpt and custom they replace the lengths of the file. */
  readonly outputLen?: number | undefined;
  /** Used by random and multi_turn: lengths are drawn evenly from len·(1−r) to len·(1+r). From 0 to below 1. */
  readonly rangeRatio?: number | undefined;
  /**
   * Tokens that all prompts have in common at their beginning (random and multi_turn, default 0), or those of one prefix
   * (prefix_repetition, default 256).
   */
  readonly prefixLen?: number | undefined;
  /** Used by prefix_repetition: tokens after the prefix (default 256), and number of prefixes (default 10). */
  readonly suffixLen?: number | undefined;
  readonly numPrefixes?: number | undefined;
  /** Used by traces with hash ids: time units and block sizes. */
  readonly trace?: TraceOptions | undefined;
  /** Used by multi_turn: number of turns per conversation, drawn evenly. Default 2 to 6. */
  readonly turns?: Range | undefined;
  /** Used by multi_turn: the pause before each turn but the first. Default exponential with a mean of 5 s. */
  readonly think?: ThinkTime | undefined;
}

/** A dataset with warm-up prompts. They are endless, and share no beginning with the measured prompts. */
export interface LoadDataset {
  readonly name: string;
  /** Number of turns. Null if there are as many as needed. */
  readonly total: number | null;
  /** Yields the turns, sorted by arrival if they have times. `seed` is for generated datasets. */
  turns(seed: number): Iterable<Turn | BadLine>;
  warmUp(seed: number): Iterable<Turn>;
  /**
   * Source of the length of a generated prompt: counted by the server, exact because the prompt is ids, or estimated with words
   * that are one token in common vocabularies.
   */
  readonly lengths: "counted" | "ids" | "estimated";
  /** Returns timestamps and skipped rows of the part of the dataset that was read so far. */
  rows(): RowFacts;
}

/** Facts about the rows read so far. `times` is null if the dataset has no times; `passed` is null if it skips no rows. */
export interface RowFacts {
  readonly times: Timestamps | null;
  readonly passed: SkippedRows | null;
}

const NO_ROWS: RowFacts = { times: null, passed: null };

type OptionName = Exclude<keyof DatasetOptions, "trace" | "name" | "path" | "chat" | "count" | "seed" | "limit">;

const OPTIONS_OF: Readonly<Record<DatasetName, readonly OptionName[]>> = {
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

/** Command-line flags of the options, for messages. */
const FLAGS: Readonly<Record<OptionName, string>> = {
  inputLen: "--input-len",
  outputLen: "--output-len",
  rangeRatio: "--random-range-ratio",
  prefixLen: "--random-prefix-len or --prefix-repetition-prefix-len",
  suffixLen: "--prefix-repetition-suffix-len",
  numPrefixes: "--prefix-repetition-num-prefixes",
  turns: "--turns",
  think: "--think-time",
};

/** Lengths of warm-up prompts for datasets from files. */
const WARM_UP_INPUT = 512;
const WARM_UP_OUTPUT = 32;

/**
 * Opens a dataset. Asks the server to count tokens if texts are generated. Throws a TraceError with one line on what is wrong.
 */
export async function dataset(options: DatasetOptions): Promise<LoadDataset> {
  const { name, path, chat, count } = options;
  refuseStrangers(options);
  rowShapeOf(name, options.trace ?? {});
  const isMadeUp = (SYNTHETIC as readonly string[]).includes(name);
  if (isMadeUp && path !== undefined)
    throw new TraceError(`--dataset-name ${name} is generated; remove --dataset-path ${path}`);
  if (!isMadeUp && path === undefined) throw new TraceError(`--dataset-name ${name} needs --dataset-path FILE`);
  // Conversations carry the answers as text, so their new parts are text, too.
  const talks = name === "multi_turn" || name === "mooncake";
  const measured: Measure = (chat || talks) && count ? await measure(count) : UNMEASURED;
  const text = new PromptWriter(measured);
  const writer = chat || name === "multi_turn" ? text : new PromptWriter(null);
  const lengths = writer !== text ? "ids" : measured.measured ? "counted" : "estimated";
  if (isMadeUp) {
    const make = madeUp(options, writer);
    const turns = (seed: number) => make(new Streams(seed));
    return { name, total: null, turns, warmUp: (seed) => make(new Streams(seed, true)), lengths, rows: () => NO_ROWS };
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
    const rows = () => ({ times: null, passed });
    return { name, total: turns.length, turns: shuffled, warmUp, lengths, rows };
  }
  // Open the file now, so that an unreadable path is reported before anything is sent.
  if (path !== "-") new TraceFile(path!).close();
  let rows = NO_ROWS;
  const onRows = (read: RowFacts) => {
    rows = read;
  };
  return {
    name,
    total: null,
    turns: (seed) => fromFile(options, { writer, text }, new Streams(seed), onRows),
    warmUp,
    lengths,
    rows: () => rows,
  };
}

function refuseStrangers(options: DatasetOptions): void {
  const known = OPTIONS_OF[options.name];
  for (const optionName of Object.keys(FLAGS) as OptionName[]) {
    if (options[optionName] === undefined || known.includes(optionName)) continue;
    const takes =
      known.length > 0 ? `it takes ${known.map((option) => FLAGS[option]).join(", ")}` : "it takes no lengths";
    throw new TraceError(`${FLAGS[optionName]} is not for --dataset-name ${options.name}; ${takes}`);
  }
}

const exactly = (length: number): Range => ({ least: length, most: length });

function madeUp(options: DatasetOptions, writer: PromptWriter): (streams: Streams) => Iterable<Turn> {
  const { name, inputLen = 1024, outputLen = 128, rangeRatio = 0 } = options;
  if (!(rangeRatio >= 0 && rangeRatio < 1)) {
    throw new TraceError(`--random-range-ratio ${rangeRatio}: must be a number from 0 to below 1`);
  }
  if (name === "prefix_repetition") {
    const { prefixLen = 256, suffixLen = 256, numPrefixes: prefixes = 10 } = options;
    if (prefixLen + suffixLen < 1)
      throw new TraceError("--dataset-name prefix_repetition: a prompt must have at least one token");
    return (streams) => prefixRepetition(writer, { prefixLen, suffixLen, prefixes, outputTokens: outputLen }, streams);
  }
  const { prefixLen = 0, turns = { least: 2, most: 6 }, think = { kind: "exponential", meanUs: 5e6 } } = options;
  const input = rangeOf(inputLen, rangeRatio, name === "random" && prefixLen > 0 ? 0 : 1);
  const shape = { input, output: rangeOf(outputLen, rangeRatio, 1), prefixLen };
  if (name === "random") return (streams) => random(writer, shape, streams);
  return (streams) => conversations(writer, { ...shape, turns, think }, streams);
}

/** `onRows` receives the facts about the rows. They change while rows are read. */
function* fromFile(
  options: DatasetOptions,
  writers: Writers,
  streams: Streams,
  onRows: (rows: RowFacts) => void,
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
  { name, path, trace: options }: DatasetOptions,
  writer: PromptWriter,
  streams: Streams,
  onRows: (rows: RowFacts) => void,
): Generator<Turn | BadLine> {
  const trace = openTrace(path!, name, options);
  try {
    onRows(trace);
    const datedTurns = function* (): Generator<DatedTurn | BadLine> {
      for (const item of trace.items(0)) {
        trace.passed.rows++;
        yield isBad(item) ? item : turnOf(item, trace.blockTokens, writer, streams);
      }
    };
    yield* inOrder(datedTurns());
  } finally {
    trace.close();
  }
}

/**
 * Makes a turn from a trace row. Equal hash ids become equal text; the rest of the prompt is unique. In a conversation the
 * prompt is the whole conversation so far.
 */
function turnOf(request: TraceRequest, blockTokens: number, writer: PromptWriter, streams: Streams): DatedTurn {
  const { line, arrivalUs, promptTokens, outputTokens, blockIds, conversation, thinkUs = 0 } = request;
  const prompt = promptOfIds(writer, streams, { line, promptTokens, blockIds: blockIds ?? [], blockTokens });
  const whole = conversation === undefined ? {} : { conversation, thinkUs, whole: true as const };
  return { line, turn: { ...singleTurn(prompt, promptTokens, outputTokens), arrivalUs, ...whole } };
}
