/**
 * Does the HTTP work that all routes share: headers, request id, access log, API key, and FastAPI's answers to unknown paths and
 * methods. Bytes of vLLM 0.33 over FastAPI 0.136, uvicorn, and Starlette's CORS middleware without origins.
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
import { type AnswerParts, DrainGate, partsOf, partsOfBytes, sendParts } from "./send-parts.ts";
import { routeOf } from "./served.ts";

export type { Context } from "../../../wire/http/sink.ts";

const JSON_HEADERS = { server: "uvicorn", "content-type": "application/json", vary: "Origin" };
const HTML_HEADERS = { ...JSON_HEADERS, "content-type": "text/html; charset=utf-8" };
/** Headers of an answer without a content type. */
const EMPTY_HEADERS = { server: "uvicorn", vary: "Origin" };
const STREAM_HEADERS = { server: "uvicorn", "content-type": "text/event-stream; charset=utf-8", vary: "Origin" };

/** Marks an answer whose body is the stream that `open` has opened. */
const OPENED = Symbol("opened");
/** A body of known length that is written part by part. */
interface PartwiseBody {
  readonly bytes: number;
  readonly owner: SinkEvents;
  /** The destination of the parts. Null until the head is sent. */
  sink: PartSink | null;
}
/** Longer texts leave in parts. Writing one takes a tenth of a millisecond, too long if a hundred clients ask at once. */
const LONG_CHARACTERS = 65_536;
/** Prefixes of paths that need an API key: vLLM's, and our own paths that describe requests. */
const GUARDED = ["/v1", "/v2", "/inference", "/cohere", OWN_PATHS];

/** Ways in which the HTTP of a server differs from vLLM's. */
interface HttpHabits {
  /** True if there is no CORS middleware: answers do not vary by origin. */
  readonly withoutCors?: boolean;
  /** Called for each request that is refused because it has no valid key. */
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
  /** True if a script may have stopped the engine, so that a request can order it to continue. */
  readonly #releases: boolean;
  /** True if middleware other than that for CORS changes the headers of each answer. */
  readonly #adds: boolean;
  readonly #methods: ReadonlyMap<string, readonly string[]>;
  /** Path and query of the last request from a socket. `#route` is its route. */
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
   * route should answer.
   */
  readonly before = (context: Context): Response | undefined => {
    const refused = this.#guard(context);
    if (refused !== undefined) {
      this.#habits.keptOut?.(context.request);
      return refused;
    }
    this.#came(context);
    // Elysia answers HEAD on the routes of GET. FastAPI does not.
    return context.request.method === "HEAD" ? this.fallback(context) : undefined;
  };

