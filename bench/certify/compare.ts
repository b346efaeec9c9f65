/** How far is what a tool says of each request from what the server says that it experienced? Durations in milliseconds. */
import { TokenTimes } from "../../src/tools/load/token-times.ts";
import { distributionOf } from "../../src/tools/report/distribution.ts";
import type { RequestLine, TruthLine } from "../../src/truth/schema.ts";

/** What a tool says of a request, by its own definitions. */
export interface Observed {
  /** `X-Request-Id`, or the answer's `id`. */
  readonly id: string;
  readonly ttftMs: number;
  readonly e2eMs: number;
  /** Time per output token that the tool tells; null: it has none for this request. */
  readonly tpotMs: number | null;
  /** What it adds to the values that it reports as ITL. */
  readonly itlMs: readonly number[];
  /** Times between chunks; null: it does not say. */
  readonly gapsMs: readonly number[] | null;
  readonly chunks: number;
}

export interface TrueRequest {
  readonly ttftMs: number;
  readonly e2eMs: number;
  readonly preemptions: number;
  /** When each token was written. */
  readonly tokenUs: readonly number[];
}

export interface Spread {
  readonly count: number;
  readonly p1: number | null;
  readonly p50: number | null;
  readonly p99: number | null;
  readonly max: number | null;
}

export interface Comparison {
  /** Requests of the tool that the server knew, and those that it did not. */
  readonly requests: number;
  readonly missing: number;
  /** Chunks with tokens: as the tool counted them, and as they were written. */
  readonly chunks: { readonly tool: number; readonly written: number };
  readonly preemptions: number;
  /** Tool minus truth. `gap`: time between two chunks; only of answers whose chunks the tool counted as they were written. */
  readonly errors: Readonly<Record<"ttft" | "e2e" | "tpot" | "gap", Spread>>;
  /** What the tool says of the run by its definitions, and the truth: ITL from token to token. */
  readonly reported: Readonly<Record<"ttft" | "itl" | "tpot", Spread>>;
  readonly truth: Readonly<Record<"ttft" | "itl" | "tpot", Spread>>;
}

/** Requests by `X-Request-Id` and by the answer's `id`; `lines` of `GET /understudy/requests` (docs/reference/truth-log.md). */
export function truthOf(lines: Iterable<string>): Map<string, TrueRequest> {
  const steps = new TokenTimes();
  const rows: RequestLine[] = [];
  for (const text of lines) {
    if (text === "") continue;
    const line = JSON.parse(text) as TruthLine;
    if (line.type === "step") steps.add(line);
    if (line.type === "request") rows.push(line);
  }
  const found = new Map<string, TrueRequest>();
  for (const [row, times] of steps.of(rows)) {
    if (row.firstWrittenUs === null) continue;
    const request = {
      ttftMs: (row.firstWrittenUs - row.arrivalUs) / 1000,
      e2eMs: (row.lastWrittenUs! - row.arrivalUs) / 1000,
      preemptions: row.preemptions,
      tokenUs: times.map((time, i) => {
        if (time === undefined) throw new Error(`the server no longer knows the step of token ${i} of ${row.id}`);
        return time.writtenUs;
      }),
    };
    found.set(row.id, request);
    if (row.requestId !== null) found.set(row.requestId, request);
  }
  return found;
}

/** Number, from 0, of the last token in each chunk: the first token goes out alone, then `interval` together (vLLM 0.33, v1/engine/output_processor.py). */
export function chunkEnds(tokens: number, interval: number): number[] {
  const ends: number[] = [];
  for (let end = 0; end < tokens - 1; end += interval) ends.push(end);
  if (tokens > 0) ends.push(tokens - 1);
  return ends;
}

const gapsOf = (us: readonly number[]) => us.slice(1).map((at, i) => (at - us[i]!) / 1000);

export function compare(
  observed: readonly Observed[],
  truth: ReadonlyMap<string, TrueRequest>,
  interval: number,
): Comparison {
  const errors = { ttft: [] as number[], e2e: [] as number[], tpot: [] as number[], gap: [] as number[] };
  const reported = { ttft: [] as number[], itl: [] as number[], tpot: [] as number[] };
  const real = { ttft: [] as number[], itl: [] as number[], tpot: [] as number[] };
  const chunks = { tool: 0, written: 0 };
  let [requests, preemptions] = [0, 0];
  for (const { id, ttftMs, e2eMs, tpotMs, itlMs, gapsMs, chunks: counted } of observed) {
    const request = truth.get(id);
    if (request === undefined) continue;
    requests++;
    preemptions += request.preemptions;
    const tokens = request.tokenUs.length;
    errors.ttft.push(ttftMs - request.ttftMs);
    errors.e2e.push(e2eMs - request.e2eMs);
    reported.ttft.push(ttftMs);
    real.ttft.push(request.ttftMs);
    for (const ms of itlMs) reported.itl.push(ms);
    for (const ms of gapsOf(request.tokenUs)) real.itl.push(ms);
    if (tokens > 1) {
      const trueTpotMs = (request.e2eMs - request.ttftMs) / (tokens - 1);
      real.tpot.push(trueTpotMs);
      if (tpotMs !== null) {
        reported.tpot.push(tpotMs);
        errors.tpot.push(tpotMs - trueTpotMs);
      }
    }
    const ends = chunkEnds(tokens, interval);
    chunks.tool += counted;
    chunks.written += ends.length;
    if (gapsMs?.length !== ends.length - 1) continue;
    const trueGaps = gapsOf(ends.map((end) => request.tokenUs[end]!));
    for (const [i, ms] of gapsMs.entries()) errors.gap.push(ms - trueGaps[i]!);
  }
  return {
    ...{ requests, missing: observed.length - requests, chunks, preemptions },
    ...{ errors: spreads(errors), reported: spreads(reported), truth: spreads(real) },
  };
}

function spreads<K extends string>(values: Readonly<Record<K, readonly number[]>>): Record<K, Spread> {
  const entries = Object.entries<readonly number[]>(values).map(([name, numbers]) => [name, spreadOf(numbers)]);
  return Object.fromEntries(entries) as Record<K, Spread>;
}

export function spreadOf(values: readonly number[]): Spread {
  const {
    count,
    p1 = null,
    p50 = null,
    p99 = null,
    max = null,
  } = distributionOf(Float64Array.from(values), [1, 50, 99]);
  return { count, p1, p50, p99, max };
}
