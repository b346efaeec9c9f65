/** Reads a recorded trace in the format `golden-decisions/1`. FORMAT.md explains each field. */
export interface TraceConfig {
  block_size: number;
  num_gpu_blocks: number;
  max_num_seqs: number;
  max_num_active_seqs: number | null;
  max_num_batched_tokens: number;
  max_num_scheduled_tokens: number | null;
  max_model_len: number;
  enable_chunked_prefill: boolean;
  long_prefill_token_threshold: number;
  long_prefill_token_threshold_adaptive: boolean;
  enable_prefix_caching: boolean;
  policy: "fcfs" | "priority";
  async_scheduling: boolean;
  watermark: number;
  scheduler_reserve_full_isl: boolean;
  prefill_schedule_interval: number;
  max_loras: number | null;
}

export interface TraceRequest {
  r: number;
  prompt: [stream: number, start: number, length: number][];
  max_tokens: number;
  eos_at?: number;
  stop_at?: number;
  priority?: number;
  arrival_time?: number;
  cache_salt?: string;
  lora?: number;
  skip_reading?: boolean;
  /** True if the request is added while it waits for its grammar. A row `release` marks when the grammar is ready. */
  blocked?: boolean;
  /** Informative: turns of the recording's driver loop. */
  at?: number;
  abort?: [tick: number, phase: string];
}

/** Accepted keys. Any other key is an error, so that nothing is ignored silently. */
const HEADER_KEYS =
  "format engine version scheduler name about rules detail config eos stop_token_ids requests rows".split(" ");
const REQUEST_KEYS =
  "t r at prompt max_tokens eos_at stop_at priority arrival_time cache_salt lora skip_reading blocked abort".split(" ");

export type Row = Record<string, unknown>;

/** The header fields that are read. */
interface Header {
  format: string;
  name: string;
  detail: "full" | "lean";
  config: TraceConfig;
  eos: number;
  stop_token_ids: number[];
  requests: number;
  rows: number;
}

export interface Trace {
  name: string;
  detail: "full" | "lean";
  config: TraceConfig;
  eos: number;
  stopTokenIds: number[];
  requests: Map<number, TraceRequest>;
  /** All rows after the requests, including `end`. */
  rows: Row[];
}

/** Reads a trace. `text` is the whole unpacked file; `path` is for messages. Throws with the line number for invalid text. */
export function readTrace(text: string, path: string): Trace {
  const all = text
    .trimEnd()
    .split("\n")
    .map((line, i) => objectOf(line, `${path}:${i + 1}`));
  const [header, ...others] = all as [Header, ...Row[]];
  if (header.format !== "golden-decisions/1") throw new Error(`${path}:1: expected format golden-decisions/1`);
  refuseOthers(header, HEADER_KEYS, `${path}:1: the header`);
  const requests = others.filter((row) => row.t === "req") as unknown as TraceRequest[];
  for (const [i, row] of others.entries())
    if (row.t === "req") refuseOthers(row, REQUEST_KEYS, `${path}:${i + 2}: the request`);
  const rows = others.filter((row) => row.t !== "req");
  if (requests.length !== header.requests || rows.length - 1 !== header.rows || rows.at(-1)?.t !== "end") {
    throw new Error(`${path}: the header counts other rows than the file has`);
  }
  return {
    name: header.name,
    detail: header.detail,
    config: header.config,
    eos: header.eos,
    stopTokenIds: header.stop_token_ids,
    requests: new Map(requests.map((request) => [request.r, request])),
    rows,
  };
}

function objectOf(line: string, where: string): Row {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new Error(`${where}: not JSON`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${where}: not an object`);
  return value as Row;
}

export function refuseOthers(object: object, known: readonly string[], owner: string): void {
  const other = Object.keys(object).find((key) => !known.includes(key));
  if (other !== undefined) throw new Error(`${owner} has an unknown key: ${other}`);
}

/** Base of the stream numbers of the requests' outputs. */
export const OUTPUT_STREAM = 1_000_000;

export function tokenOf(stream: number, index: number): number {
  let x = (Math.imul(stream, 2654435761) + Math.imul(index, 2246822519) + 374761393) >>> 0;
  x ^= x >>> 15;
  x = Math.imul(x, 2246822519) >>> 0;
  x = (x ^ (x >>> 13)) >>> 0;
  return 100 + (x % 100_000);
}

export function promptOf(request: TraceRequest): number[] {
  return request.prompt.flatMap(([stream, start, length]) =>
    Array.from({ length }, (_, i) => tokenOf(stream, start + i)),
  );
}

/** Returns the output id with index `k` (from 0) of a request. */
export function outputOf(request: TraceRequest, k: number, eos: number, stop: number): number {
  if (request.eos_at === k + 1) return eos;
  if (request.stop_at === k + 1) return stop;
  return tokenOf(OUTPUT_STREAM + request.r, k);
}

export function fnv(values: readonly number[]): number {
  let h = 2166136261;
  for (const value of values) h = Math.imul(h ^ value, 16777619) >>> 0;
  return h >>> 0;
}

/** Returns the lists that are not empty. A row has no others. */
export function filled(lists: Record<string, unknown[]>): Record<string, unknown[]> {
  return Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length));
}
