/** The HTTP server of a stress run. `/case/ID/v1/…` answers with the disturbed answer of a case and records the requests. */

import type { Clock } from "../../base/clock.ts";
import { parsedJson } from "../../base/json-object.ts";
import { substituteAnswer } from "../../faults/instead.ts";
import { FaultPipeline } from "../../faults/pipeline.ts";
import { headIn } from "../../faults/stages/heads.ts";
import { FAULT_ROWS } from "../../faults/table.ts";
import { bodyWithin } from "../../wire/http/body-within.ts";
import { FRONT_LIMITS } from "../../wire/http/front-limits.ts";
import type { HttpRequest } from "../../wire/http/request.ts";
import type { DisturbedAnswer, EventSink } from "../../wire/http/sink.ts";
import { HttpServer } from "../../wire/http1/server.ts";
import { ANSWER_REASONING, ANSWER_TEXT, type AnswerPath, cannedAnswer } from "./answers.ts";
import type { StressCase } from "./cases.ts";
import type { CaseRequestRecord, WireRecord } from "./seen.ts";
import { Timeline, type TimelineAnswer } from "./timeline.ts";
import { NOTHING_READ, type WireReading } from "./verdict.ts";
import { WireReader } from "./wire-reader.ts";

/** Maximum number of seconds of a Retry-After during which a waiting client does not count as hanging. */
const WAIT_MOST_S = 10;
/** Maximum number of requests of a case that are recorded. */
const REQUESTS_MOST = 100;
/** Maximum number of bytes of a request body, or of a posted report. */
const BODY_MOST = 32 * 2 ** 20;
/** `created` of every answer in Unix seconds. Constant, so that a repeated case has the same bytes. */
const CREATED = 1_700_000_000;
const PATHS: readonly AnswerPath[] = ["/chat/completions", "/completions", "/messages", "/responses"];
const STREAM = { "content-type": "text/event-stream; charset=utf-8" };
const JSON_TYPE = { "content-type": "application/json" };
const errorBody = (message: string, type: string, code: number) =>
  JSON.stringify({ error: { message, type, param: null, code } });
const NO_CASE = errorBody("no such case", "NotFoundError", 404);
const TOO_LARGE = errorBody(`at most ${BODY_MOST} bytes are accepted`, "BadRequestError", 413);
const NO_JSON = errorBody("the body is not JSON", "BadRequestError", 400);
const MODELS = JSON.stringify({
  object: "list",
  data: [{ id: "m", object: "model", created: 0, owned_by: "understudy" }],
});

type CaseRequest = { -readonly [Name in keyof CaseRequestRecord]: CaseRequestRecord[Name] };

/** Answers requests outside the cases. Returns null for requests that it does not handle. */
export type StressDesk = (
  method: string,
  path: string,
  /** Reads the body. Null if it is too large. */
  body: () => Promise<Uint8Array | null>,
) => Promise<{ readonly status: number; readonly json: unknown }> | null;

/** A case while a client runs through it, with its records. */
export class CaseRun {
  readonly requests: CaseRequest[] = [];
  /** Ports of clients whose answers are not complete, by request. */
  readonly unfinished = new Map<CaseRequest, number>();
  readonly answers: TimelineAnswer[] = [];
  /** Number of requests that are being answered. */
  open = 0;
  /** Number of bytes sent, over all answers. */
  bytes = 0;
  /** True if the faults acted in at least one answer. Null until an answer has ended. */
  reached: boolean | null = null;
  reading: WireReading | null = null;
  /** Time of the last byte with content, in microseconds. 0 while more is to come, or before the first request. */
  lastUs = 0;

  constructor(readonly stressCase: StressCase) {}
}

export class StressServer {
  readonly #server: HttpServer;
  readonly #clock: Clock;
  readonly #epochSeconds: () => number;
  readonly #cases = new Map<string, CaseRun>();
  readonly #desk: StressDesk | null;

  /** `desk`: handler of requests outside the cases. Null if there is none. */
  constructor(port: number, clock: Clock, epochSeconds: () => number, desk: StressDesk | null = null) {
    this.#desk = desk;
    this.#clock = clock;
    this.#epochSeconds = epochSeconds;
    this.#server = new HttpServer(
      { fetch: (request) => this.#answer(request) },
      {
        hostname: "127.0.0.1",
        port,
        tls: undefined,
        reusePort: false,
        frontLimits: { ...FRONT_LIMITS, keepAliveS: 60 },
        clock,
        warn: () => {},
        epochSeconds,
      },
    );
  }

