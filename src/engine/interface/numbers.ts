/**
 * Which numbers does a snapshot have, of what kind, and where do they stand? Each is named here once: the types of
 * snapshots, the views of the core, the copies that scrapes read, and what becomes of a number when its process is gone
 * all follow from these tables. Units stand at the end of a name; without one it is a count.
 */
import { Histogram, Total, Word } from "../../../assembly/layout.ts";
import { KvTotal } from "../../../assembly/trtllm/layout.ts";
import type { HistogramName } from "./types.ts";

/** A counter only rises; a gauge is what it is at the moment, and a process that is gone holds nothing. */
export type CounterOrGauge = "counter" | "gauge";

/** What a table says of a number. */
export interface Counted {
  readonly kind: CounterOrGauge;
}

/** The numbers of a table, as a snapshot has them. */
export type NumbersOf<Table extends Readonly<Record<string, Counted>>> = { readonly [Name in keyof Table]: number };

/** The names of a table, in its order. */
export const namesIn = <Name extends string>(table: Readonly<Record<Name, unknown>>) => Object.keys(table) as Name[];

/** Those numbers of a view, copied. */
export function numbersOf<Name extends string>(view: Readonly<Record<Name, number>>, names: readonly Name[]) {
  const copy = {} as Record<Name, number>;
  for (const name of names) copy[name] = view[name];
  return copy;
}

/** Numbers of the last plan. */
interface PlanNumbers {
  readonly takenUs: number;
  readonly taken: number;
  readonly busyUs: number;
  readonly requests: number;
  readonly scheduled: number;
  readonly prefills: number;
  readonly prefillTokens: number;
  readonly preempted: number;
}

/** Where an engine's numbers stand. */
export interface NumberSources {
  /** The core's `Word`s: as they stand, or as the last update left them. */
  readonly words: Int32Array;
  /** The core's `Total`s, likewise: for those that a plan moves, which vLLM's scheduler tells of with each update. */
  readonly told: Float64Array;
  /** The core's `Total`s as they stand. */
  readonly totals: Float64Array;
  /** `KvTotal`s of the core of TensorRT-LLM's policies; null: vLLM's. */
  readonly kvTotals: Float64Array | null;
  readonly plan: PlanNumbers;
  readonly blockSize: number;
  readonly blocksUsable: number;
  readonly coreMemoryBytes: number;
  readonly state: { readonly sleep: number };
}

interface EngineNumber extends Counted {
  readonly read: (from: NumberSources) => number;
}

const gauge = (read: EngineNumber["read"]): EngineNumber => ({ kind: "gauge", read });
const counter = (read: EngineNumber["read"]): EngineNumber => ({ kind: "counter", read });
/** A counter of the core that moves at updates and ends. */
const total = (at: Total) => counter(({ totals }) => totals[at]!);
/** A counter of the core that moves when a step is planned. */
const toldTotal = (at: Total) => counter(({ told }) => told[at]!);

const COUNTER: Counted = { kind: "counter" };
const GAUGE: Counted = { kind: "gauge" };

/** One engine's. */
export const ENGINE_NUMBERS = {
  /** Requests in execution batches. */
  running: gauge(({ words }) => words[Word.Running]!),
  /** Requests that wait for capacity. */
  waiting: gauge(({ words }) => words[Word.Waiting]! - words[Word.Deferred]!),
  /** Requests that wait for something of their own. */
  deferred: gauge(({ words }) => words[Word.Deferred]!),
  /** 0 to 1; cached blocks that nobody uses count as free. */
  kvUsage: gauge(({ words, blocksUsable }) => 1 - words[Word.BlocksFree]! / blocksUsable),
  /** Blocks that requests hold. */
  blocksUsed: gauge(({ words, blocksUsable }) => blocksUsable - words[Word.BlocksFree]!),
  /** Blocks that requests can use: the pool without the null block. */
  blocksUsable: gauge(({ blocksUsable }) => blocksUsable),
  /** Steps planned since the start. */
  steps: total(Total.Steps),
  /** When a step was taken in last, engine time; 0 before the first. */
  takenUs: gauge(({ plan }) => plan.takenUs),
  /** Steps that were taken in. */
  iterations: counter(({ plan }) => plan.taken),
  /** Sum of the durations of all steps planned so far. */
  busyUs: counter(({ plan }) => plan.busyUs),
  /** Requests that ran or waited when the last step was planned. */
  planRequests: gauge(({ plan }) => plan.requests),
  /** Those of them with tokens in it; 0 at rest. */
  planScheduled: gauge(({ plan }) => plan.scheduled),
  /** Scheduled requests that compute their prompt, and the prompt tokens of these. */
  planPrefills: gauge(({ plan }) => plan.prefills),
  /** Prompt tokens of those. */
  planPrefillTokens: gauge(({ plan }) => plan.prefillTokens),
  /** Preempted by that plan. */
  planPreempted: gauge(({ plan }) => plan.preempted),
  /** 0: awake; else one more than the level at which it sleeps. */
  sleep: gauge(({ state }) => state.sleep),
  /** The core's linear memory. */
  coreMemoryBytes: gauge(({ coreMemoryBytes }) => coreMemoryBytes),
  /** Prompt tokens of requests that were admitted. */
  promptTokens: total(Total.PromptTokens),
  /** Found in the prefix cache among them. */
  promptTokensCached: total(Total.PromptTokensCached),
  /** Output tokens. */
  generationTokens: total(Total.GenerationTokens),
  /** Requests that lost their blocks. */
  preemptions: toldTotal(Total.Preemptions),
  /** Those that an output of the request has told of since: what vLLM's front end has heard. */
  preemptionsTold: total(Total.PreemptionsReported),
  /** Aborts that the engine decided (a pause); the other aborts are clients that left. */
  abortedByEngine: total(Total.FinishedEngineAbort),
  /** Prompt tokens that were looked up in the prefix cache. */
  prefixQueries: toldTotal(Total.PrefixQueries),
  /** Found among them. */
  prefixHits: toldTotal(Total.PrefixHits),
  /** Lookups for preempted requests that came back: vLLM keeps them apart and shows them nowhere. */
  preemptedQueries: toldTotal(Total.PreemptedQueries),
  /** Found among them. */
  preemptedHits: toldTotal(Total.PreemptedHits),
  /** Blocks that lookups found, partly alike ones too; of vLLM's policy whole blocks of first lookups. */
  blocksReused: counter(({ kvTotals, told, blockSize }) =>
    kvTotals === null ? Math.floor(told[Total.PrefixHits]! / blockSize) : kvTotals[KvTotal.Reused]!,
  ),
} as const;
export const ENGINE_NAMES = namesIn(ENGINE_NUMBERS);

