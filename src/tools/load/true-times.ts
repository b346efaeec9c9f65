/**
 * Converts the rows of a truth log (docs/reference/truth-log.md) to the durations that load tools report: TTFT, gaps, TPOT and E2E per
 * request, as the server wrote them. Measurements of any tool can be compared with them by request id.
 */
import type { LooseObject } from "../../base/json-object.ts";
import { distributionOf } from "../report/distribution.ts";
import type { Distribution } from "../report/result.ts";
import { truthRows } from "./truth.ts";

export const TRUE_METRICS = ["ttft", "itl", "tpot", "e2e"] as const;
export type TrueMetric = (typeof TRUE_METRICS)[number];
const PERCENTILES = [1, 50, 90, 99];

/** Measurements of one request by a tool, in milliseconds. Metrics that the tool does not report are missing. */
export type RequestMeasurement = Partial<Record<"ttft" | "e2e", number>>;

export interface TrueTimes {
  /** Number of generations with at least one token. Generations without tokens are in no duration. */
  readonly requests: number;
  readonly withoutToken: number;
  /** Distributions in milliseconds. `itl`: between two writes of one generation. */
  readonly times: Readonly<Record<TrueMetric, Distribution>>;
  /** Comparison with a tool's measurements. Null if there are none. */
  readonly compared: MeasurementComparison | null;
}

export interface MeasurementComparison {
  /** Number of requests that both sides know, by an id that is unique in the truth. */
  readonly requests: number;
  /** Number of the tool's requests that have no row in the truth. */
  readonly unknown: number;
  /** Measured minus true, in milliseconds. */
  readonly errors: Readonly<Record<keyof RequestMeasurement, Distribution>>;
}

/**
 * Computes the durations. `lines`: lines of a truth log, or of `GET /understudy/requests`. `measured`: measurements by request
 * id, or null.
 */
export function trueTimes(
  lines: Iterable<string>,
  measured: ReadonlyMap<string, RequestMeasurement> | null,
): TrueTimes {
  const { steps, rows, counts } = truthRows(lines, idsOf);
  const durations: Record<TrueMetric, number[]> = { ttft: [], itl: [], tpot: [], e2e: [] };
  const errors: Record<keyof RequestMeasurement, number[]> = { ttft: [], e2e: [] };
  let requests = 0;
  let joined = 0;
  for (const [row, times] of steps.of(rows)) {
    const { arrivalUs, firstWrittenUs, lastWrittenUs, outputTokens } = row;
    if (typeof arrivalUs !== "number" || typeof firstWrittenUs !== "number") continue;
    requests++;
    const ttft = (firstWrittenUs - arrivalUs) / 1000;
    const e2e = typeof lastWrittenUs === "number" ? (lastWrittenUs - arrivalUs) / 1000 : null;
    durations.ttft.push(ttft);
    if (e2e !== null) durations.e2e.push(e2e);
    if (e2e !== null && outputTokens > 1) durations.tpot.push((e2e - ttft) / (outputTokens - 1));
    for (let at = 1; at < times.length; at++) {
      const [before, time] = [times[at - 1], times[at]];
      // Tokens of one step are written together and share one time object.
      if (before !== undefined && time !== undefined && time !== before)
        durations.itl.push((time.writtenUs - before.writtenUs) / 1000);
    }
    const id = idsOf(row).find((candidate) => counts.get(candidate) === 1 && measured?.has(candidate));
    if (id === undefined) continue;
    const measurement = measured!.get(id)!;
    joined++;
    if (measurement.ttft !== undefined) errors.ttft.push(measurement.ttft - ttft);
    if (measurement.e2e !== undefined && e2e !== null) errors.e2e.push(measurement.e2e - e2e);
  }
  const of = (values: readonly number[]) => distributionOf(Float64Array.from(values), PERCENTILES);
  return {
    requests,
    withoutToken: rows.length - requests,
    times: { ttft: of(durations.ttft), itl: of(durations.itl), tpot: of(durations.tpot), e2e: of(durations.e2e) },
    compared: measured && {
      requests: joined,
      unknown: measured.size - joined,
      errors: { ttft: of(errors.ttft), e2e: of(errors.e2e) },
    },
  };
}

/**
 * Returns the ids by which a tool may know a request: the `X-Request-Id` that it sent, and the `id` of the answer. In the row
 * of a completion, the prompt's number follows that id.
 */
function idsOf({ requestId, id }: LooseObject): string[] {
  const answer = typeof id === "string" ? [id, id.replace(/^(cmpl-.+)-\d+$/, "$1")] : [];
  return [...new Set(typeof requestId === "string" ? [requestId, ...answer] : answer)];
}
