/**
 * Turns the rows of the truth (docs/truth-log.md) into the durations that load tools report: TTFT, gaps, TPOT and E2E of
 * each request, as the server wrote it. Any tool's own figures can be compared with them by request id.
 */
import { jsonObjectIn, type LooseObject } from "../../base/json-object.ts";
import { distributionOf } from "../report/distribution.ts";
import type { Distribution } from "../report/result.ts";
import { type RunsLine, type StepTimes, TokenTimes } from "./token-times.ts";
import { TOKENS_MOST, tokensIn } from "./truth.ts";

export const TRUE_METRICS = ["ttft", "itl", "tpot", "e2e"] as const;
export type TrueMetric = (typeof TRUE_METRICS)[number];
const PERCENTILES = [1, 50, 90, 99];

/** What a tool measured of one request, in milliseconds. A metric that it does not report is missing. */
export type Measured = Partial<Record<"ttft" | "e2e", number>>;

export interface TrueTimes {
  /** Generations that gave at least one token; those that gave none are in no duration. */
  readonly requests: number;
  readonly withoutToken: number;
  /** In milliseconds. `itl`: between two writes of one generation. */
  readonly times: Readonly<Record<TrueMetric, Distribution>>;
  /** Null: nothing was to be compared. */
  readonly compared: Compared | null;
}

export interface Compared {
  /** Requests that both know, by an id that the truth has once. */
  readonly requests: number;
  /** Requests of the tool without a row of their own in the truth. */
  readonly unknown: number;
  /** Measured minus true, in milliseconds. */
  readonly errors: Readonly<Record<keyof Measured, Distribution>>;
}

/** `lines`: of a truth log, or of `GET /understudy/requests`. `measured`: by request id; null if nothing is compared. */
export function trueTimes(lines: Iterable<string>, measured: ReadonlyMap<string, Measured> | null): TrueTimes {
  const steps = new TokenTimes();
  const rows: (LooseObject & RunsLine)[] = [];
  const counts = new Map<string, number>();
  let tokens = 0;
  for (const text of lines) {
    const line = text === "" ? null : jsonObjectIn(text);
    if (line?.type === "step") steps.add(line as StepTimes);
    if (line?.type !== "request") continue;
    const more = tokensIn(line.runs);
    if (more === null || tokens + more > TOKENS_MOST) continue;
    tokens += more;
    rows.push(line as LooseObject & RunsLine);
    for (const id of idsOf(line)) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  const found: Record<TrueMetric, number[]> = { ttft: [], itl: [], tpot: [], e2e: [] };
  const errors: Record<keyof Measured, number[]> = { ttft: [], e2e: [] };
  let requests = 0;
  let joined = 0;
  for (const [row, times] of steps.of(rows)) {
    const { arrivalUs, firstWrittenUs, lastWrittenUs, outputTokens } = row;
    if (typeof arrivalUs !== "number" || typeof firstWrittenUs !== "number") continue;
    requests++;
    const ttft = (firstWrittenUs - arrivalUs) / 1000;
    const e2e = typeof lastWrittenUs === "number" ? (lastWrittenUs - arrivalUs) / 1000 : null;
    found.ttft.push(ttft);
    if (e2e !== null) found.e2e.push(e2e);
    if (e2e !== null && outputTokens > 1) found.tpot.push((e2e - ttft) / (outputTokens - 1));
    for (let at = 1; at < times.length; at++) {
      const [before, time] = [times[at - 1], times[at]];
      // Tokens of one step are written together, and share an object.
      if (before !== undefined && time !== undefined && time !== before)
        found.itl.push((time.writtenUs - before.writtenUs) / 1000);
    }
    const id = idsOf(row).find((one) => counts.get(one) === 1 && measured?.has(one));
    if (id === undefined) continue;
    const said = measured!.get(id)!;
    joined++;
    if (said.ttft !== undefined) errors.ttft.push(said.ttft - ttft);
    if (said.e2e !== undefined && e2e !== null) errors.e2e.push(said.e2e - e2e);
  }
  const of = (values: readonly number[]) => distributionOf(Float64Array.from(values), PERCENTILES);
  return {
    requests,
    withoutToken: rows.length - requests,
    times: { ttft: of(found.ttft), itl: of(found.itl), tpot: of(found.tpot), e2e: of(found.e2e) },
    compared: measured && {
      requests: joined,
      unknown: measured.size - joined,
      errors: { ttft: of(errors.ttft), e2e: of(errors.e2e) },
    },
  };
}

/**
 * Returns the ids by which a tool can know the request of a row: the `X-Request-Id` that it sent, and the `id` of the answer.
 * A completion's row has the number of its prompt after that id.
 */
function idsOf({ requestId, id }: LooseObject): string[] {
  const answer = typeof id === "string" ? [id, id.replace(/^(cmpl-.+)-\d+$/, "$1")] : [];
  return [...new Set(typeof requestId === "string" ? [requestId, ...answer] : answer)];
}