/** Microseconds of the core in a printed second, and what is printed as it is counted. */
const SECONDS = 1e6;
const COUNT = 1;

/** From the core's unit of each of its histograms to the printed one; their bounds are in engine/config/buckets.ts. */
const UNITS: Readonly<Record<HistogramName, number>> = {
  timeToFirstToken: SECONDS,
  interTokenLatency: SECONDS,
  e2eLatency: SECONDS,
  queueTime: SECONDS,
  prefillTime: SECONDS,
  decodeTime: SECONDS,
  inferenceTime: SECONDS,
  timePerOutputToken: SECONDS,
  promptTokens: COUNT,
  generationTokens: COUNT,
  maxTokens: COUNT,
  iterationTokens: COUNT,
  requestPreemptions: COUNT,
  prefillComputed: COUNT,
  requestChoices: COUNT,
  longestChoice: COUNT,
};

/** The name in the core's `Histogram`: with a large first letter. */
const inCore = (name: HistogramName) =>
  Histogram[`${name[0]!.toUpperCase()}${name.slice(1)}` as keyof typeof Histogram];

/** The core's histograms, in memory order. */
export const HISTOGRAMS = namesIn(UNITS)
  .map((name) => ({ name, unit: UNITS[name] }))
  .sort((a, b) => inCore(a.name) - inCore(b.name));

/** One LoRA adapter's in one engine. */
export const ADAPTER_NUMBERS = {
  /** Requests in execution batches. */
  running: GAUGE,
  /** Deferred ones included. */
  waiting: GAUGE,
  /**
   * What vLLM 0.33's front knows (`LoRARequestStates`, `v1/metrics/stats.py`): it hears of a request with its first output.
   * 0: of none that lives. Else the adapter is named in `vllm:lora_requests_info`, smaller ranks first, and always among
   * the running and among the waiting ones, since that version writes the same list into both labels.
   */
  heard: GAUGE,
} as const;
export const ADAPTER_NAMES = namesIn(ADAPTER_NUMBERS);

/** The loop's. */
export const LOOP_NUMBERS = { clockRebasedSeconds: COUNTER, stepsLate: COUNTER } as const;
export const LOOP_NAMES = namesIn(LOOP_NUMBERS);

/** The loop's histograms, in seconds. */
export const LOOP_HISTOGRAMS = [
  /** How late a step's writing began, and how late its last row was written. */
  "stepStartLateness",
  "stepEndLateness",
  "stepWriteDuration",
  /** What a step takes of the loop's thread: update, writing, the next plan. */
  "stepHostTime",
  /** How much later than asked for the event loop got to something. */
  "eventLoopDelay",
] as const;

/** What happened outside the core. */
export const FRONT_NUMBERS = {
  /** Requests to generation routes that are being answered; event streams among them. */
  requestsOpen: GAUGE,
  streamsOpen: GAUGE,
  /** Events that the socket has not taken and ids that wait for it, of answers whose clients do not keep up. */
  bytesHeld: GAUGE,
  /** Requests that a queue limit kept out: that of requests, that of prompt tokens. */
  rejectedByRequests: COUNTER,
  rejectedByTokens: COUNTER,
  /** Worker processes that were started in the place of dead ones; 0 in a process of its own. */
  workerRestarts: COUNTER,
  /** Log lines that this process dropped because nothing read them. */
  logLinesDropped: COUNTER,
} as const;
export const FRONT_NAMES = namesIn(FRONT_NUMBERS);

/** `understudy_requests_total{outcome}`; refused = answered with 4xx/503 before the engine took it. */
export const OUTCOMES = ["stop", "length", "abort", "refused", "error"] as const;

/** Looks of a parser of tool calls: at a delta or a whole answer, with or without a call, by the API that was asked; counters. */
export const PARSED_HOW = ["Stream", "Whole"] as const;
export const PARSED_APIS = ["Chat", "Responses"] as const;
export type ParsedHow = (typeof PARSED_HOW)[number];
export type ParsedApi = (typeof PARSED_APIS)[number];
export type ToolLook = `${ParsedHow}${"Called" | "Plain"}${ParsedApi}`;

export function toolLook(how: ParsedHow, called: boolean, api: ParsedApi): ToolLook {
  return `${how}${called ? "Called" : "Plain"}${api}`;
}

export const TOOL_LOOKS: readonly ToolLook[] = PARSED_HOW.flatMap((how) =>
  [true, false].flatMap((called) => PARSED_APIS.map((api) => toolLook(how, called, api))),
);

/** What a truth log lost, to full buffers or to the disk: runs of tokens, rows of steps, rows of requests. */
export const TRUTH_NUMBERS = { run: COUNTER, step: COUNTER, request: COUNTER } as const;
export const TRUTH_NAMES = namesIn(TRUTH_NUMBERS);
