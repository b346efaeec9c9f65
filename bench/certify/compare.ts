/**
 * Compares a load generator's numbers per request with the server's truth log, so that docs/explanation/measuring.md can state
 * the tool's error. Durations are in milliseconds.
 */
import { truthRows } from "../../src/tools/load/truth.ts";
import { distributionOf } from "../../src/tools/report/distribution.ts";

/** A tool's numbers of one request, by the tool's own definitions. */
export interface ToolRequest {
  /** `X-Request-Id`, or the answer's `id`. */
  readonly id: string;
  readonly ttftMs: number;
  readonly e2eMs: number;
  /** Time per output token that the tool reports. Null if it reports none for this request. */
  readonly tpotMs: number | null;
  /** The values of this request among those that the tool reports as ITL. */
  readonly itlMs: readonly number[];
  /** Times between chunks. Null if the tool does not report them. */
  readonly gapsMs: readonly number[] | null;
  readonly chunks: number;
}

export interface TrueRequest {
  readonly ttftMs: number;
  readonly e2eMs: number;
  readonly preemptions: number;
  /** Time at which each token was written, in microseconds. */
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
  /** Number of the tool's requests with an id that the server knows, and without. */
  readonly requests: number;
  readonly missing: number;
  /** Number of chunks with tokens, as counted by the tool, and as written by the server. */
  readonly chunks: { readonly tool: number; readonly written: number };
  readonly preemptions: number;
  /** The tool's value minus the truth. `gap` is the time between two chunks, only of answers whose chunk count is right. */
  readonly errors: Readonly<Record<"ttft" | "e2e" | "tpot" | "gap", Spread>>;
  /** The run's values by the tool's definitions, and the true ones. True ITL is the time from token to token. */
  readonly reported: Readonly<Record<"ttft" | "itl" | "tpot", Spread>>;
  readonly truth: Readonly<Record<"ttft" | "itl" | "tpot", Spread>>;
}

/**
 * Reads `lines` of `GET /understudy/requests` (docs/reference/truth-log.md). Returns each request under its `X-Request-Id` and under the
 * answer's `id`.
 */
export function truthOf(lines: Iterable<string>): Map<string, TrueRequest> {
  const { steps, rows } = truthRows(lines, () => []);
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

/**
 * Returns the index of the last token in each chunk. The first chunk has one token, the others have `interval` tokens
 * (vLLM 0.33, v1/engine/output_processor.py).
 */
export function chunkEnds(tokens: number, interval: number): number[] {
  const ends: number[] = [];
  for (let end = 0; end < tokens - 1; end += interval) ends.push(end);
  if (tokens > 0) ends.push(tokens - 1);
  return ends;
}

const gapsOf = (us: readonly number[]) => us.slice(1).map((at, i) => (at - us[i]!) / 1000);
/** Returns the time per output token after the first in a list. The list is empty if the answer has only one token. */
const tpotOf = ({ ttftMs, e2eMs, tokenUs }: TrueRequest) =>
  tokenUs.length > 1 ? [(e2eMs - ttftMs) / (tokenUs.length - 1)] : [];

export function compare(
  observed: readonly ToolRequest[],
  truth: ReadonlyMap<string, TrueRequest>,
  interval: number,
): Comparison {
  const pairs = observed.flatMap((tool) => {
    const real = truth.get(tool.id);
    return real === undefined ? [] : [{ tool, real, ends: chunkEnds(real.tokenUs.length, interval) }];
  });
  type Pair = (typeof pairs)[number];
  const spread = (valuesOf: (pair: Pair) => readonly number[]) => spreadOf(pairs.flatMap(valuesOf));
  const sum = (figureOf: (pair: Pair) => number) => pairs.reduce((total, pair) => total + figureOf(pair), 0);
  /** Tools report no time per token of answers with one token. */
  const toolTpot = ({ tool, real }: Pair) => (tool.tpotMs === null || tpotOf(real).length === 0 ? [] : [tool.tpotMs]);
  const gapErrors = ({ tool: { gapsMs }, real, ends }: Pair) => {
    if (gapsMs?.length !== ends.length - 1) return [];
    const trueGaps = gapsOf(ends.map((end) => real.tokenUs[end]!));
    return gapsMs.map((ms, i) => ms - trueGaps[i]!);
  };
  return {
    ...{ requests: pairs.length, missing: observed.length - pairs.length },
    chunks: { tool: sum(({ tool }) => tool.chunks), written: sum(({ ends }) => ends.length) },
    preemptions: sum(({ real }) => real.preemptions),
    errors: {
      ttft: spread(({ tool, real }) => [tool.ttftMs - real.ttftMs]),
      e2e: spread(({ tool, real }) => [tool.e2eMs - real.e2eMs]),
      tpot: spread((pair) => toolTpot(pair).map((ms) => ms - tpotOf(pair.real)[0]!)),
      gap: spread(gapErrors),
    },
    reported: {
      ttft: spread(({ tool }) => [tool.ttftMs]),
      itl: spread(({ tool }) => tool.itlMs),
      tpot: spread(toolTpot),
    },
    truth: {
      ttft: spread(({ real }) => [real.ttftMs]),
      itl: spread(({ real }) => gapsOf(real.tokenUs)),
      tpot: spread(({ real }) => tpotOf(real)),
    },
  };
}

export function spreadOf(values: readonly number[]): Spread {
  const spread = distributionOf(Float64Array.from(values), [1, 50, 99]);
  const { count, p1 = null, p50 = null, p99 = null, max = null } = spread;
  return { count, p1, p50, p99, max };
}
