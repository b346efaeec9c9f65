/**
 * Tables of the numbers in a snapshot: name, kind and source. The types of snapshots, the views of the core, the copies
 * for scrapes, and the treatment of a dead process's numbers all follow from them. A name ends with its unit; without a
 * unit it is a count.
 */
import { Histogram, Total, Word } from "../../../assembly/layout.ts";
import { KvTotal } from "../../../assembly/trtllm/layout.ts";
import type { HistogramName } from "./types.ts";

/** A counter only rises. A gauge is a current value, which is 0 for a dead process. */
export type CounterOrGauge = "counter" | "gauge";

/** Entry of a table. */
export interface NumberEntry {
  readonly kind: CounterOrGauge;
}

/** The numbers of a table as a snapshot has them. */
export type NumbersOf<Table extends Readonly<Record<string, NumberEntry>>> = { readonly [Name in keyof Table]: number };

/** Returns the names of a table, in its order. */
export const namesIn = <Name extends string>(table: Readonly<Record<Name, unknown>>) => Object.keys(table) as Name[];

/** Returns a copy of these numbers of a view. */
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

/** Sources of an engine's numbers. */
export interface NumberSources {
  /** The core's `Word`s: current, or as of the last update. */
  readonly words: Int32Array;
  /**
   * The core's `Total`s that a plan changes. vLLM's scheduler reports these totals as of the last update, so the array may hold
   * older values than `totals`.
   */
  readonly reported: Float64Array;
  /** The core's current `Total`s. */
  readonly totals: Float64Array;
  /** `KvTotal`s of the core with TensorRT-LLM's policies. null for vLLM's. */
  readonly kvTotals: Float64Array | null;
  readonly plan: PlanNumbers;
  readonly blockSize: number;
  readonly blocksUsable: number;
  readonly coreMemoryBytes: number;
  readonly state: { readonly sleep: number };
}

interface EngineNumber extends NumberEntry {
  readonly read: (from: NumberSources) => number;
}

const gauge = (read: EngineNumber["read"]): EngineNumber => ({ kind: "gauge", read });
const counter = (read: EngineNumber["read"]): EngineNumber => ({ kind: "counter", read });
/** A counter of the core that changes at updates and ends. */
const total = (at: Total) => counter(({ totals }) => totals[at]!);
/** A counter of the core that changes when a step is planned. */
const reportedTotal = (at: Total) => counter(({ reported }) => reported[at]!);

const COUNTER: NumberEntry = { kind: "counter" };
const GAUGE: NumberEntry = { kind: "gauge" };

/** Numbers of one engine. */
export const ENGINE_NUMBERS = {
  /** Requests in execution batches. */
  running: gauge(({ words }) => words[Word.Running]!),
  /** Requests that wait for capacity. */
  waiting: gauge(({ words }) => words[Word.Waiting]! - words[Word.Deferred]!),
  /** Waiting requests that are not ready, for example for their adapter or grammar. */
  deferred: gauge(({ words }) => words[Word.Deferred]!),
  /** 0 to 1. Cached blocks without a holder count as free. */
  kvUsage: gauge(({ words, blocksUsable }) => 1 - words[Word.BlocksFree]! / blocksUsable),
  /** Blocks that requests hold. */
  blocksUsed: gauge(({ words, blocksUsable }) => blocksUsable - words[Word.BlocksFree]!),
  /** Blocks that requests can use: the pool without the null block. */
  blocksUsable: gauge(({ blocksUsable }) => blocksUsable),
  /** Steps planned since the start. */
  steps: total(Total.Steps),
  /** Engine time of the last update. 0 before the first. */
  takenUs: gauge(({ plan }) => plan.takenUs),
  /** Steps that were updated. */
  iterations: counter(({ plan }) => plan.taken),
  /** Sum of the durations of all planned steps. */
  busyUs: counter(({ plan }) => plan.busyUs),
  /** Requests that ran or waited at the last plan. */
  planRequests: gauge(({ plan }) => plan.requests),
  /** Requests with tokens in the last planned step. 0 at rest. */
  planScheduled: gauge(({ plan }) => plan.scheduled),
  /** Scheduled requests that compute their prompt. */
  planPrefills: gauge(({ plan }) => plan.prefills),
  /** Prompt tokens that the last planned step computes. */
  planPrefillTokens: gauge(({ plan }) => plan.prefillTokens),
  /** Requests preempted by the last plan. */
  planPreempted: gauge(({ plan }) => plan.preempted),
  /** 0: awake. Otherwise the sleep level plus one. */
  sleep: gauge(({ state }) => state.sleep),
  /** Size of the core's linear memory. */
  coreMemoryBytes: gauge(({ coreMemoryBytes }) => coreMemoryBytes),
  /** Prompt tokens of requests with a first token. */
  promptTokens: total(Total.PromptTokens),
  /** Cached tokens among the prompt tokens. */
  promptTokensCached: total(Total.PromptTokensCached),
  /** Output tokens. */
  generationTokens: total(Total.GenerationTokens),
  /** Preemptions of requests. */
  preemptions: reportedTotal(Total.Preemptions),
  /** Preemptions that a later output has reported, so that vLLM's front end knows of them. */
  preemptionsTold: total(Total.PreemptionsReported),
  /** Aborts by the engine (a pause). All other aborts are disconnected clients. */
  abortedByEngine: total(Total.FinishedEngineAbort),
  /** Prompt tokens that were looked up in the prefix cache. */
  prefixQueries: reportedTotal(Total.PrefixQueries),
  /** Found tokens among the looked-up ones. */
  prefixHits: reportedTotal(Total.PrefixHits),
  /** Lookups of preempted requests at their re-admission. vLLM counts them separately and does not show them. */
  preemptedQueries: reportedTotal(Total.PreemptedQueries),
  /** Found tokens among the looked-up ones. */
  preemptedHits: reportedTotal(Total.PreemptedHits),
  /** Blocks that lookups found, including partly equal ones. For vLLM's policy, whole blocks of first lookups. */
  blocksReused: counter(({ kvTotals, reported, blockSize }) =>
    kvTotals === null ? Math.floor(reported[Total.PrefixHits]! / blockSize) : kvTotals[KvTotal.Reused]!,
  ),
} as const;
export const ENGINE_NAMES = namesIn(ENGINE_NUMBERS);

