/**
 * Measures the error of our own numbers. Understudy knows what each request really experienced (docs/reference/truth-log.md). It is
 * asked during the run, or its truth log is read. Rows are joined by `X-Request-Id`, or by the id of the answer in APIs
 * without it. Only durations are compared, so the clocks need not agree.
 */

import type { Cancel, Clock } from "../../base/clock.ts";
import { jsonObjectIn, type LooseObject } from "../../base/json-object.ts";
import { TraceFile } from "../../workloads/lines.ts";
import { isCount } from "../../workloads/trace.ts";
import { distributionOf } from "../report/distribution.ts";
import type { UnderstudyPart } from "../report/result.ts";
import { isGoodAnswer, saysTokens } from "./measures.ts";
import { quoted } from "./requests/quoted.ts";
import type { RequestRecord } from "./requests/types.ts";
import { type FetchOptions, fetchText } from "./server.ts";
import { type RunsLine, type StepTimes, TokenTimes } from "./token-times.ts";

/**
 * A running server is asked again when this share of the rows that it keeps may be used, or after this time. It keeps the
 * steps of ten minutes, at 5 ms each. Each call takes time from both sides.
 */
const ASKED_AGAIN_AT = 0.4;
const ASKED_AGAIN_US = 120_000_000;
const LOOK_US = 200_000;
/** Maximum number of characters of truth that are kept. Then the server is not asked any more. */
const KEPT_MOST = 1 << 27;
/** Maximum number of pages per call, because a faulty server may always claim to have more. */
const PAGES_MOST = 1000;
/** Maximum number of tokens whose times are looked up, over all requests. A server may claim any number in a short row. */
const TOKENS_MOST = 1 << 27;
const PERCENTILES = [0, 1, 5, 25, 50, 75, 95, 99, 99.9, 100];
/** Number of times that a log is read, and the pause in between. Rows reach the log within half a second. */
const FILE_TRIES = 10;
const FILE_WAIT_US = 500_000;

export type TruthResult = NonNullable<UnderstudyPart["truth"]> & {
  readonly requests: number;
  /** Number of complete requests that the server does not know. */
  readonly missing: number;
  /** Number of requests without gaps, because the tokens of their chunks are unknown. */
  readonly without_gaps: number;
  readonly steps_lost: number;
};

export interface TruthSource {
  /** Prepares the source before the run. Returns the reason if it cannot be used, else null. */
  begin(): Promise<string | null>;
  /** Follows the run. `ended` returns the number of requests that have ended. */
  follow(ended: () => number): void;
  /** Returns all lines after the run, one JSON object each. `wanted`: ids that should be among them. */
  end(ids: ReadonlySet<string>): Promise<Iterable<string>>;
}

/** Rows of a running server. `next`: cursor of the next call. `missed`: number of rows that the server has dropped. */
export interface TruthPages {
  readonly lines: Iterable<string>;
  readonly next: string;
  readonly missed: number;
}

/** Reads the truth with `GET /understudy/requests`. */
export class ServerTruthSource implements TruthSource {
  readonly #url: string;
  readonly #options: FetchOptions;
  readonly #clock: Clock;
  readonly #texts: string[] = [];
  #kept = 0;
  #cursor = "";
  #keeps = 0;
  #asked = 0;
  #askedUs = 0;
  #asking: Promise<unknown> = Promise.resolve();
  #next: Cancel | null = null;

  constructor(base: string, options: FetchOptions, clock: Clock) {
    this.#url = `${base}/understudy/requests`;
    this.#options = options;
    this.#clock = clock;
  }

