/**
 * Finds how wrong our own numbers were. Understudy says what each request really experienced (docs/truth-log.md): it is asked
 * while it runs, or its truth log is read, and rows are joined by `X-Request-Id`, or by the id of the answer if the API has no
 * other. Durations are compared, so no clocks are.
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
import { type FetchOptions, fetched } from "./server.ts";
import { type RunsLine, type StepTimes, TokenTimes } from "./token-times.ts";

/**
 * A running server is asked again when so much of what it keeps may have been used, or after so long: of steps it keeps
 * those of ten minutes at 5 ms. Each answer takes both sides some of their time.
 */
const ASKED_AGAIN_AT = 0.4;
const ASKED_AGAIN_US = 120_000_000;
const LOOK_US = 200_000;
/** Most characters of a run's truth; then the server is asked no more. */
const KEPT_MOST = 1 << 27;
/** Most pages that are read in one go: a server may say each time that there is more. */
const PAGES_MOST = 1000;
/** Most tokens whose times are looked up, of all requests: a server may claim any number in a short row. */
export const TOKENS_MOST = 1 << 27;
const PERCENTILES = [0, 1, 5, 25, 50, 75, 95, 99, 99.9, 100];
/** Rows reach a log within half a second; then it is read again, so often. */
const FILE_TRIES = 10;
const FILE_WAIT_US = 500_000;

export type TruthResult = NonNullable<UnderstudyPart["truth"]> & {
  readonly requests: number;
  /** Complete requests of the run of which the server said nothing. */
  readonly missing: number;
  /** Requests whose chunks could not be told apart by tokens; they are in no gap. */
  readonly without_gaps: number;
  readonly steps_lost: number;
};

export interface TruthSource {
  /** Before the run; why it cannot be asked, or null. */
  begin(): Promise<string | null>;
  /** While it runs: `ended` says how many requests have. */
  follow(ended: () => number): void;
  /** All lines, one JSON object each. */
  end(wanted: ReadonlySet<string>): Promise<Iterable<string>>;
}

/** Rows of a running server. */
export interface TruthPages {
  readonly lines: Iterable<string>;
  readonly next: string;
  readonly missed: number;
}

