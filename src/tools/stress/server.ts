/** Who answers a client's cases? `/case/ID/v1/…`: each has its plan, and what came to it is kept. */

import type { Clock } from "../../base/clock.ts";
import { substituteAnswer } from "../../faults/instead.ts";
import { FaultPipeline } from "../../faults/pipeline.ts";
import { headIn } from "../../faults/stages/heads.ts";
import { FAULT_ROWS } from "../../faults/table.ts";
import { bodyWithin } from "../../wire/http/body-within.ts";
import { FRONT_LIMITS } from "../../wire/http/front-limits.ts";
import type { HttpRequest } from "../../wire/http/request.ts";
import type { DisturbedAnswer, EventSink } from "../../wire/http/sink.ts";
import { HttpServer } from "../../wire/http1/server.ts";
import { type AnswerPath, cannedAnswer, REASONED, SAID } from "./answers.ts";
import type { StressCase } from "./cases.ts";
import type { SeenRequest, SeenRequests } from "./seen.ts";
import { Timeline, type TimelineAnswer } from "./timeline.ts";
import { NOTHING_READ, type WireReading } from "./verdict.ts";
import { WireReader } from "./wire-reader.ts";

/** Longest wait before another attempt that is waited for. */
const WAIT_MOST_S = 10;
/** Requests of a case that are kept. */
const REQUESTS_MOST = 100;
/** Bytes of a body, of a request or of what a client has seen. */
const BODY_MOST = 32 * 2 ** 20;
/** `created` of every answer, Unix seconds: a constant, so that a repeated case has the same bytes. */
const CREATED = 1_700_000_000;
const PATHS: readonly AnswerPath[] = ["/chat/completions", "/completions", "/messages", "/responses"];
const STREAM = { "content-type": "text/event-stream; charset=utf-8" };
const JSON_TYPE = { "content-type": "application/json" };
const NO_CASE = JSON.stringify({ error: { message: "no such case", type: "NotFoundError", param: null, code: 404 } });
const TOO_LARGE = JSON.stringify({
  error: { message: `at most ${BODY_MOST} bytes are taken`, type: "BadRequestError", param: null, code: 413 },
});
const NO_JSON = JSON.stringify({
  error: { message: "the body is no JSON", type: "BadRequestError", param: null, code: 400 },
});

type CaseRequest = { -readonly [Name in keyof SeenRequest]: SeenRequest[Name] };

/** Answers what is asked beside the cases; null: it is not for it. */
export type StressDesk = (
  method: string,
  path: string,
  /** null: it is too large. */
  body: () => Promise<Uint8Array | null>,
) => Promise<{ readonly status: number; readonly json: unknown }> | null;

/** A case that a client is in. */
export class CaseRun {
  readonly requests: CaseRequest[] = [];
  /** Client's ports whose answers are not complete. */
  readonly unfinished = new Map<CaseRequest, number>();
  readonly answers: TimelineAnswer[] = [];
  /** Being answered. */
  open = 0;
  /** Bytes of answers that left. */
  bytes = 0;
  /** The fault acted in one of its answers; null: none has ended yet. */
  reached: boolean | null = null;
  reading: WireReading | null = null;
  /** When the last byte left that says anything; 0: something is still to come, or nothing was asked. */
  lastUs = 0;

  constructor(readonly one: StressCase) {}
}

export class StressServer {
  readonly #server: HttpServer;
  readonly #clock: Clock;
  readonly #epochSeconds: () => number;
  readonly #cases = new Map<string, CaseRun>();
  readonly #desk: StressDesk | null;

  /** `desk`: who takes what is posted beside the cases; null: nobody. */
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

  open(one: StressCase): CaseRun {
    const run = new CaseRun(one);
    this.#cases.set(one.id, run);
    return run;
  }

  /** What stood on the wire of the case, as it is now. */
  wireOf({ requests, unfinished }: CaseRun): SeenRequests {
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
    const asked = this.#desk?.(request.method, target.pathname, () => bodyWithin(request, BODY_MOST));
    if (asked) {
      const { status, json } = await asked;
      return server.answer(request, status, JSON_TYPE, JSON.stringify(json));
    }
    const [, id = "", rest = ""] = /^\/case\/([^/]+)(\/.*)$/.exec(target.pathname) ?? [];
    const run = this.#cases.get(id);
    const path = PATHS.find((one) => rest.endsWith(one));
    if (run === undefined) return server.answer(request, 404, JSON_TYPE, NO_CASE);
    const body = await bodyWithin(request, BODY_MOST);
    if (body === null) return server.answer(request, 413, JSON_TYPE, TOO_LARGE);
    if (path === undefined || request.method !== "POST") {
      const models = JSON.stringify({
        object: "list",
        data: [{ id: "m", object: "model", created: 0, owned_by: "understudy" }],
      });
      return server.answer(
        request,
        rest.endsWith("/models") ? 200 : 404,
        JSON_TYPE,
        rest.endsWith("/models") ? models : NO_CASE,
      );
    }
    return this.#generate(request, run, path, body);
  }

