/**
 * What stands around every answer? Headers, request id, access log, API key, and the answers of FastAPI for paths and
 * methods that are not served (vLLM 0.33 over FastAPI 0.136, uvicorn, Starlette's CORS middleware without origins).
 */

import { isSameDigest, sha256 } from "../../../base/digest.ts";
import { STATUS_TEXTS } from "../../../base/status-texts.ts";
import type { HttpVisit } from "../../../kernel/accounting.ts";
import { OWN_PATHS } from "../../../metrics/rows/http-counts.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Context, EventSink, HeldBytes, PartSink, SinkEvents } from "../../../wire/http/sink.ts";
import { type ErrorAnswer, LongError } from "../../pydantic/refusals.ts";
import { methodNotAllowed, notFound, unauthorized } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { type BodyRoom, bodyRoomOf } from "./body-room.ts";
import { Cors } from "./cors.ts";
import { mayRelease, ORDER_HEADER, releasesEngine } from "./order-header.ts";
import { type AnswerParts, Gate, partsOf, partsOfBytes, sendParts } from "./send-parts.ts";
import { routeOf } from "./served.ts";

export type { Context } from "../../../wire/http/sink.ts";

const JSON_HEADERS = { server: "uvicorn", "content-type": "application/json", vary: "Origin" };
const HTML_HEADERS = { ...JSON_HEADERS, "content-type": "text/html; charset=utf-8" };
const EMPTY_HEADERS = { server: "uvicorn", vary: "Origin" };
const STREAM_HEADERS = { server: "uvicorn", "content-type": "text/event-stream; charset=utf-8", vary: "Origin" };
const TEXT_HEADERS = { server: "uvicorn", vary: "Origin" };

/** Stands for the body of a stream that was opened. */
const OPENED = Symbol("opened");
/** A body that is written as it is taken, where it goes once its head was sent. */
interface Whole {
  readonly bytes: number;
  readonly owner: SinkEvents;
  sink: PartSink | null;
}
/** Writing more than this in one go takes too long where a hundred ask for it at once: a tenth of a millisecond. */
const LONG_CHARACTERS = 65_536;
/** vLLM's, and our own: those tell of requests. */
const GUARDED = ["/v1", "/v2", "/inference", "/cohere", OWN_PATHS];

/** Ways in which the HTTP of a server differs from vLLM's. */
export interface HttpHabits {
  /** True if there is no CORS middleware: answers do not vary by origin. */
  readonly withoutCors?: boolean;
  /** Called for each request whose key does not fit. */
  readonly keptOut?: (request: HttpRequest) => void;
  /** Called with the status of each answer. */
  readonly answered?: (status: number) => void;
}

export class Http {
  readonly #kernel: OpenAiKernel;
  readonly #habits: HttpHabits;
  readonly #keys: readonly Uint8Array[];
  readonly #cors: Cors;
  readonly #room: BodyRoom;
  /** Something may have made the engine stand still. */
  readonly #releases: boolean;
  /** Answers carry more than their own headers. */
  readonly #adds: boolean;
  readonly #methods: ReadonlyMap<string, readonly string[]>;
  /** Path and query of the last request that came from a socket, and its route. */
  #target = "";
  #route = "";

  /** `methods`: the methods of each path on the port. Other methods there get 405, other paths 404. */
  constructor(kernel: OpenAiKernel, methods: Readonly<Record<string, readonly string[]>>, habits: HttpHabits = {}) {
    const { config, backend } = kernel;
    const { enableRequestIdHeaders, podHeaders, apiKeys, cors } = config.openai.front;
    this.#kernel = kernel;
    this.#habits = habits;
    this.#releases = mayRelease(kernel);
    this.#adds = enableRequestIdHeaders || podHeaders !== undefined || habits.withoutCors === true;
    this.#keys = apiKeys.map(sha256);
    this.#room = bodyRoomOf(config, backend);
    this.#cors = new Cors(cors);
    this.#methods = new Map(Object.entries(methods));
  }

  /**
   * Runs before every route and for unknown paths: checks the key, counts the request, refuses HEAD. Returns undefined if the
   * route is to answer.
   */
  readonly before = (context: Context): Response | undefined => {
    const refused = this.#guard(context);
    if (refused !== undefined) {
      this.#habits.keptOut?.(context.request);
      return refused;
    }
    this.#came(context);
    // Elysia answers HEAD where there is GET; FastAPI does not.
    return context.request.method === "HEAD" ? this.fallback(context) : undefined;
  };