/** `GET /understudy/requests`. */
export class AskedTruth implements TruthSource {
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
    const { status, text, why } = await fetched(`${this.#url}?since=end`, this.#options, this.#clock);
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
        this.#asking = this.#asking.then(() => this.#askAll());
      }
      this.follow(ended);
    });
  }

  async end(): Promise<Iterable<string>> {
    this.#next?.();
    await this.#asking;
    await this.#askAll();
    return linesOf(this.#texts);
  }

  /**
   * Reads the rows from a cursor on; null: all that the server keeps. Returns the cursor for the next call and how many rows
   * the server has dropped since; or why it cannot be read.
   */
  async since(cursor: string | null): Promise<TruthPages | { readonly why: string }> {
    let [next, missed] = [cursor, 0];
    for (let pages = 0; pages < PAGES_MOST && this.#kept <= KEPT_MOST; pages++) {
      const from = next === null ? "" : `since=${encodeURIComponent(next)}&`;
      const { status, text, why } = await fetched(`${this.#url}?${from}limit=10000`, this.#options, this.#clock);
      const page = status === 200 ? lastLine(text) : null;
      if (typeof page?.next !== "string") return { why: why ?? `HTTP ${status}: ${quoted(text) || "no text"}` };
      this.#texts.push(text);
      this.#kept += text.length;
      missed += isCount(page.missed, 0) ? page.missed : 0;
      if (page.more !== true || page.next === next) return { lines: linesOf(this.#texts), next: page.next, missed };
      next = page.next;
    }
    return { lines: linesOf(this.#texts), next: next ?? "", missed };
  }

  async #askAll(): Promise<void> {
    for (let pages = 0; pages < PAGES_MOST && (await this.#ask()); pages++);
  }

  /** Whether there is more. */
  async #ask(): Promise<boolean> {
    if (this.#kept > KEPT_MOST) return false;
    const url = `${this.#url}?since=${encodeURIComponent(this.#cursor)}&limit=10000`;
    const { status, text } = await fetched(url, this.#options, this.#clock);
    const page = status === 200 ? lastLine(text) : null;
    if (typeof page?.next !== "string" || page.next === this.#cursor) return false;
    this.#cursor = page.next;
    this.#texts.push(text);
    this.#kept += text.length;
    return page.more === true;
  }
}

/** The log of a server that runs on this machine, or ran. */
export class TruthLogSource implements TruthSource {
  readonly #path: string;
  readonly #clock: Clock;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  async begin(): Promise<string | null> {
    new TraceFile(this.#path).close();
    return null;
  }

  follow(): void {}

  async end(wanted: ReadonlySet<string>): Promise<Iterable<string>> {
    for (let tries = 1; tries < FILE_TRIES; tries++) {
      let found = 0;
      for (const line of this.#lines()) if (wanted.has(requestIdIn(line) ?? "")) found++;
      if (found >= wanted.size) break;
      await new Promise<void>((resolve) => this.#clock.at(this.#clock.now() + FILE_WAIT_US, resolve));
    }
    return this.#lines();
  }

  *#lines(): Generator<string> {
    const file = new TraceFile(this.#path);
    try {
      for (const { text } of file.lines()) if (text !== null) yield text;
    } finally {
      file.close();
    }
  }
}

/** The header `X-Request-Id`; a Triton server knows a request by its own id alone. */
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

/** Counts the tokens of `[first step, steps, tokens of each]`; null if the value is no list of them. */
export function tokensIn(value: unknown): number | null {
  if (!Array.isArray(value)) return null;
  let tokens = 0;
  for (const run of value as readonly unknown[]) {
    if (!Array.isArray(run) || run.length < 2 || !run.every((count) => isCount(count, 0))) return null;
    const [, steps, width = 1] = run as readonly number[];
    tokens += steps! * Math.max(1, width);
  }
  return tokens;
}

/** Returns the id by which a record and a row of the truth belong together. */
export const joinIdOf = ({ answerId, requestId }: RequestRecord): string => answerId ?? requestId;

/** Measured minus true, in milliseconds. Records learn when they were scheduled. */
export function compareWithTruth(records: readonly RequestRecord[], lines: Iterable<string>): TruthResult {
  const steps = new TokenTimes();
  const rows: LooseObject[] = [];
  const told = new Map<string, number>();
  let tokens = 0;
  for (const text of lines) {
    const line = text === "" ? null : jsonObjectIn(text);
    if (line?.type === "step") steps.add(line as StepTimes);
    else if (line?.type === "request") {
      const more = tokensIn(line.runs);
      if (more === null || tokens + more > TOKENS_MOST) continue;
      tokens += more;
      rows.push(line);
      const id = truthRequestIdOf(line);
      if (typeof id === "string") told.set(id, (told.get(id) ?? 0) + 1);
    }
  }
  const good = records.filter(isGoodAnswer);
  // Ids that came twice are left out: nobody knows whose row is whose.
  const byId = new Map(good.filter((one) => told.get(joinIdOf(one)) === 1).map((one) => [joinIdOf(one), one]));
  const [ttft, itl, e2el, late]: number[][] = [[], [], [], []];
  let joined = 0;
  let withoutGaps = 0;
  let stepsLost = 0;
  for (const [row, times] of steps.of(rows as (LooseObject & RunsLine)[])) {
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

/** Number, from 0, of the last token in each chunk; null: nobody said how many each holds, and it is not one. */
function lastTokens(record: RequestRecord): number[] | null {
  const { chunkUs, chunkTokens, outputTokens } = record;
  if (!saysTokens(record)) return chunkUs.length === outputTokens ? Array.from(chunkUs, (_, i) => i) : null;
  let so = 0;
  return Array.from(chunkTokens, (tokens) => {
    so += tokens;
    return so - 1;
  });
}

/** Returns the lines of the table. */
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
    `of ${truth.requests} requests that the server knew`,
  ];
  if (truth.missing > 0)
    lines.push(
      `${truth.missing} requests were unknown to the server that was asked for the truth: the address may be several servers, of which each knows only its own requests`,
    );
  if (truth.without_gaps > 0)
    lines.push(`${truth.without_gaps} answers had chunks of several tokens that were not counted: no gaps`);
  if (truth.steps_lost > 0) lines.push(`${truth.steps_lost} tokens came in steps of which the server no longer knew`);
  return lines;
}