  urlOf({ id }: StressCase): string {
    return `${this.url}/case/${id}/v1`;
  }

  open(stressCase: StressCase): CaseRun {
    const run = new CaseRun(stressCase);
    this.#cases.set(stressCase.id, run);
    return run;
  }

  /** Returns the record of requests and connections of the case at this moment. */
  wireOf({ requests, unfinished }: CaseRun): WireRecord {
    const isOpen = (port: number) => this.#server.isOpen(port);
    const ports = new Set(requests.map(({ port }) => port));
    return {
      requests,
      unfinished: [...unfinished.values()].filter(isOpen).length,
      open: [...ports].filter(isOpen).length,
    };
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  close(): Promise<void> {
    return this.#server.stop(true);
  }

  async #answer(request: HttpRequest): Promise<Response> {
    const server = this.#server;
    const target = new URL(request.url);
    const reply = this.#desk?.(request.method, target.pathname, () => bodyWithin(request, BODY_MOST));
    if (reply) {
      const { status, json } = await reply;
      return server.answer(request, status, JSON_TYPE, JSON.stringify(json));
    }
    const [, id = "", rest = ""] = /^\/case\/([^/]+)(\/.*)$/.exec(target.pathname) ?? [];
    const run = this.#cases.get(id);
    const path = PATHS.find((path) => rest.endsWith(path));
    if (run === undefined) return server.answer(request, 404, JSON_TYPE, NO_CASE);
    const body = await bodyWithin(request, BODY_MOST);
    if (body === null) return server.answer(request, 413, JSON_TYPE, TOO_LARGE);
    if (path === undefined || request.method !== "POST") {
      const [status, text] = rest.endsWith("/models") ? [200, MODELS] : [404, NO_CASE];
      return server.answer(request, status, JSON_TYPE, text);
    }
    return this.#generate(request, run, path, body);
  }