  #came({ request }: Context): void {
    this.#kernel.metrics.httpAccounts.came(request, this.#routeOf(request));
  }

  /** Most requests in a row are for one route: their URLs are not put together and taken apart again. */
  #routeOf(request: HttpRequest): string {
    const { target } = request;
    if (target === undefined) return routeOf(pathOf(request.url));
    if (target !== this.#target) {
      this.#target = target;
      this.#route = routeOf(pathOf(request.url));
    }
    return this.#route;
  }

  /** The request's visit, which the caller ends from now on: when the answer is complete, not when it is made. */
  visitOf({ request }: Context): HttpVisit | null {
    return this.#kernel.metrics.httpAccounts.take(request) ?? null;
  }

  json(context: Context, body: string | AnswerParts, more?: Readonly<Record<string, string>>): Response {
    return this.#texts(context, 200, body, more ? { ...more, ...JSON_HEADERS } : JSON_HEADERS);
  }

  /** A text without a type of its own. */
  text(context: Context, body: string, status = 200): Response {
    return this.#answer(context, status, body, TEXT_HEADERS);
  }

  /** A text of this type, without headers of the application's. */
  typed(context: Context, body: string, type: string): Response {
    return this.#answer(context, 200, body, { server: "uvicorn", "content-type": type });
  }

  empty(context: Context, status: number): Response {
    return this.#answer(context, status, null, EMPTY_HEADERS);
  }

  html(context: Context, body: AnswerParts): Response {
    return this.#texts(context, 200, body, HTML_HEADERS);
  }

  /** Where the request's stream goes; `waiting` is told of events that the socket has not taken. */
  open(context: Context, owner: SinkEvents, waiting: HeldBytes | null = null): EventSink {
    return context.front.open(context.request, owner, waiting);
  }

  /** The answer whose body is what `open` gave for this request. */
  stream(context: Context): Response {
    return this.#answer(context, 200, OPENED, STREAM_HEADERS);
  }

  /** As `stream`, with somebody else's head. */
  played(context: Context, status: number, headers: Readonly<Record<string, string>>): Response {
    return this.#answer(context, status, OPENED, headers);
  }

  /** The request's body is not needed any more, though its answer is still to come. */
  bodyUsed({ request }: Context): void {
    if (!this.#room.isEmpty) this.#room.leave(request);
  }

  /** JSON of a known length that is written as it is taken. */
  long(
    context: Context,
    owner: SinkEvents,
    bytes: number,
    more: Readonly<Record<string, string>> = {},
  ): { readonly sink: PartSink; readonly response: Response } {
    const whole: Whole = { bytes, owner, sink: null };
    const response = this.#answer(context, 200, whole, { ...more, ...JSON_HEADERS });
    return { sink: whole.sink!, response };
  }

  error(context: Context, error: ErrorAnswer): Response {
    const { status, headers } = error;
    const body = error instanceof LongError ? partsOfBytes(error.bytes) : error.body;
    if (headers === undefined) return this.#texts(context, status, body, JSON_HEADERS);
    const { "content-type": type = JSON_HEADERS["content-type"] } = headers;
    return this.#texts(context, status, body, { ...headers, ...JSON_HEADERS, "content-type": type });
  }

  /** What is long leaves part by part. */
  #texts(
    context: Context,
    status: number,
    body: string | AnswerParts,
    headers: Readonly<Record<string, string>>,
  ): Response {
    const isText = typeof body === "string";
    if (isText && body.length <= LONG_CHARACTERS) return this.#answer(context, status, body, headers);
    const gate = new Gate();
    const whole: Whole = { bytes: isText ? Buffer.byteLength(body) : body.bytes, owner: gate, sink: null };
    const response = this.#answer(context, status, whole, headers);
    const parts = isText ? partsOf(body) : body.parts;
    void sendParts(parts, whole.sink!, gate, this.#kernel.backend, !isText && body.areShared);
    return response;
  }

  /** The 401 of a guarded path without a key that fits; undefined: go on. */
  #guard(context: Context): Response | undefined {
    this.#kernel.truth.history?.came(context.request);
    if (this.#keys.length === 0) return undefined;
    const { request } = context;
    const path = pathOf(request.url);
    if (request.method === "OPTIONS" || !GUARDED.some((prefix) => path.startsWith(prefix))) return undefined;
    const [scheme = "", key = ""] = split(request.headers.get("authorization") ?? "", " ");
    if (scheme.toLowerCase() === "bearer" && this.#fits(key)) return undefined;
    // The key is looked at outside the CORS middleware: no `vary`.
    return this.#answer(context, unauthorized.status, unauthorized.body, {
      server: "uvicorn",
      "content-type": "application/json",
    });
  }

  /** Every key is looked at, each in the same time whatever it holds. */
  #fits(key: string): boolean {
    const given = sha256(key);
    let fits = false;
    for (const known of this.#keys) fits = isSameDigest(given, known) || fits;
    return fits;
  }

  /** For what no route took. */
  fallback(context: Context): Response {
    const { request } = context;
    const path = pathOf(request.url);
    const headers = request.headers;
    const preflight = this.#habits.withoutCors ? null : this.#cors.preflight(request);
    if (preflight !== null) {
      this.visitOf(context); // answered outside the middleware that counts
      return this.#answer(context, preflight.status, preflight.body, preflight.headers);
    }
    const methods = this.#methods.get(routeOf(path));
    if (methods !== undefined) return this.error(context, methodNotAllowed(methods[0]!));
    if (path.length > 1 && path.endsWith("/") && this.#methods.has(path.slice(0, -1))) {
      const { protocol, search } = new URL(request.url);
      const location = `${protocol}//${headers.get("host") ?? ""}${path.slice(0, -1)}${search}`;
      return this.#answer(context, 307, null, { location, ...EMPTY_HEADERS });
    }
    return this.error(context, notFound);
  }

  #answer(
    context: Context,
    status: number,
    body: string | typeof OPENED | Whole | null,
    headers: Readonly<Record<string, string>>,
  ): Response {
    const { truth, live } = this.#kernel;
    this.#habits.answered?.(status);
    truth.history?.answered(context.request, status);
    const bytes = bytesOf(body);
    this.visitOf(context)?.done(status, bytes);
    this.bodyUsed(context);
    if (live.values.logsAccess.get()) this.#log(context, status);
    if (this.#releases) this.#release(context);
    const plain = !this.#adds && this.#cors.off;
    const all = plain ? headers : this.#withMore(context.request, status, headers);
    const front = context.front;
    if (body === OPENED) return front.begin(context.request, status, all);
    if (typeof body === "object" && body !== null) {
      const { sink, response } = front.beginWhole(context.request, body.owner, status, all, body.bytes);
      body.sink = sink;
      return response;
    }
    return front.answer(context.request, status, all, body, bytes);
  }

  /** In the order in which the middleware adds them. */
  #withMore(request: HttpRequest, status: number, headers: Readonly<Record<string, string>>): Record<string, string> {
    const more: Record<string, string> = {};
    if (status !== unauthorized.status && headers.vary === "Origin") {
      const { vary, ...application } = headers;
      Object.assign(more, application, this.#cors.headersFor(request), { vary });
    } else Object.assign(more, headers);
    const { enableRequestIdHeaders, podHeaders } = this.#kernel.config.openai.front;
    Object.assign(more, podHeaders);
    if (this.#habits.withoutCors) delete more.vary;
    if (enableRequestIdHeaders)
      more["x-request-id"] = request.headers.get("x-request-id") ?? this.#kernel.chance.newId(16);
    return more;
  }

  /** Lets an engine that a script stopped go on, if the request that is answered orders it. */
  #release({ request }: Context): void {
    const order = request.headers.get(ORDER_HEADER);
    if (order !== null && releasesEngine(order)) this.#kernel.backend.standStill?.(false);
  }

  /** Writes a line of the access log as uvicorn does. The client's address is empty if it is unknown. */
  #log({ request, front }: Context, status: number): void {
    const from = front.requestIP(request);
    const client = from === null ? "" : `${from.address}:${from.port}`;
    const { target = "" } = request;
    const path = target.startsWith("/") ? target : request.url.slice(pathAt(request.url));
    const phrase = PHRASES[status] ?? STATUS_TEXTS[status] ?? "";
    this.#kernel.log(
      `INFO:     ${client} - "${request.method} ${path} HTTP/${front.version(request)}" ${status} ${phrase}`,
    );
  }
}

/** Phrases of Python's `http.HTTPStatus` that are not Node's. */
const PHRASES: Readonly<Record<number, string>> = {
  413: "Request Entity Too Large",
  416: "Requested Range Not Satisfiable",
};

function bytesOf(body: string | typeof OPENED | Whole | null): number {
  if (typeof body === "string") return Buffer.byteLength(body);
  return typeof body === "object" && body !== null ? body.bytes : 0;
}

/** Where the path begins in an absolute URL. */
function pathAt(url: string): number {
  return url.indexOf("/", url.indexOf("://") + 3);
}

function pathOf(url: string): string {
  const end = url.indexOf("?");
  return url.slice(pathAt(url), end === -1 ? undefined : end);
}

/** As Python's `partition`: before and after the first separator. */
function split(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + separator.length)];
}
