/** What does a handler of Triton's HTTP have before it, and what does it give? */

import { gatheredBody } from "../../../wire/http/gathered-body.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Context, EventSink, FaultOrder, HeldBytes, HttpFront, SinkEvents } from "../../../wire/http/sink.ts";
import { Gate, sendParts } from "../../openai/front/send-parts.ts";
import type { ServerAround } from "../inference/around.ts";
import { HeldBody } from "../inference/held-bodies.ts";
import { HTTP_STATUS, invalidArg, type TritonError } from "../model-config/status.ts";
import { isAscii, toBytesText } from "../tensors/datatypes.ts";
import { rapidText } from "../tensors/tensor-json.ts";

/** A whole answer. `body` is a text of bytes, one character each, or bytes. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}
/** The handler answers by itself, by a stream or later. */
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
export const jsonError = ({ code, message }: TritonError): HttpAnswer =>
  jsonAnswer(errorText(message), HTTP_STATUS[code]);
export const plainError = ({ code, message }: TritonError): HttpAnswer => plain(errorText(message), HTTP_STATUS[code]);

export interface HttpCall {
  readonly method: string;
  /** What the route's pattern found, in its order; undefined where it found nothing. */
  readonly found: readonly (string | undefined)[];
  readonly around: ServerAround;
  header(name: string): string | null;
  /** Path and query. */
  readonly target: string;
  readonly http2: boolean;
  headers(): Readonly<Record<string, string>>;
  /** In their order; names in the client's letters where these are known, values with a character for each byte. */
  eachHeader(act: (name: string, value: string) => void): void;
  /** Has the answer disturbed, whichever it is; before it is opened or given. */
  disturb(order: FaultOrder): Promise<void>;
  /**
   * All of it, at once where it is there. Throws a `TritonError`, or rejects with it, where it is larger than what is taken
   * here; rejects when the client leaves.
   */
  body(): Uint8Array | Promise<Uint8Array>;
  /** The memory that the body takes until the request is answered. */
  readonly held: HeldBody;
  /** Answers, after which the body's memory counts no more. A handler that answers by a stream calls `held.leave`. */
  answer(answer: HttpAnswer): void;
  /** One of so many bytes, as fast as the client takes them. */
  answerParts(answer: Omit<HttpAnswer, "body">, parts: readonly Uint8Array[], bytes: number): void;
  /** A stream that begins when `begin` is called. */
  open(owner: SinkEvents, waiting: HeldBytes): EventSink;
  begin(status: number, headers: Readonly<Record<string, string>>): void;
}

const tooLarge = (most: number) => invalidArg(`request body exceeds the ${most} bytes that are taken here`);

/** A text up to here leaves as it is; more are better looked at as bytes. */
const SHORT = 16_384;

export class SocketCall implements HttpCall {
  readonly method: string;
  readonly found: readonly (string | undefined)[];
  readonly around: ServerAround;
  readonly held: HeldBody;
  readonly #request: HttpRequest;
  readonly #front: HttpFront;
  #response: Response | null = null;
  /** Where it is waited for. */
  #taken: PromiseWithResolvers<Response> | null = null;

  constructor(context: Context, found: readonly (string | undefined)[], around: ServerAround) {
    this.#request = context.request;
    this.#front = context.front;
    this.method = context.request.method;
    this.found = found;
    this.around = around;
    this.held = new HeldBody(context.request, around.bodies);
  }

  /** There, or settles, when the answer has begun. */
  get response(): Response | Promise<Response> {
    if (this.#response !== null) return this.#response;
    this.#taken ??= Promise.withResolvers();
    return this.#taken.promise;
  }

  header(name: string): string | null {
    return this.#request.headers.get(name);
  }

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

  eachHeader(act: (name: string, value: string) => void): void {
    if (this.#front.eachSent !== undefined) this.#front.eachSent(this.#request, act);
    else
      this.#request.headers.forEach((value, name) => {
        act(name, value);
      });
  }

  async disturb(order: FaultOrder): Promise<void> {
    await this.#front.disturb?.(this.#request, order);
  }

  body(): Uint8Array | Promise<Uint8Array> {
    const most = this.around.config.overHttp.maxBodyBytes;
    if (Number(this.header("content-length") ?? 0) > most) throw tooLarge(most);
    return this.#front.body(this.#request) ?? gatheredBody(this.#request, this.held, most, tooLarge, this.around.turns);
  }

  answer({ status, headers, body }: HttpAnswer): void {
    this.held.leave();
    const isShort = typeof body === "string" && body.length <= SHORT && isAscii(body);
    const sent = isShort || typeof body !== "string" ? body : Buffer.from(body, "latin1");
    this.#begun(this.#front.answer(this.#request, status, headers, sent, body.length));
  }

  answerParts({ status, headers }: Omit<HttpAnswer, "body">, parts: readonly Uint8Array[], bytes: number): void {
    const gate = new Gate();
    const { sink, response } = this.#front.beginWhole(this.#request, gate, status, headers, bytes);
    this.#begun(response);
    void sendParts(parts, sink, gate, this.around.turns).finally(() => this.held.leave());
  }

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