  async #generate(request: HttpRequest, run: CaseRun, path: AnswerPath, body: Uint8Array): Promise<Response> {
    const server = this.#server;
    const { plan, disturbed } = run.stressCase;
    const options = requestOptionsIn(body);
    if (options === null) return server.answer(request, 400, JSON_TYPE, NO_JSON);
    const withUsage = options.stream_options?.include_usage === true;
    const { id, withTools, withReasoning } = run.stressCase;
    const answer = cannedAnswer(path, { id: `answer-${id}`, created: CREATED, withUsage, withTools, withReasoning });
    const before = run.requests.length;
    const { port } = server.requestIP(request)!;
    const record: CaseRequest = { atUs: this.#clock.now(), status: 200, port, toldText: false, retryAfterS: null };
    if (before < REQUESTS_MOST) run.requests.push(record);
    run.lastUs = 0;
    if (before < disturbed) {
      const key = `${id}/${before}`;
      run.unfinished.set(record, port);
      const timeline = new Timeline(this.#clock);
      const { pathname, search } = new URL(request.url);
      const attempt = { before, open: run.open, target: pathname + search, epochSeconds: this.#epochSeconds() };
      run.open++;
      const events = options.stream === true ? answer.events.length : 1;
      const onEnd = (left: DisturbedAnswer) => this.#recordEnd(run, record, timeline, left, events);
      await server.disturb(request, { plan, key, told: onEnd, sent: (bytes) => this.#sent(run, timeline, bytes) });
      const instead = substituteAnswer(plan, attempt);
      if (instead !== null) {
        record.status = instead.status;
        record.retryAfterS = retryAfterOf(instead.headers, this.#epochSeconds());
        // A client that obeys Retry-After is waiting, not hanging.
        run.lastUs = this.#clock.now() + Math.min(WAIT_MOST_S, (record.retryAfterS ?? 0) + 1) * 1e6;
        const refused = { ...NOTHING_READ, failure: `the server answered with status ${instead.status}` };
        // If several requests arrive together, some get the real answer, and its reading counts.
        if (run.reading === null || !run.stressCase.atOnce) run.reading = refused;
        return server.answer(request, instead.status, instead.headers, instead.body);
      }
      run.reading = readingOf(run.stressCase, key, options.stream === true ? answer.events : answer.whole);
    } else {
      record.toldText = true;
      run.reading = {
        ...NOTHING_READ,
        text: withTools ? "" : ANSWER_TEXT,
        calls: withTools,
        reasoning: withReasoning ? ANSWER_REASONING : "",
      };
    }
    if (options.stream !== true) return server.answer(request, 200, JSON_TYPE, answer.whole);
    const sink: EventSink = server.open(request, { onDrain() {}, onGone() {} }, null);
    const response = server.begin(request, 200, STREAM);
    for (const event of answer.events) sink.write(event);
    sink.end();
    const stays = plan.faults.some(({ row }) => row.id === "E3");
    if (stays || before >= disturbed) run.lastUs = this.#clock.now();
    return response;
  }

  /** Records bytes that were sent. Bytes that leave later than they were written postpone the end of the case. */
  #sent(run: CaseRun, timeline: Timeline, bytes: Uint8Array): void {
    timeline.sent(bytes);
    if (run.lastUs > 0) run.lastUs = Math.max(run.lastUs, this.#clock.now());
  }

  /** Records the end of an answer. `events`: number of events that the answer has. */
  #recordEnd(run: CaseRun, record: CaseRequest, timeline: Timeline, disturbed: DisturbedAnswer, events: number): void {
    const { account, end } = disturbed;
    run.open--;
    run.unfinished.delete(record);
    run.bytes += timeline.bytes;
    if (run.answers.length < REQUESTS_MOST) run.answers.push(timeline.answer(record, disturbed));
    run.lastUs = Math.max(run.lastUs, this.#clock.now());
    // The first events of messages and responses have no text yet.
    record.toldText = account.whole > 3;
    const acts = account.fired.filter(({ id }) => FAULT_ROWS.get(id)!.stage !== "instead");
    const isInstead = run.stressCase.plan.faults.some(({ row }) => row.stage === "instead") || record.status !== 200;
    // A client that follows a redirect gets the answer after it, which no fault changes.
    // After a disconnect the faults count as reached only if a later event could still have been changed.
    const leftBefore = end === "gone" && account.came < events;
    run.reached ||= isInstead || leftBefore || acts.every(({ times }) => times > 0);
  }
}

interface RequestOptions {
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
}

/** Parses the request body. Null if it is not a JSON object. */
function requestOptionsIn(body: Uint8Array): RequestOptions | null {
  const value = parsedJson(Buffer.from(body).toString());
  return typeof value === "object" ? value : null;
}

/**
 * Returns the seconds of Retry-After. Null if it is missing or invalid. `retry-after-ms` is not in any standard, so clients
 * need not obey it.
 */
function retryAfterOf(headers: Readonly<Record<string, string>>, epochSeconds: number): number | null {
  const after = headers["retry-after"];
  if (after === undefined || after.startsWith("-")) return null;
  // The Date header has whole seconds.
  return /^\d+$/.test(after) ? Number(after) : Math.max(0, Math.floor(Date.parse(after) / 1000 - epochSeconds));
}

const HEAD =
  "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/** Returns what a correct client reads from the disturbed answer, computed with the fault pipeline. */
export function readingOf({ plan }: StressCase, key: string, answer: readonly string[] | string): WireReading {
  const pipeline = new FaultPipeline(plan, key);
  const whole = typeof answer === "string";
  const head = whole
    ? headIn(
        HEAD.replace("text/event-stream; charset=utf-8", "application/json").replace(
          "transfer-encoding: chunked",
          `content-length: ${Buffer.byteLength(answer)}`,
        ),
      )
    : headIn(HEAD);
  const operations = whole
    ? pipeline.whole(head, Buffer.from(answer))
    : [...pipeline.begin(head), ...answer.flatMap((event) => pipeline.write(event)), ...pipeline.end()];
  const reader = new WireReader();
  for (const operation of operations) {
    if (operation.kind === "bytes") reader.push(operation.bytes);
    else if (operation.kind === "end" && (operation.how === "fin" || operation.how === "rst"))
      reader.ended(operation.how);
  }
  const { text, usage, calls, reasoning } = reader.events;
  const failure = reader.failure ?? (reader.complete ? null : "the answer did not end");
  return { text, failure, usage, calls, reasoning };
}
