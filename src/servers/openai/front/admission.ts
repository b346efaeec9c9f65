/**
 * Admits requests between their head and the end of their answer: how many may be served, the size of a body and the time that
 * it may take, and the time of the answer.
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
  /** Requests that are being served. */
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

  /** Admits one more, which is served until its ticket is settled. Many may come in one turn: the engine's steps go before them. */
  enter(): CountedOnce {
    this.#backend.catchUp?.();
    this.open++;
    this.#accounting.opened();
    return new CountedOnce(this.#settled);
  }

  /** The body of a request that has entered, or the refusal; as `Bodies.read`. */
  read<T extends BodyTaker>(
    context: Context,
    begin: () => T | null,
  ): Promise<Uint8Array | ErrorAnswer | T> | Uint8Array | ErrorAnswer | T {
    return this.#overload.refuses(this.open) ?? this.#bodies.read(context, begin);
  }

  /** The refusal of one more stream; null: it may begin. */
  refusesStream(): ErrorAnswer | null {
    return this.#overload.refusesStream(this.#streams + 1);
  }

  /** A refusal as it is sent. */
  shown(refusal: ErrorAnswer): ErrorAnswer {
    return this.#overload.shown(refusal);
  }

  /** The answer begins, and has its time from now on; `visit` where it is a stream. */
  answers(ticket: CountedOnce, answer: TimedItem, visit?: HttpVisit | null): void {
    if (visit !== undefined) ticket.streams(this, visit);
    ticket.within(this.#deadlines, answer);
  }

  /** For tickets: an event stream began, or came to its end. */
  stream(change: 1 | -1): void {
    this.#streams += change;
    this.#accounting.stream(change);
  }
}

/** Refusals that another moment would not have met. */
const FULL: readonly ErrorAnswer[] = [engineBusy, prefillBacklog];

/**
 * Refuses requests when the server is full. vLLM 0.33 answers 503 and nothing else. Gateways and hosted services in front of
 * vLLM also answer 429, and say when to try again, in one of three forms.
 */
class Overload {
  readonly #config: LiveValue<OverloadLimits>;
  readonly #epochSeconds: () => number;

  constructor({ live, time }: OpenAiKernel) {
    this.#config = live.values.overload;
    this.#epochSeconds = time.epochSeconds;
  }

  /** `--limit-concurrency`: the refusal of one more request, when so many are being served with it. */
  refuses(requests: number): ErrorAnswer | null {
    const most = this.#config.get().requests;
    return most > 0 && requests > most ? engineBusy : null;
  }

  /** `--max-streams`: the refusal of one more stream, when there are so many with it. */
  refusesStream(streams: number): ErrorAnswer | null {
    const most = this.#config.get().streams;
    return most > 0 && streams > most ? engineBusy : null;
  }

  /** An answer as it is sent: status and headers as asked for where it says that the server is full, else itself. */
  shown(answer: ErrorAnswer): ErrorAnswer {
    const { overloadStatus, retryAfter } = this.#config.get();
    if (!FULL.includes(answer) || (overloadStatus === answer.status && retryAfter === null)) return answer;
    const shown = overloadStatus === answer.status ? answer : overloaded(answer, overloadStatus);
    return retryAfter === null ? shown : { ...shown, headers: this.#headers(retryAfter) };
  }

  #headers({ seconds, forms }: NonNullable<OverloadLimits["retryAfter"]>): Record<string, string> {
    const headers: Record<string, string> = {};
    // A date says the same as seconds, in the same header: the last one named wins.
    for (const form of forms) {
      if (form === "ms") headers["retry-after-ms"] = String(Math.round(seconds * 1000));
      else if (form === "seconds") headers["retry-after"] = String(Math.ceil(seconds));
      else headers["retry-after"] = new Date(Math.ceil(this.#epochSeconds() + seconds) * 1000).toUTCString();
    }
    return headers;
  }
}

/** So long a large body waits for room at most, or half the time that a body may take. */
const ROOM_WAIT_S = 30;

/** Longer ones are read in a thread of their own: work of ten milliseconds at most is left here, in pieces of one. */
const THREAD_BODY_BYTES = 262_144;
/** A model's template writes a prompt in one go, and slowly. */
const TEMPLATE_BODY_BYTES = 32_768;

/** Reads the bodies of requests within the limits on their size and their time. */
export class Bodies {
  readonly #maxBytes: number;
  readonly #late: Deadlines | null;
  readonly #turn: () => Promise<void>;
  readonly #tooLarge: ErrorAnswer;
  readonly #tooSlow: ErrorAnswer;
  readonly #room: BodyRoom;
  /** Longer bodies are read in another thread, where there is one. */
  readonly #mostHere: number;
  /** Large bodies that wait for room. */
  readonly #crowded: Deadlines | null;
  readonly #history: OpenAiKernel["truth"]["history"];

  constructor({ config, backend, text, truth }: OpenAiKernel) {
    this.#history = truth.history;
    const { bodyTimeoutS } = connectionLimitsOf(config);
    this.#maxBytes = config.listen.maxBodyBytes;
    this.#turn = () => turn(backend);
    this.#late = deadlines(bodyTimeoutS, backend);
    this.#mostHere = text.model.template ? TEMPLATE_BODY_BYTES : THREAD_BODY_BYTES;
    this.#tooLarge = bodyTooLarge(config.listen.maxBodyBytes);
    this.#tooSlow = bodyTooSlow(bodyTimeoutS);
    this.#room = bodyRoomOf(config, backend);
    this.#crowded = deadlines(bodyTimeoutS > 0 ? Math.min(bodyTimeoutS / 2, ROOM_WAIT_S) : ROOM_WAIT_S, backend);
  }

  /** The body, or the answer to one that is too large or too slow. Rejected when the client leaves. */
  read(context: Context): Promise<Uint8Array | ErrorAnswer> | Uint8Array | ErrorAnswer;
  /** `begin`: takes bodies that are too large to be read on the loop's thread; null: it does not. */
  read<T extends BodyTaker>(
    context: Context,
    begin: () => T | null,
  ): Promise<Uint8Array | ErrorAnswer | T> | Uint8Array | ErrorAnswer | T;
  read<T extends BodyTaker>(context: Context, begin: () => T | null = () => null) {
    const history = this.#history;
    if (history === undefined) return this.#read(context, begin);
    // Who keeps bodies needs their bytes here.
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
    const taker = whole !== null && whole.length > this.#mostHere ? begin() : null;
    if (whole && taker) taker.push(whole);
    if (whole) return taker ?? whole;
    const bytes = stated === null ? null : Number(stated);
    if (bytes !== null && bytes <= Math.min(this.#mostHere, SMALL_BODY_BYTES))
      return this.#whole(request, request.bytes());
    return this.#parts(request, bytes, begin);
  }

  /** Part by part; a large body when there is room for it: the time that it may take begins then. */
  async #parts<T extends BodyTaker>(request: HttpRequest, bytes: number | null, begin: () => T | null) {
    if (bytes !== null && bytes > SMALL_BODY_BYTES) {
      const refused = await this.#enter(request, bytes);
      if (refused !== null) return refused;
    }
    const gathering = new Gathering(bytes ?? 0, this.#mostHere, begin);
    const enter = () => (bytes === null ? this.#enter(request, this.#maxBytes) : null);
    const read = await this.#whole(request, this.#gather(request, gathering, enter));
    if ("status" in read) gathering.drop();
    return read;
  }

  /** `enter`: waited for when a body whose length nobody has said turns out to be large. */
  async #gather<T extends BodyTaker>(
    request: HttpRequest,
    gathering: Gathering<T>,
    enter: () => Promise<ErrorAnswer | null> | null,
  ): Promise<Uint8Array | T | ErrorAnswer> {
    try {
      if (gathering.given && request.give !== undefined) return await this.#give(request, gathering);
      for await (const part of request.body ?? []) {
        const wasLarge = gathering.bytes > SMALL_BODY_BYTES;
        if (gathering.bytes + part.length > this.#maxBytes) return this.#tooLarge;
        gathering.push(part);
        this.#room.came(request, part.length);
        const refused = !wasLarge && gathering.bytes > SMALL_BODY_BYTES ? await enter() : await this.#goesOn(request);
        if (refused !== null) return refused;
      }
    } catch (left) {
      gathering.drop();
      throw left;
    }
    return gathering.whole();
  }

  async #give<T extends BodyTaker>(
    request: HttpRequest,
    gathering: Gathering<T>,
  ): Promise<Uint8Array | T | ErrorAnswer> {
    const { promise: refusal, resolve: refuse } = Promise.withResolvers<ErrorAnswer>();
    const given = request.give!(
      (part) => {
        gathering.push(part);
        this.#room.came(request, part.length);
      },
      async () => {
        await this.#turn();
        const refused = await this.#goesOn(request);
        if (refused !== null) refuse(refused);
      },
    );
    return Promise.race([given.then(() => gathering.whole()), refusal]);
  }

  /** Settles when the next part may come; the refusal where that takes too long. Rejected when the client leaves. */
  async #goesOn(request: HttpRequest): Promise<ErrorAnswer | null> {
    const going = this.#room.goesOn(request);
    return going === true ? null : this.#admitted(request, going);
  }

  /** Settles when there is room; the refusal where that does not come. Rejected when the client leaves. */
  async #enter(request: HttpRequest, bytes: number): Promise<ErrorAnswer | null> {
    request.signal.addEventListener("abort", () => this.#room.leave(request));
    const entering = this.#room.enter(request, bytes);
    return entering === true ? null : this.#admitted(request, entering);
  }

  async #admitted(request: HttpRequest, entering: Promise<boolean>): Promise<ErrorAnswer | null> {
    const granted = await this.#inTime(entering, this.#crowded);
    if (granted === true) return null;
    if (granted === false) throw new Error("the client left");
    this.#room.leave(request);
    return engineBusy;
  }

  /** The body, unless it takes too long, or has to give way to others that come. */
  #whole<T>(request: HttpRequest, body: Promise<T>): Promise<T | ErrorAnswer> {
    const inTime = this.#inTime(body, this.#late);
    if (request.crowdedOut === undefined) return inTime;
    const crowded = Promise.withResolvers<ErrorAnswer>();
    request.crowdedOut = () => crowded.resolve(engineBusy);
    return Promise.race([inTime, crowded.promise]);
  }

  #inTime<T>(body: Promise<T>, late: Deadlines | null): Promise<T | ErrorAnswer> {
    if (late === null) return body;
    return new Promise((resolve, reject) => {
      const watched: TimedItem = { expire: () => resolve(this.#tooSlow) };
      late.watch(watched);
      body.then(
        (read) => {
          late.forget(watched);
          resolve(read);
        },
        (reason) => {
          late.forget(watched);
          reject(reason);
        },
      );
    });
  }
}

/** Who reads a body elsewhere. */
export interface BodyTaker {
  /** Copies it. */
  push(part: Uint8Array): void;
  /** No more of it comes. */
  drop(): void;
}

/** The parts of a body: kept until they are more than is read here, then given away as they come. */
class Gathering<T extends BodyTaker> {
  bytes = 0;
  readonly #mostHere: number;
  readonly #begin: () => T | null;
  #parts: Uint8Array[] = [];
  /** Undefined: not asked for yet. */
  #taker: T | null | undefined;

  /** `stated`: as many bytes are to come. */
  constructor(stated: number, mostHere: number, begin: () => T | null) {
    this.#mostHere = mostHere;
    this.#begin = begin;
    if (stated > mostHere) this.#taker = begin();
  }

  /** All of it goes to the taker. */
  get given(): boolean {
    return Boolean(this.#taker);
  }

  push(part: Uint8Array): void {
    this.bytes += part.length;
    if (this.#taker) this.#taker.push(part);
    else this.#parts.push(part);
    if (this.#taker !== undefined || this.bytes <= this.#mostHere) return;
    this.#taker = this.#begin();
    if (this.#taker === null) return;
    for (const one of this.#parts) this.#taker.push(one);
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
