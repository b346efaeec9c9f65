/** Defines what a handler of Triton's HTTP API receives and returns. */

import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Context, EventSink, FaultOrder, HeldBytes, HttpFront, SinkEvents } from "../../../wire/http/sink.ts";
import { DrainGate, sendParts } from "../../openai/front/send-parts.ts";
import type { ServerAround } from "../inference/around.ts";
import { HeldBody } from "../inference/held-bodies.ts";
import { HTTP_STATUS, invalidArg, TritonError } from "../model-config/status.ts";
import { isAscii, toBytesText } from "../tensors/datatypes.ts";
import { rapidText } from "../tensors/tensor-json.ts";

/** A complete answer. `body`: bytes, or a string with one character per byte. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  /** True if the body is a string that is known to be ASCII, so that its characters need no check. */
  readonly ascii?: boolean;
}
/** Result of a handler that answers later, or with a stream. */
export const LATER = Symbol("later");
export type HandlerAnswer = HttpAnswer | typeof LATER;

export const JSON_TYPE: Readonly<Record<string, string>> = { "Content-Type": "application/json" };
const PLAIN: Readonly<Record<string, string>> = { "Content-Type": "text/plain" };

export const jsonAnswer = (body: string | Uint8Array, status = 200): HttpAnswer => ({
  status,
  headers: JSON_TYPE,
  body,
});
export const plain = (body: string, status = 200): HttpAnswer => ({ status, headers: PLAIN, body });
export const errorText = (message: string): string => `{"error":${rapidText(toBytesText(message))}}`;
/** Returns the answer that reports a `TritonError`, as JSON. Throws any other error. */
export function jsonError(error: unknown): HttpAnswer {
  if (!(error instanceof TritonError)) throw error;
  return jsonAnswer(errorText(error.message), HTTP_STATUS[error.code]);
}
/** Does the same as `jsonError`, but declares the JSON as plain text. */
export const plainError = (error: unknown): HttpAnswer => ({ ...jsonError(error), headers: PLAIN });

const tooLarge = (most: number) => invalidArg(`request body exceeds the ${most} bytes that are taken here`);

/** Strings up to this length are sent as they are. Longer ones are encoded first. */
const SHORT = 16_384;

/** A request, and the one way to answer it. */
export class HttpCall {
  readonly method: string;
  /** Groups of the route's pattern in order. A group that did not match is undefined. */
  readonly found: readonly (string | undefined)[];
  readonly around: ServerAround;
  /** Memory of the body, which counts until the answer. */
  readonly held: HeldBody;
  readonly #request: HttpRequest;
  readonly #front: HttpFront;
  #response: Response | null = null;
  /** Resolves with the response. Null if nobody waits for it. */
  #taken: PromiseWithResolvers<Response> | null = null;

  constructor(context: Context, found: readonly (string | undefined)[], around: ServerAround) {
    this.#request = context.request;
    this.#front = context.front;
    this.method = context.request.method;
    this.found = found;
    this.around = around;
    this.held = new HeldBody(context.request, around.bodies);
  }

  /** Returns the response, or a promise until the answer has begun. */
  get response(): Response | Promise<Response> {
    if (this.#response !== null) return this.#response;
    this.#taken ??= Promise.withResolvers();
    return this.#taken.promise;
  }

  header(name: string): string | null {
    return this.#request.headers.get(name);
  }

  /** Path and query. */
  get target(): string {
    const { pathname, search } = new URL(this.#request.url);
    return pathname + search;
  }

  get http2(): boolean {
    return this.#front.version(this.#request) === "2";
  }

  headers(): Readonly<Record<string, string>> {
    const all: Record<string, string> = {};
    this.#request.headers.forEach((value, name) => {
      all[name] ??= value;
    });
    return all;
  }

  /** Calls `act` for each header in order. Names keep the client's case if it is known; values have one character per byte. */
  eachHeader(act: (name: string, value: string) => void): void {
    if (this.#front.eachSent !== undefined) this.#front.eachSent(this.#request, act);
    else
      this.#request.headers.forEach((value, name) => {
        act(name, value);
      });
  }

  /** Applies a fault to the answer. Call it before the answer is opened or sent. */
  async disturb(order: FaultOrder): Promise<void> {
    await this.#front.disturb?.(this.#request, order);
  }

  /**
   * Returns the whole body, synchronously if it has arrived. Throws or rejects with a `TritonError` if it exceeds the limit;
   * rejects if the client leaves.
   */
  body(): Uint8Array | Promise<Uint8Array> {
    return this.held.read(this.#front, this.around.config.overHttp.maxBodyBytes, tooLarge);
  }

  /** Sends the answer and frees the body's memory. A handler with a stream calls `held.leave` instead. */
  answer({ status, headers, body, ascii = false }: HttpAnswer): void {
    this.held.leave();
    const isShort = typeof body === "string" && body.length <= SHORT && (ascii || isAscii(body));
    const sent = isShort || typeof body !== "string" ? body : Buffer.from(body, "latin1");
    this.#begun(this.#front.answer(this.#request, status, headers, sent, body.length));
  }

  /** Sends an answer of `bytes` bytes as fast as the client reads it. */
  answerParts({ status, headers }: Omit<HttpAnswer, "body">, parts: readonly Uint8Array[], bytes: number): void {
    const gate = new DrainGate();
    const { sink, response } = this.#front.beginWhole(this.#request, gate, status, headers, bytes);
    this.#begun(response);
    void sendParts(parts, sink, gate, this.around.turns).finally(() => this.held.leave());
  }

  /** Opens a stream, which starts at `begin`. */
  open(owner: SinkEvents, waiting: HeldBytes): EventSink {
    return this.#front.open(this.#request, owner, waiting);
  }

  begin(status: number, headers: Readonly<Record<string, string>>): void {
    this.#begun(this.#front.begin(this.#request, status, headers));
  }

  #begun(response: Response): void {
    this.#response = response;
    this.#taken?.resolve(response);
  }
}