  async #generate(request: HttpRequest, run: CaseRun, path: AnswerPath, body: Uint8Array): Promise<Response> {
    const server = this.#server;
    const { plan, disturbed } = run.one;
    const asked = askedIn(body);
    if (asked === null) return server.answer(request, 400, JSON_TYPE, NO_JSON);
    const withUsage = asked.stream_options?.include_usage === true;
    const { id, withTools, withReasoning } = run.one;
    const answer = cannedAnswer(path, { id: `answer-${id}`, created: CREATED, withUsage, withTools, withReasoning });
    const before = run.requests.length;
    const { port } = server.requestIP(request)!;
    const kept: CaseRequest = { atUs: this.#clock.now(), status: 200, port, toldText: false, retryAfterS: null };
    if (before < REQUESTS_MOST) run.requests.push(kept);
    run.lastUs = 0;
    if (before < disturbed) {
      const key = `${id}/${before}`;
      run.unfinished.set(kept, port);
      const timeline = new Timeline(this.#clock);
      const { pathname, search } = new URL(request.url);
      const attempt = { before, open: run.open, target: pathname + search, epochSeconds: this.#epochSeconds() };
      run.open++;
      const events = asked.stream === true ? answer.events.length : 1;
      const told = (left: DisturbedAnswer) => this.#told(run, kept, timeline, left, events);
      await server.disturb(request, { plan, key, told, sent: (bytes) => this.#sent(run, timeline, bytes) });
      const instead = substituteAnswer(plan, attempt);
      if (instead !== null) {
        kept.status = instead.status;
        kept.retryAfterS = retryAfterOf(instead.headers, this.#epochSeconds());
        // Whoever waits as long as it is told is not hanging.
        run.lastUs = this.#clock.now() + Math.min(WAIT_MOST_S, (kept.retryAfterS ?? 0) + 1) * 1e6;
        const refused = { ...NOTHING_READ, failure: `the server answered with status ${instead.status}` };
        // Where requests meet, some are answered.
        if (run.reading === null || !run.one.atOnce) run.reading = refused;
        return server.answer(request, instead.status, instead.headers, instead.body);
      }
      run.reading = readingOf(run.one, key, asked.stream === true ? answer.events : answer.whole);
    } else {
      kept.toldText = true;
      run.reading = {
        ...NOTHING_READ,
        text: withTools ? "" : SAID,
        calls: withTools,
        reasoning: withReasoning ? REASONED : "",
      };
    }
    if (asked.stream !== true) return server.answer(request, 200, JSON_TYPE, answer.whole);
    const sink: EventSink = server.open(request, { onDrain() {}, onGone() {} }, null);
    const response = server.begin(request, 200, STREAM);
    for (const event of answer.events) sink.write(event);
    sink.end();
    const stays = plan.faults.some(({ row }) => row.id === "E3");
    if (stays || before >= disturbed) run.lastUs = this.#clock.now();
    return response;
  }

  /** What leaves later than it was written puts the end of the case off. */
  #sent(run: CaseRun, timeline: Timeline, bytes: Uint8Array): void {
    timeline.sent(bytes);
    if (run.lastUs > 0) run.lastUs = Math.max(run.lastUs, this.#clock.now());
  }

  /** `events`: so many the answer has. */
  #told(run: CaseRun, kept: CaseRequest, timeline: Timeline, left: DisturbedAnswer, events: number): void {
    const { account, end } = left;
    run.open--;
    run.unfinished.delete(kept);
    run.bytes += timeline.bytes;
    if (run.answers.length < REQUESTS_MOST) run.answers.push(timeline.answer(kept, left));
    run.lastUs = Math.max(run.lastUs, this.#clock.now());
    // Heads of messages and responses stand before any text.
    kept.toldText = account.whole > 3;
    const acts = account.fired.filter(({ id }) => FAULT_ROWS.get(id)!.stage !== "instead");
    const isInstead = run.one.plan.faults.some(({ row }) => row.stage === "instead") || kept.status !== 200;
    // Whoever follows a redirect has the answer behind it, in which nothing acts.
    // Of a client that left, it counts only if an event was to come that a fault might have acted on.
    const leftBefore = end === "gone" && account.came < events;
    run.reached ||= isInstead || leftBefore || acts.every(({ times }) => times > 0);
  }
}

interface AskedFor {
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
}

/** null: the body is no JSON object. */
function askedIn(body: Uint8Array): AskedFor | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString());
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

/** Returns the seconds of Retry-After; null if it is missing or invalid. `retry-after-ms` is in no standard: nobody is held to it. */
function retryAfterOf(headers: Readonly<Record<string, string>>, epochSeconds: number): number | null {
  const after = headers["retry-after"];
  if (after === undefined || after.startsWith("-")) return null;
  // A date has whole seconds.
  return /^\d+$/.test(after) ? Number(after) : Math.max(0, Math.floor(Date.parse(after) / 1000 - epochSeconds));
}

const HEAD =
  "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/** What a correct reader makes of the disturbed answer, as the pipeline says it. */
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
  for (const one of operations) {
    if (one.kind === "bytes") reader.push(one.bytes);
    else if (one.kind === "end" && (one.how === "fin" || one.how === "rst")) reader.ended(one.how);
  }
  const { text, usage, calls, reasoning } = reader.events;
  const failure = reader.failure ?? (reader.complete ? null : "the answer did not end");
  return { text, failure, usage, calls, reasoning };
}
