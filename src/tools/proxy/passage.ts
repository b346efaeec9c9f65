/** Forwards an answer of the server to the client, unchanged or with the faults of a plan. */

import type { SinkEvents } from "../../wire/http/sink.ts";
import type { Exchange } from "../../wire/http1/exchange.ts";
import { PassingEvents, withLineFeeds } from "./events.ts";
import { firstValue, linePairs, linesOf } from "./fields.ts";
import { disturbedHead, type ForwardedAnswer, framingFor, passedHead } from "./heads.ts";
import type { UpstreamAnswer } from "./upstream.ts";

/**
 * End of an answer. "whole": complete. "broken": the server closed early, and so did the proxy. "left": the client disconnected,
 * or the plan ended the answer early.
 */
export type AnswerEnd = "whole" | "broken" | "left";

/** Most bytes of an answer without events that a plan can disturb. A longer answer is forwarded unchanged. */
const WHOLE_MOST = 8 * 2 ** 20;
const NOTHING = new Uint8Array();

export class Passage implements SinkEvents {
  readonly #facts: ForwardedAnswer;
  /** The body. Not read with `for await`, which would close the body if a loop ends early. */
  readonly #parts: AsyncIterator<Uint8Array>;
  #left = false;
  #drained: (() => void) | null = null;

  /** `onPart` is called with each part of the body as the server sent it. */
  constructor(
    private readonly exchange: Exchange,
    private readonly answer: UpstreamAnswer,
    private readonly onPart: (part: Uint8Array) => void,
  ) {
    this.#facts = { ...answer, method: exchange.request.method };
    this.#parts = answer.body[Symbol.asyncIterator]();
  }

  /** Sends the answer, with faults if the exchange has a plan (`faulty`). */
  run(): Promise<AnswerEnd> {
    if (this.exchange.faulty === null) return this.#forward([]);
    return isEventStream(this.answer) ? this.#disturbEvents() : this.#disturbWhole();
  }

  onDrain(): void {
    this.#drained?.();
  }

  onGone(): void {
    this.#left = true;
    this.answer.body.destroy();
    this.#drained?.();
  }

  /** Sends the parts as they arrive. `before`: parts that have already been read. */
  async #forward(before: readonly Uint8Array[]): Promise<AnswerEnd> {
    const exchange = this.exchange;
    const framing = framingFor(this.#facts, exchange.version);
    if (framing === "close") exchange.keepAlive = false;
    const sink = exchange.beginRaw(this, passedHead(this.#facts, framing, !exchange.keepAlive), framing);
    for (const part of before) sink.write(part);
    const passed = await this.#read(sink, (part) => sink.write(part));
    if (passed === "whole") sink.end(linesOf(linePairs(this.answer.body.rawTrailers)));
    else sink.reset();
    return passed;
  }

  async #disturbEvents(): Promise<AnswerEnd> {
    const sink = this.exchange.open(this, null);
    this.exchange.beginWithHead(disturbedHead(this.#facts, null, !this.exchange.keepAlive));
    const events = new PassingEvents();
    const passed = await this.#read(sink, (part) => {
      for (const event of events.push(part)) sink.write(withLineFeeds(event));
    });
    const rest = events.end();
    if (rest !== "") sink.write(withLineFeeds(rest));
    if (passed === "whole") sink.end();
    else sink.reset();
    return passed;
  }

  /** Collects an answer without events, so that the plan gets its bytes in one piece. */
  async #disturbWhole(): Promise<AnswerEnd> {
    const exchange = this.exchange;
    const parts: Uint8Array[] = [];
    let bytes = 0;
    const isFull = () => bytes > WHOLE_MOST;
    const take = (part: Uint8Array) => {
      parts.push(part);
      bytes += part.length;
    };
    const passed = await this.#read({ full: false }, take, isFull);
    if (isFull()) {
      exchange.spare();
      return this.#forward(parts);
    }
    if (passed === "whole") {
      exchange.answerWithHead(disturbedHead(this.#facts, bytes, !exchange.keepAlive), Buffer.concat(parts));
      return passed;
    }
    const sink = exchange.open(this, null);
    exchange.beginWithHead(disturbedHead(this.#facts, null, !exchange.keepAlive));
    sink.writeParts(Buffer.concat(parts), NOTHING, NOTHING);
    sink.reset();
    return passed;
  }

  /** Reads the body until it ends or `isEnough` returns true. Waits for a slow client. */
  async #read(
    sink: { readonly full: boolean },
    take: (part: Uint8Array) => void,
    isEnough = () => false,
  ): Promise<AnswerEnd> {
    try {
      while (!isEnough()) {
        const { done, value } = await this.#parts.next();
        if (done === true || this.#isLeft) break;
        this.onPart(value);
        take(value);
        if (sink.full && !this.#isLeft) await this.#room();
      }
    } catch {
      return this.#isLeft ? "left" : "broken";
    }
    return this.#isLeft ? "left" : "whole";
  }

  get #isLeft(): boolean {
    return this.#left || this.exchange.request.signal.aborted;
  }

  #room(): Promise<void> {
    return new Promise((resolve) => {
      this.#drained = resolve;
    });
  }
}

/** Reports whether the answer is an event stream without content coding, which the proxy can read. */
function isEventStream({ fields }: UpstreamAnswer): boolean {
  const coding = firstValue(fields, "content-encoding") ?? "identity";
  return coding === "identity" && /^text\/event-stream/i.test(firstValue(fields, "content-type") ?? "");
}