  #came({ request }: Context): void {
    this.#kernel.metrics.httpAccounts.came(request, this.#routeOf(request));
  }

  /** Returns the route of a request. Keeps the last one, because most requests have the same path as the one before. */
  #routeOf(request: HttpRequest): string {
    const { target } = request;
    if (target === undefined) return routeOf(pathOf(request.url));
    if (target !== this.#target) {
      this.#target = target;
      this.#route = routeOf(pathOf(request.url));
    }
    return this.#route;
  }

  /**
   * Returns the counter of an HTTP request, or null if the request is not counted. From now on the caller must end the count,
   * when the answer is complete.
   */
  visitOf({ request }: Context): HttpVisit | null {
    return this.#kernel.metrics.httpAccounts.take(request) ?? null;
  }

  /** Answers 200 with JSON. `more`: further headers. */
  json(context: Context, body: string | AnswerParts, more?: Readonly<Record<string, string>>): Response {
    return this.#texts(context, 200, body, more ? { ...more, ...JSON_HEADERS } : JSON_HEADERS);
  }

  /** Answers with a text that has no content-type. */
  text(context: Context, body: string, status = 200): Response {
    return this.#answer(context, status, body, EMPTY_HEADERS);
  }

  /** Answers with a text of this content-type, without the application's header `vary`. */
  typed(context: Context, body: string, type: string): Response {
    return this.#answer(context, 200, body, { server: "uvicorn", "content-type": type });
  }

  /** Answers without a body. */
  empty(context: Context, status: number): Response {
    return this.#answer(context, status, null, EMPTY_HEADERS);
  }

  /** Answers 200 with an HTML page. */
  html(context: Context, body: AnswerParts): Response {
    return this.#texts(context, 200, body, HTML_HEADERS);
  }

  /** Opens the stream that answers a request. `waiting` counts the bytes that the socket has not taken. */
  open(context: Context, owner: SinkEvents, waiting: HeldBytes | null = null): EventSink {
    return context.front.open(context.request, owner, waiting);
  }

  /** Begins the answer whose body is the stream that `open` returned for this request. */
  stream(context: Context): Response {
    return this.#answer(context, 200, OPENED, STREAM_HEADERS);
  }

  /** Begins a stream like `stream`, with status and headers of a recorded answer. */
  played(context: Context, status: number, headers: Readonly<Record<string, string>>): Response {
    return this.#answer(context, status, OPENED, headers);
  }

  /** Frees the memory that is reserved for the body of a request, before its answer begins. */
  bodyUsed({ request }: Context): void {
    if (!this.#room.isEmpty) this.#room.leave(request);
  }

  /** Begins an answer of JSON whose length is known. The caller writes it to `sink` part by part. */
  long(
    context: Context,
    owner: SinkEvents,
    bytes: number,
    more: Readonly<Record<string, string>> = {},
  ): { readonly sink: PartSink; readonly response: Response } {
    const long: PartwiseBody = { bytes, owner, sink: null };
    const response = this.#answer(context, 200, long, { ...more, ...JSON_HEADERS });
    return { sink: long.sink!, response };
  }

  /** Answers with an error. Its own headers come before those of the server. */
  error(context: Context, error: ErrorAnswer): Response {
    const { status, headers } = error;
    const body = error instanceof LongError ? partsOfBytes(error.bytes) : error.body;
    if (headers === undefined) return this.#texts(context, status, body, JSON_HEADERS);
    const { "content-type": type = JSON_HEADERS["content-type"] } = headers;
    return this.#texts(context, status, body, { ...headers, ...JSON_HEADERS, "content-type": type });
  }

  /** Answers with a text, a long one part by part. */
  #texts(
    context: Context,
    status: number,
    body: string | AnswerParts,
    headers: Readonly<Record<string, string>>,
  ): Response {
    const isText = typeof body === "string";
    if (isText && body.length <= LONG_CHARACTERS) return this.#answer(context, status, body, headers);
    const gate = new DrainGate();
    const long: PartwiseBody = { bytes: isText ? Buffer.byteLength(body) : body.bytes, owner: gate, sink: null };
    const response = this.#answer(context, status, long, headers);
    const parts = isText ? partsOf(body) : body.parts;
    void sendParts(parts, long.sink!, gate, this.#kernel.backend, !isText && body.areShared);
    return response;
  }

  /** Returns the 401 of a guarded path without a valid key, or undefined if the request may continue. */
  #guard(context: Context): Response | undefined {
    this.#kernel.truth.history?.came(context.request);
    if (this.#keys.length === 0) return undefined;
    const { request } = context;
    const path = pathOf(request.url);
    if (request.method === "OPTIONS" || !GUARDED.some((prefix) => path.startsWith(prefix))) return undefined;
    const [scheme = "", key = ""] = split(request.headers.get("authorization") ?? "", " ");
    if (scheme.toLowerCase() === "bearer" && this.#fits(key)) return undefined;
    // vLLM checks keys outside the CORS middleware, so this answer has no `vary`.
    return this.#answer(context, unauthorized.status, unauthorized.body, {
      server: "uvicorn",
      "content-type": "application/json",
    });
  }

  /** Reports whether a key is valid. Compares all keys in constant time, so that the time of the answer reveals nothing. */
  #fits(key: string): boolean {
    const digest = sha256(key);
    let fits = false;
    for (const known of this.#keys) fits = isSameDigest(digest, known) || fits;
    return fits;
  }

  /** Answers requests that no route takes: preflights, wrong methods, paths with a trailing slash, and unknown paths. */
  fallback(context: Context): Response {
    const { request } = context;
    const path = pathOf(request.url);
    const headers = request.headers;
    const preflight = this.#habits.withoutCors ? null : this.#cors.preflight(request);
    if (preflight !== null) {
      this.visitOf(context); // drops the count, because vLLM answers preflights outside the middleware that counts requests
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
    body: string | typeof OPENED | PartwiseBody | null,
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

  /** Returns the headers of an answer with those that middleware adds, in its order. */
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

  /** Lets the engine continue after a script has stopped it, if a header of the request orders that. */
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

/** Status phrases of Python's `http.HTTPStatus` that differ from Node's. */
const PHRASES: Readonly<Record<number, string>> = {
  413: "Request Entity Too Large",
  416: "Requested Range Not Satisfiable",
};

function bytesOf(body: string | typeof OPENED | PartwiseBody | null): number {
  if (typeof body === "string") return Buffer.byteLength(body);
  return typeof body === "object" && body !== null ? body.bytes : 0;
}

/** Returns the offset of the path in an absolute URL. */
function pathAt(url: string): number {
  return url.indexOf("/", url.indexOf("://") + 3);
}

function pathOf(url: string): string {
  const end = url.indexOf("?");
  return url.slice(pathAt(url), end === -1 ? undefined : end);
}

/** Returns the texts before and after the first separator, like Python's `partition`. */
function split(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + separator.length)];
}