/** Factors from the printed unit to the core's: microseconds per second, and 1 for counts. */
const SECONDS = 1e6;
const COUNT = 1;

/** Factor from the printed unit to the core's, by histogram. Bounds are in engine/config/buckets.ts. */
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

/** Returns the index in the core's `Histogram`, whose names start with a capital letter. */
const inCore = (name: HistogramName) =>
  Histogram[`${name[0]!.toUpperCase()}${name.slice(1)}` as keyof typeof Histogram];

/** The core's histograms, in memory order. */
export const HISTOGRAMS = namesIn(UNITS)
  .map((name) => ({ name, unit: UNITS[name] }))
  .sort((a, b) => inCore(a.name) - inCore(b.name));

/** Numbers of one LoRA adapter in one engine. */
export const ADAPTER_NUMBERS = {
  /** Requests in execution batches. */
  running: GAUGE,
  /** Includes deferred requests. */
  waiting: GAUGE,
  /**
   * State that vLLM 0.33's front end keeps (`LoRARequestStates`, `v1/metrics/stats.py`); it learns of a request with
   * its first output. 0: no live request of the adapter has output. Otherwise the adapter appears in
   * `vllm:lora_requests_info`, smaller ranks first. It appears among running and waiting adapters, because that version
   * writes the same list into both labels.
   */
  heard: GAUGE,
} as const;
export const ADAPTER_NAMES = namesIn(ADAPTER_NUMBERS);

/** Numbers of the loop. */
export const LOOP_NUMBERS = { clockRebasedSeconds: COUNTER, stepsLate: COUNTER } as const;
export const LOOP_NAMES = namesIn(LOOP_NUMBERS);

/** Histograms of the loop, in seconds. */
export const LOOP_HISTOGRAMS = [
  /** Lateness of the start of a step's writing, and of its last row. */
  "stepStartLateness",
  "stepEndLateness",
  "stepWriteDuration",
  /** Time of the event loop's thread for a step: update, writing and the next plan. */
  "stepHostTime",
  /** Delay of a timer in the event loop. */
  "eventLoopDelay",
] as const;

/** Numbers from outside the core. */
export const FRONT_NUMBERS = {
  /** Requests to generation routes in progress, and event streams among them. */
  requestsOpen: GAUGE,
  streamsOpen: GAUGE,
  /** Bytes of events and token ids that wait for clients which read too slowly. */
  bytesHeld: GAUGE,
  /** Requests refused by a queue limit: on requests, and on prompt tokens. */
  rejectedByRequests: COUNTER,
  rejectedByTokens: COUNTER,
  /** Worker processes that replaced dead ones. 0 without workers. */
  workerRestarts: COUNTER,
  /** Log lines that this process dropped because nothing read them. */
  logLinesDropped: COUNTER,
  /** KV events that were not published, or not received: batches, events, and messages to subscribers that do not read. */
  kvBatchesDropped: COUNTER,
  kvEventsDropped: COUNTER,
  kvMessagesDropped: COUNTER,
} as const;
export const FRONT_NAMES = namesIn(FRONT_NUMBERS);

/** `understudy_requests_total{outcome}`. refused: answered with 4xx/503 before the engine accepted the request. */
export const OUTCOMES = ["stop", "length", "abort", "refused", "error"] as const;

/** Counters of a tool-call parser's invocations: on a delta or a whole answer, with or without a call, by API. */
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

/** Losses of a truth log through full buffers or the disk: runs of tokens, rows of steps, rows of requests. */
export const TRUTH_NUMBERS = { run: COUNTER, step: COUNTER, request: COUNTER } as const;
export const TRUTH_NAMES = namesIn(TRUTH_NUMBERS);
