/**
 * Applies the limits on a request from its head to the end of its answer. They are the number of requests served at once, the
 * size and duration of a body, and the duration of an answer.
 */

import type { LiveValue } from "../../../base/live-value.ts";
import { andThen } from "../../../base/maybe-promise.ts";
import { turn } from "../../../base/pieces.ts";
import type { Outcome } from "../../../engine/interface/types.ts";
import { type Accounting, CountedOnce, type HttpVisit } from "../../../kernel/accounting.ts";
import type { Backend } from "../../../kernel/backend.ts";
import { type Deadlines, deadlines, type TimedItem } from "../../../wire/http/deadlines.ts";
import { connectionLimitsOf, type OverloadLimits } from "../../../wire/http/front-limits.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { SMALL_BODY_BYTES } from "../../../wire/http/unfinished.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { bodyTooLarge, bodyTooSlow, engineBusy, overloaded, prefillBacklog } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { type BodyRoom, bodyRoomOf } from "./body-room.ts";
import type { Context } from "./http.ts";

export class Admission {
  /** Number of requests being served. */
  open = 0;
  #streams = 0;
  readonly #accounting: Accounting;
  readonly #backend: Backend;
  readonly #overload: Overload;
  readonly #bodies: Bodies;
  readonly #deadlines: Deadlines | null;
  readonly #settled = (outcome: Outcome): void => {
    this.open--;
    this.#accounting.settled(outcome);
  };

  constructor(kernel: OpenAiKernel, bodies: Bodies) {
    this.#accounting = kernel.metrics.accounting;
    this.#backend = kernel.backend;
    this.#overload = new Overload(kernel);
    this.#bodies = bodies;
    this.#deadlines = deadlines(connectionLimitsOf(kernel.config).requestTimeoutS, kernel.backend);
  }

  /**
   * Counts one more request as served until its ticket is settled. Runs due steps of the engine first, because many requests may
   * arrive in one turn of the event loop.
   */
  enter(): CountedOnce {
    this.#backend.catchUp?.();
    this.open++;
    this.#accounting.opened();
    return new CountedOnce(this.#settled);
  }

  /** Reads the body of a request that has entered, like `Bodies.read`. Returns a refusal if too many requests are served. */
  read<T extends BodyTaker>(
    context: Context,
    begin: () => T | null,
  ): Promise<Uint8Array | ErrorAnswer | T> | Uint8Array | ErrorAnswer | T {
    return this.#overload.refuses(this.open) ?? this.#bodies.read(context, begin);
  }

  /** Returns the refusal of one more stream, or null if it may begin. */
  refusesStream(): ErrorAnswer | null {
    return this.#overload.refusesStream(this.#streams + 1);
  }

  /** Returns the refusal with the status of `--overload-status` and the headers of `--retry-after`. */
  shown(refusal: ErrorAnswer): ErrorAnswer {
    return this.#overload.shown(refusal);
  }

  /** Starts the time limit of an answer. `visit`: HTTP request of a stream, null if not counted. Undefined: a whole answer. */
  answers(ticket: CountedOnce, answer: TimedItem, visit?: HttpVisit | null): void {
    if (visit !== undefined) ticket.streams(this, visit);
    ticket.within(this.#deadlines, answer);
  }

  /** Counts an event stream that began (1) or ended (-1). Tickets call it. */
  stream(change: 1 | -1): void {
    this.#streams += change;
    this.#accounting.stream(change);
  }
}

/** Refusals because the server is full. A later attempt may succeed. */
const FULL: readonly ErrorAnswer[] = [engineBusy, prefillBacklog];

/**
 * Refuses requests when the server is full. vLLM 0.33 always answers 503. Gateways and hosted services in front of vLLM also
 * answer 429, and announce the time of the next attempt in one of three forms.
 */
class Overload {
  readonly #config: LiveValue<OverloadLimits>;
  readonly #epochSeconds: () => number;

  constructor({ live, time }: OpenAiKernel) {
    this.#config = live.values.overload;
    this.#epochSeconds = time.epochSeconds;
  }

  /** Returns the refusal of a request if `requests`, its own included, are more than `--limit-concurrency`. Otherwise null. */
  refuses(requests: number): ErrorAnswer | null {
    const most = this.#config.get().requests;
    return most > 0 && requests > most ? engineBusy : null;
  }

  /** Returns the refusal of a stream if `streams`, its own included, are more than `--max-streams`. Otherwise null. */
  refusesStream(streams: number): ErrorAnswer | null {
    const most = this.#config.get().streams;
    return most > 0 && streams > most ? engineBusy : null;
  }

  /** Returns an answer of a full server with the chosen status and Retry-After headers. Returns other answers unchanged. */
  shown(answer: ErrorAnswer): ErrorAnswer {
    const { overloadStatus, retryAfter } = this.#config.get();
    if (!FULL.includes(answer) || (overloadStatus === answer.status && retryAfter === null)) return answer;
    const shown = overloadStatus === answer.status ? answer : overloaded(answer, overloadStatus);
    return retryAfter === null ? shown : { ...shown, headers: this.#headers(retryAfter) };
  }

  #headers({ seconds, forms }: NonNullable<OverloadLimits["retryAfter"]>): Record<string, string> {
    const headers: Record<string, string> = {};
    // Seconds and dates go into the same header, so the last of these two forms wins.
    for (const form of forms) {
      if (form === "ms") headers["retry-after-ms"] = String(Math.round(seconds * 1000));
      else if (form === "seconds") headers["retry-after"] = String(Math.ceil(seconds));
      else headers["retry-after"] = new Date(Math.ceil(this.#epochSeconds() + seconds) * 1000).toUTCString();
    }
    return headers;
  }
}

/** Most seconds that a large body waits for room. Half of `--body-timeout`, if that is less. */
const ROOM_WAIT_S = 30;

/** Longer bodies go to the reading thread. Shorter ones take the event loop at most ten milliseconds, in pieces of one. */
const THREAD_BODY_BYTES = 262_144;
/** With a chat template of the model, longer bodies go there, because a template renders a prompt slowly and in one piece. */
const TEMPLATE_BODY_BYTES = 32_768;

/** Reads the bodies of requests within the limits on their size and their time. */
export class Bodies {
  readonly #maxBytes: number;
  /** Time limit of bodies. Null: no limit. */
  readonly #bodyDeadlines: Deadlines | null;
  readonly #turn: () => Promise<void>;
  readonly #tooLarge: ErrorAnswer;
  readonly #tooSlow: ErrorAnswer;
  readonly #room: BodyRoom;
  /** Longer bodies are read by the reading thread, if there is one. */
  readonly #mostBytesHere: number;
  /** Time limit of large bodies that wait for room. */
  readonly #roomDeadlines: Deadlines | null;
  readonly #history: OpenAiKernel["truth"]["history"];

  constructor({ config, backend, text, truth }: OpenAiKernel) {
    this.#history = truth.history;
    const { bodyTimeoutS } = connectionLimitsOf(config);
    this.#maxBytes = config.listen.maxBodyBytes;
    this.#turn = () => turn(backend);
    this.#bodyDeadlines = deadlines(bodyTimeoutS, backend);
    this.#mostBytesHere = text.model.template ? TEMPLATE_BODY_BYTES : THREAD_BODY_BYTES;
    this.#tooLarge = bodyTooLarge(config.listen.maxBodyBytes);
    this.#tooSlow = bodyTooSlow(bodyTimeoutS);
    this.#room = bodyRoomOf(config, backend);
    this.#roomDeadlines = deadlines(bodyTimeoutS > 0 ? Math.min(bodyTimeoutS / 2, ROOM_WAIT_S) : ROOM_WAIT_S, backend);
  }

  /** Returns the body, or the refusal of a body that is too large or too slow. Rejects if the client leaves. */
  read(context: Context): Promise<Uint8Array | ErrorAnswer> | Uint8Array | ErrorAnswer;
  /** `begin`: makes the taker of a body that is too large for this thread. It returns null if there is none. */
  read<T extends BodyTaker>(
    context: Context,
    begin: () => T | null,
  ): Promise<Uint8Array | ErrorAnswer | T> | Uint8Array | ErrorAnswer | T;
  read<T extends BodyTaker>(context: Context, begin: () => T | null = () => null) {
    const history = this.#history;
    if (history === undefined) return this.#read(context, begin);
    // The history keeps bodies, so it needs their bytes on this thread.
    const reading = this.#read(context, () => null);
    const seen = (body: Uint8Array | ErrorAnswer) => {
      if (!("status" in body)) history.body(context.request, body);
      return body;
    };
    return andThen(reading, seen);
  }

  #read(context: Context, begin: () => null): Promise<Uint8Array | ErrorAnswer> | Uint8Array | ErrorAnswer;
  #read<T extends BodyTaker>(
    context: Context,
    begin: () => T | null,
  ): Promise<Uint8Array | ErrorAnswer | T> | Uint8Array | ErrorAnswer | T;
  #read<T extends BodyTaker>(context: Context, begin: () => T | null) {
    const { request } = context;
    const stated = request.headers.get("content-length");
    if (Number(stated) > this.#maxBytes) return this.#tooLarge;
    const whole = stated === null ? null : context.front.body(request);
    const taker = whole !== null && whole.length > this.#mostBytesHere ? begin() : null;
    if (whole && taker) taker.push(whole);
    if (whole) return taker ?? whole;
    const bytes = stated === null ? null : Number(stated);
    if (bytes !== null && bytes <= Math.min(this.#mostBytesHere, SMALL_BODY_BYTES))
      return this.#whole(request, request.bytes());
    return this.#parts(request, bytes, begin);
  }

  /** Reads a body part by part. A body of known large size first waits for room. Its time limit starts after that. */
  async #parts<T extends BodyTaker>(request: HttpRequest, bytes: number | null, begin: () => T | null) {
    if (bytes !== null && bytes > SMALL_BODY_BYTES) {
      const refused = await this.#awaitRoom(request, bytes);
      if (refused !== null) return refused;
    }
    const collector = new PartCollector(bytes ?? 0, this.#mostBytesHere, begin);
    const awaitRoom = () => (bytes === null ? this.#awaitRoom(request, this.#maxBytes) : null);
    const read = await this.#whole(request, this.#gather(request, collector, awaitRoom));
    if ("status" in read) collector.drop();
    return read;
  }

  /** Collects the parts of a body. `awaitRoom`: waits for room if a body of unknown length turns out to be large. */
  async #gather<T extends BodyTaker>(
    request: HttpRequest,
    collector: PartCollector<T>,
    awaitRoom: () => Promise<ErrorAnswer | null> | null,
  ): Promise<Uint8Array | T | ErrorAnswer> {
    try {
      if (collector.hasTaker && request.give !== undefined) return await this.#give(request, collector);
      for await (const part of request.body ?? []) {
        const wasLarge = collector.bytes > SMALL_BODY_BYTES;
        if (collector.bytes + part.length > this.#maxBytes) return this.#tooLarge;
        collector.push(part);
        this.#room.came(request, part.length);
        const refused =
          !wasLarge && collector.bytes > SMALL_BODY_BYTES ? await awaitRoom() : await this.#awaitNextPart(request);
        if (refused !== null) return refused;
      }
    } catch (left) {
      collector.drop();
      throw left;
    }
    return collector.whole();
  }

  /** Passes the parts to the taker as they arrive, so that none is kept here. Returns early if the body is refused. */
  async #give<T extends BodyTaker>(
    request: HttpRequest,
    collector: PartCollector<T>,
  ): Promise<Uint8Array | T | ErrorAnswer> {
    const { promise: refusal, resolve: refuse } = Promise.withResolvers<ErrorAnswer>();
    const passing = request.give!(
      (part) => {
        collector.push(part);
        this.#room.came(request, part.length);
      },
      async () => {
        await this.#turn();
        const refused = await this.#awaitNextPart(request);
        if (refused !== null) refuse(refused);
      },
    );
    return Promise.race([passing.then(() => collector.whole()), refusal]);
  }

  /** Waits until the next part may be read. Returns the refusal if that takes too long. Rejects if the client leaves. */
  async #awaitNextPart(request: HttpRequest): Promise<ErrorAnswer | null> {
    const going = this.#room.goesOn(request);
    return going === true ? null : this.#awaitDecision(request, going);
  }

  /** Waits for room. Returns the refusal if that takes too long. Rejects if the client leaves. */
  async #awaitRoom(request: HttpRequest, bytes: number): Promise<ErrorAnswer | null> {
    request.signal.addEventListener("abort", () => this.#room.leave(request));
    const entering = this.#room.enter(request, bytes);
    return entering === true ? null : this.#awaitDecision(request, entering);
  }

  async #awaitDecision(request: HttpRequest, entering: Promise<boolean>): Promise<ErrorAnswer | null> {
    const granted = await this.#inTime(entering, this.#roomDeadlines);
    if (granted === true) return null;
    if (granted === false) throw new Error("the client left");
    this.#room.leave(request);
    return engineBusy;
  }

  /** Returns the body, or a refusal if it takes too long or its memory is needed for other requests. */
  #whole<T>(request: HttpRequest, body: Promise<T>): Promise<T | ErrorAnswer> {
    const inTime = this.#inTime(body, this.#bodyDeadlines);
    if (request.crowdedOut === undefined) return inTime;
    const crowded = Promise.withResolvers<ErrorAnswer>();
    request.crowdedOut = () => crowded.resolve(engineBusy);
    return Promise.race([inTime, crowded.promise]);
  }

  #inTime<T>(body: Promise<T>, limit: Deadlines | null): Promise<T | ErrorAnswer> {
    if (limit === null) return body;
    return new Promise((resolve, reject) => {
      const watched: TimedItem = { expire: () => resolve(this.#tooSlow) };
      limit.watch(watched);
      body.then(
        (read) => {
          limit.forget(watched);
          resolve(read);
        },
        (reason) => {
          limit.forget(watched);
          reject(reason);
        },
      );
    });
  }
}

/** Receives the parts of a body and reads them on another thread. */
interface BodyTaker {
  /** Takes the next part. Copies its bytes. */
  push(part: Uint8Array): void;
  /** Gives the body up, because no more parts come. */
  drop(): void;
}

/** Collects the parts of a body. As soon as they are too large for this thread, passes them to a taker instead. */
class PartCollector<T extends BodyTaker> {
  bytes = 0;
  readonly #mostBytesHere: number;
  readonly #begin: () => T | null;
  #parts: Uint8Array[] = [];
  /** Receiver of the parts. Undefined: `begin` was not called yet. */
  #taker: T | null | undefined;

  /** `stated`: announced length in bytes; 0 if it is unknown. */
  constructor(stated: number, mostBytesHere: number, begin: () => T | null) {
    this.#mostBytesHere = mostBytesHere;
    this.#begin = begin;
    if (stated > mostBytesHere) this.#taker = begin();
  }

  /** True if the taker receives the parts. */
  get hasTaker(): boolean {
    return Boolean(this.#taker);
  }

  push(part: Uint8Array): void {
    this.bytes += part.length;
    if (this.#taker) this.#taker.push(part);
    else this.#parts.push(part);
    if (this.#taker !== undefined || this.bytes <= this.#mostBytesHere) return;
    this.#taker = this.#begin();
    if (this.#taker === null) return;
    for (const earlier of this.#parts) this.#taker.push(earlier);
    this.#parts = [];
  }

  whole(): Uint8Array | T {
    return this.#taker ?? (this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts));
  }

  drop(): void {
    this.#taker?.drop();
    this.#parts = [];
  }
}