  async begin(): Promise<string | null> {
    const { status, text, why } = await fetchText(`${this.#url}?since=end`, this.#options, this.#clock);
    const page = status === 200 ? lastLine(text) : null;
    if (typeof page?.next !== "string" || typeof page.keeps !== "number")
      return `${this.#url} gave ${why ?? `HTTP ${status}`}: is it Understudy?`;
    this.#cursor = page.next;
    this.#keeps = page.keeps;
    this.#askedUs = this.#clock.now();
    return null;
  }

  follow(ended: () => number): void {
    const nowUs = this.#clock.now();
    this.#next = this.#clock.at(nowUs + LOOK_US, () => {
      const more = ended() - this.#asked;
      if (more >= ASKED_AGAIN_AT * this.#keeps || (more > 0 && nowUs - this.#askedUs >= ASKED_AGAIN_US)) {
        this.#asked += more;
        this.#askedUs = nowUs;
        this.#asking = this.#asking.then(() => this.since(this.#cursor));
      }
      this.follow(ended);
    });
  }

  async end(): Promise<Iterable<string>> {
    this.#next?.();
    await this.#asking;
    await this.since(this.#cursor);
    return linesOf(this.#texts);
  }

  /**
   * Reads rows from a cursor on, or with null all that the server keeps. Returns them with the cursor for the next call and
   * the number of dropped rows, or the reason if they cannot be read.
   */
  async since(cursor: string | null): Promise<TruthPages | { readonly why: string }> {
    let [next, missed, more] = [cursor, 0, true];
    for (let pages = 0; more && pages < PAGES_MOST && this.#kept <= KEPT_MOST; pages++) {
      const from = next === null ? "" : `since=${encodeURIComponent(next)}&`;
      const { status, text, why } = await fetchText(`${this.#url}?${from}limit=10000`, this.#options, this.#clock);
      const page = status === 200 ? lastLine(text) : null;
      if (typeof page?.next !== "string") return { why: why ?? `HTTP ${status}: ${quoted(text) || "no text"}` };
      this.#texts.push(text);
      this.#kept += text.length;
      missed += isCount(page.missed, 0) ? page.missed : 0;
      more = page.more === true && page.next !== next;
      next = page.next;
      this.#cursor = page.next;
    }
    return { lines: linesOf(this.#texts), next: next ?? "", missed };
  }
}

/** Reads the truth from the log of a server that runs or ran on this machine. */
export class TruthLogSource implements TruthSource {
  constructor(
    private readonly path: string,
    private readonly clock: Clock,
  ) {}

  async begin(): Promise<string | null> {
    new TraceFile(this.path).close();
    return null;
  }

  follow(): void {}

  async end(ids: ReadonlySet<string>): Promise<Iterable<string>> {
    for (let tries = 1; tries < FILE_TRIES; tries++) {
      let rowCount = 0;
      for (const line of linesOfFile(this.path)) if (ids.has(requestIdIn(line) ?? "")) rowCount++;
      if (rowCount >= ids.size) break;
      await new Promise<void>((resolve) => this.clock.at(this.clock.now() + FILE_WAIT_US, resolve));
    }
    return linesOfFile(this.path);
  }
}

/** Reads the lines of a truth log, without those that are too long. */
export function* linesOfFile(path: string): Generator<string> {
  const file = new TraceFile(path);
  try {
    for (const { text } of file.lines()) if (text !== null) yield text;
  } finally {
    file.close();
  }
}

/** Returns the request id of a row: the header `X-Request-Id`, or on a Triton server its own id. */
const requestIdIn = (line: string): string | undefined =>
  line.startsWith('{"type":"request"')
    ? (/"requestId":"([^"]*)"/.exec(line) ?? /"id":"([^"]*)"/.exec(line))?.[1]
    : undefined;
export const truthRequestIdOf = ({ requestId, id }: LooseObject): unknown => requestId ?? id;

function* linesOf(texts: readonly string[]): Generator<string> {
  for (const text of texts) yield* text.split("\n");
}

function lastLine(text: string): LooseObject | null {
  const end = text.trimEnd();
  return jsonObjectIn(end.slice(end.lastIndexOf("\n") + 1));
}

/** Counts the tokens of runs, which are lists of `[first step, steps, tokens of each]`. Null if the value is not such a list. */
function tokensIn(value: unknown): number | null {
  if (!Array.isArray(value)) return null;
  let tokens = 0;
  for (const run of value as readonly unknown[]) {
    if (!Array.isArray(run) || run.length < 2 || !run.every((count) => isCount(count, 0))) return null;
    const [, steps, width = 1] = run as readonly number[];
    tokens += steps! * Math.max(1, width);
  }
  return tokens;
}

/**
 * Reads steps and rows from the lines of a truth. `counts`: number of rows by id. `idsOf`: returns the ids of a row; only texts
 * among them count.
 */
export function truthRows(lines: Iterable<string>, idsOf: (row: LooseObject) => readonly unknown[]) {
  const steps = new TokenTimes();
  const rows: (LooseObject & RunsLine)[] = [];
  const counts = new Map<unknown, number>();
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
  return { steps, rows, counts };
}

/** Returns the id that a record and its row in the truth have in common. */
export const joinIdOf = ({ answerId, requestId }: RequestRecord): string => answerId ?? requestId;

/** Returns measured minus true, in milliseconds. Also stores in each record when the request was scheduled. */
export function compareWithTruth(records: readonly RequestRecord[], lines: Iterable<string>): TruthResult {
  const { steps, rows, counts } = truthRows(lines, (row) => [truthRequestIdOf(row)]);
  const good = records.filter(isGoodAnswer);
  // Leave out ids that occur twice, because their rows cannot be assigned.
  const byId = new Map(
    good.filter((record) => counts.get(joinIdOf(record)) === 1).map((record) => [joinIdOf(record), record]),
  );
  const [ttft, itl, e2el, late]: number[][] = [[], [], [], []];
  let joined = 0;
  let withoutGaps = 0;
  let stepsLost = 0;
  for (const [row, times] of steps.of(rows)) {
    const record = byId.get(truthRequestIdOf(row) as string);
    if (record === undefined || typeof row.firstWrittenUs !== "number") continue;
    joined++;
    if (typeof row.scheduledUs === "number") record.scheduledUs = record.sendUs + row.scheduledUs - row.arrivalUs;
    ttft!.push((record.firstUs - record.sendUs - (row.firstWrittenUs - row.arrivalUs)) / 1000);
    e2el!.push((record.lastUs - record.sendUs - (row.lastWrittenUs - row.arrivalUs)) / 1000);
    const last = lastTokens(record);
    if (last === null) {
      withoutGaps++;
      continue;
    }
    for (let i = 0; i < last.length; i++) {
      const at = times[last[i]!];
      if (at === undefined) {
        stepsLost++;
        continue;
      }
      late!.push((at.startUs - at.dueUs) / 1000);
      const before = i > 0 ? times[last[i - 1]!] : undefined;
      if (before === undefined) continue;
      itl!.push((record.chunkUs[i]! - record.chunkUs[i - 1]! - (at.writtenUs - before.writtenUs)) / 1000);
    }
  }
  const of = (values: number[]) => distributionOf(Float64Array.from(values), PERCENTILES);
  return {
    requests: joined,
    missing: good.length - joined,
    without_gaps: withoutGaps,
    steps_lost: stepsLost,
    errors: { ttft: of(ttft!), itl: of(itl!), e2el: of(e2el!) },
    lateness_ms: of(late!),
  };
}

/** Returns the index of the last token of each chunk. Null if the tokens per chunk are unknown and not one. */
function lastTokens(record: RequestRecord): number[] | null {
  const { chunkUs, chunkTokens, outputTokens } = record;
  if (!saysTokens(record)) return chunkUs.length === outputTokens ? Array.from(chunkUs, (_, i) => i) : null;
  let total = 0;
  return Array.from(chunkTokens, (tokens) => {
    total += tokens;
    return total - 1;
  });
}

/** Prints the comparison as a table. */
export function truthLines(truth: TruthResult): string[] {
  const cells = (metric: string) => {
    const error = truth.errors?.[metric];
    return [error?.mean, error?.p1, error?.p50, error?.p99].map((ms) => (typeof ms === "number" ? ms.toFixed(3) : "-"));
  };
  const row = (label: string, values: readonly string[]) =>
    `${label.padEnd(26)}${values.map((value) => value.padStart(10)).join("")}`;
  const lines = [
    row("measured minus true, ms", ["mean", "p1", "p50", "p99"]),
    row("TTFT", cells("ttft")),
    row("gaps between chunks", cells("itl")),
    row("E2EL", cells("e2el")),
    `over ${truth.requests} requests that the server knows`,
  ];
  if (truth.missing > 0)
    lines.push(
      `${truth.missing} requests are unknown to the server that was asked for the truth; the address may belong to several servers, each of which knows only its own requests`,
    );
  if (truth.without_gaps > 0)
    lines.push(`${truth.without_gaps} answers had chunks of several tokens that were not counted: no gaps`);
  if (truth.steps_lost > 0) lines.push(`${truth.steps_lost} tokens came in steps that the server no longer knows`);
  return lines;
}
