/**
 * Decides when a stream sends events. While the client is slow, tokens wait as ids and are then sent as one piece, like in
 * vLLM 0.33 (`v1/engine/output_processor.py`). The form decides what the events look like.
 */

import { logUnexpected } from "../../../base/unexpected.ts";
import type { Lane } from "../../../engine/interface/lanes.ts";
import { Finish, type Submission } from "../../../engine/interface/types.ts";
import type { EventSink, SinkEvents } from "../../../wire/http/sink.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { Logprobs } from "../request/logprobs.ts";
import { AnswerChoice, cancelChoices } from "./choice.ts";
import { type AnswerContext, answerParser, engineError, logprobsOf, outcomeOf } from "./context.ts";
import type { Piece } from "./form.ts";
import { logAborted } from "./request-log.ts";
import { watchSilence } from "./silence.ts";
import { truthComment, truthSummary } from "./truth-summary.ts";
import { EVENTS_PER_TURN, shareEnd } from "./turn-shares.ts";
import { UNSENT_ID_BYTES } from "./unsent-ids.ts";

const NOTHING = new Uint8Array();

/** A stream, through which its choices write. Set the sink and the submission of each choice, then call `accepted`. */
export class StreamedAnswer implements SinkEvents {
  readonly choices: StreamedChoice[] = [];
  sink!: EventSink;
  #opened = false;
  /** True while a long opening (see `open`) is written over several turns. `#failing`: the error to write after it, if any. */
  #opening = false;
  #failing: (() => void) | null = null;
  #running: number;
  /** Set while a long event is written in parts: writes the next part. No other event may be written meanwhile. */
  #writing: (() => void) | null = null;
  /** True while choices send waiting tokens over several turns. `#drainsAgain`: they start over, as the client became ready. */
  #drains = false;
  #drainsAgain = false;
  /** True if the stream is complete or broken off, or its client disconnected. */
  #over = false;

  constructor(readonly context: AnswerContext) {
    this.#running = context.prompts.length * context.output.n;
    while (this.choices.length < this.#running) this.choices.push(new StreamedChoice(this, this.choices.length));
    const { form, server } = context;
    const { keepAliveS = 0 } = server.answers;
    if (keepAliveS > 0 && form.keepAlive) watchSilence(this, server, keepAliveS, form.keepAlive);
  }

  /** Writes the events that are sent as soon as the engine has accepted the request. */
  accepted(): void {
    this.choices[0]!.write(this.context.form.accepted(this.context));
  }

  /** Writes the opening, which is the events before the first output of any choice. Later calls do nothing. */
  open(): void {
    if (this.#opened) return;
    this.#opened = true;
    const events = this.context.form.opening?.(this.choices) ?? [];
    if (shareEnd(events, 0) >= events.length) {
      this.#writeOpening(events, 0);
      return;
    }
    this.#opening = true;
    this.#inTurns(this.#openingParts(events), () => {
      this.#opening = false;
      this.#failing?.();
    });
  }

  *#openingParts(events: readonly string[]): Generator<void, void> {
    for (let from = 0, to = 0; from < events.length; from = to) {
      to = shareEnd(events, from);
      this.#writeOpening(events.slice(from, to), from);
      yield;
    }
  }

  #writeOpening(events: readonly string[], from: number): void {
    const { choices } = this;
    for (const [i, event] of events.entries()) choices[(from + i) % choices.length]!.write([event]);
  }

  /** True if no event can be written now. */
  get busy(): boolean {
    return this.#writing !== null || this.sink.full;
  }

  /** Writes the parts of a long event as the client reads, each in its own turn of the event loop. Then calls `done`. */
  writeLong(parts: Iterator<string, void>, choice: StreamedChoice, done: () => void): void {
    this.#inTurns(this.#written(parts, choice), done);
  }

  *#written(parts: Iterator<string, void>, choice: StreamedChoice): Generator<void, void> {
    const { consumed } = this.context.server.backend;
    for (let next = parts.next(); !next.done; next = parts.next()) {
      if (next.value !== "") choice.write([next.value]);
      // The text is garbage twice: after it was generated, and after it was sent. Whole answers count it twice, too.
      consumed(2 * next.value.length);
      yield;
    }
  }

  /** Advances `writing` whenever the client is ready, once per turn of the event loop. Then calls `done`. */
  #inTurns(writing: Iterator<void, void>, done: () => void): void {
    const { after } = this.context.server.backend;
    let hasTurn = false;
    const go = (): void => {
      hasTurn = false;
      this.#attempt(write);
    };
    const write = (): void => {
      if (hasTurn || this.#over || this.sink.full) return;
      if (writing.next().done) {
        this.#writing = null;
        done();
        this.onDrain();
        return;
      }
      hasTurn = true;
      if (after === undefined) go();
      else after(0, go);
    };
    this.#writing = write;
    write();
  }

  /** Called when a choice has sent its last piece. Ends the stream after the last choice. */
  choiceDone(last: StreamedChoice): void {
    if (--this.#running > 0) return;
    const { form } = this.context;
    const long = form.longEnd?.(this.choices) ?? null;
    if (long !== null) this.writeLong(long, last, () => this.#end(last, []));
    else this.#end(last, [...form.ended(this.choices)]);
  }

  /** Writes the last events and ends the stream. */
  #end(last: StreamedChoice, events: string[]): void {
    const { truthUs, ticket } = this.context;
    const truth = truthUs ? truthSummary(this.choices, truthUs) : null;
    if (truth !== null) events.push((events.pop() ?? "") + truthComment(truth));
    last.write(events);
    this.#over = true;
    ticket.settle(outcomeOf(this.choices.map(({ finish }) => finish!)));
    this.sink.end();
  }

  /** Fails the stream because one choice failed. Cancels the other choices. */
  fail(failed: StreamedChoice, error: ErrorAnswer): void {
    if (this.#opening) {
      // The error must follow the whole opening, as it does after a short one.
      this.#failing = () => this.fail(failed, error);
      cancelChoices(this.choices, this.context.server);
      return;
    }
    this.#cancelChoices();
    const { form, ticket } = this.context;
    const events = this.#writing === null ? form.failed(error) : null;
    if (events !== null) failed.write(events);
    ticket.settle("error");
    if (events === null) this.sink.reset();
    else this.sink.end();
    form.dropped?.();
  }

  /** Ends the stream after its time limit: with an error, or by breaking it off if an error cannot be written now. */
  expire(): void {
    if (this.#over) return;
    const { choices, context } = this;
    const running = choices.find(({ done }) => !done);
    if (running !== undefined && !this.busy) this.fail(running, context.server.timedOut);
    else this.breakOff();
  }

  /** Ends the stream abruptly, so that its client cannot mistake it for complete. */
  breakOff(): void {
    if (this.#over) return;
    this.#cancelChoices();
    this.context.ticket.settle("error");
    this.sink.reset();
    this.context.form.dropped?.();
  }

  /** Runs a callback of the event loop. Breaks the stream off if it throws, because nothing would continue the stream. */
  #attempt(act: () => void): void {
    try {
      act();
    } catch (error) {
      logUnexpected("a stream failed and is broken off", error);
      this.breakOff();
    }
  }

  /** Ends the stream early, because another request cancelled it. */
  cancel(): void {
    if (this.#over) return;
    this.onGone();
    this.sink.end();
  }

  onDrain(): void {
    this.#writing?.();
    if (this.#drains) this.#drainsAgain = true;
    else this.#drain(0);
  }

  /** Sends the waiting tokens of the choices from index `from` on. Continues with many choices in further turns. */
  #drain(from: number): void {
    const { after } = this.context.server.backend;
    const until = after === undefined ? this.choices.length : Math.min(from + EVENTS_PER_TURN, this.choices.length);
    for (let at = from; at < until && !this.busy; at++) this.choices[at]!.send();
    this.#drains = until < this.choices.length && !this.busy && !this.#over;
    if (this.#drains) after!(0, () => this.#attempt(() => this.#drain(until)));
    else if (this.#drainsAgain) {
      this.#drainsAgain = false;
      this.#drain(0);
    }
  }

  onGone(): void {
    const { output, form, ticket } = this.context;
    const { n } = output;
    logAborted(this.context, (i) => this.choices.slice(i * n, (i + 1) * n).some(({ done }) => !done));
    this.#cancelChoices();
    form.dropped?.();
    // A choice that the engine had already ended counts with that end.
    ticket.settle(outcomeOf(this.choices.map(({ finish }) => finish!)));
  }

  onFailed(): void {
    this.#cancelChoices();
    this.context.form.dropped?.();
    this.context.ticket.settle("error");
  }

  #cancelChoices(): void {
    this.#over = true;
    cancelChoices(this.choices, this.context.server);
  }
}

/** One choice of a stream. */
class StreamedChoice extends AnswerChoice {
  readonly streams = true;
  /** True if its last piece was sent or it was cancelled. */
  done = false;
  readonly #answer: StreamedAnswer;
  readonly #logprobs: Logprobs | null;
  /** True if each token can be shown by itself as plain text. */
  readonly #plain: boolean;
  /** Bytes before and after the text of a plain token. null until the form returns them. */
  #prefix: Uint8Array | null = null;
  #suffix: Uint8Array = NOTHING;
  #frameBytes = 0;
  #showsEmpty = true;
  /** Lane on which native code sends plain tokens without a call of `onTokens`. */
  #lane: Lane | null = null;
  /** Number of tokens in the pieces so far. */
  #tokensSent = 0;
  /** Bytes of the ids that wait for a slow client, as last reported to the server. */
  #bytesHeld = 0;

  constructor(answer: StreamedAnswer, index: number) {
    const { context } = answer;
    super(context, index);
    this.#answer = answer;
    this.parser = answerParser(context, index);
    this.#logprobs = logprobsOf(context, index);
    const { streamInterval, text } = context.output;
    this.#plain = this.parser === null && this.#logprobs === null && streamInterval === 1 && text.stop.length === 0;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const { text } = this;
    if (this.times !== null) this.times.record(this.context.server.backend.nowUs());
    // The hot path: a single token that is shown as plain text, and the client is not slow.
    if (this.#prefix !== null && count === 1 && finish === null && !this.#answer.busy && text.idle) {
      const piece = text.plain(ids[at]!);
      if (piece !== undefined) {
        text.tokens++;
        if (piece.length === 0 && !this.#showsEmpty) return;
        this.bytes += this.#frameBytes + piece.length;
        this.#answer.sink.writeParts(this.#prefix, piece, this.#suffix);
        // The lanes share texts between requests. Some requests show special tokens, others do not.
        if (this.#lane !== null)
          this.#lane.goOn(ids[at]!, this.context.server.vocabulary.isSpecial(ids[at]!) ? NOTHING : piece);
        return;
      }
    }
    if (this.finish !== null || !this.take(ids, at, count, finish, stopTokenId)) return;
    if (this.failed) this.#fail();
    else this.send();
  }

  broken(): void {
    this.finish ??= Finish.Error;
    this.#answer.breakOff();
  }

  went(tokens: number, bytes: number): void {
    this.text.tokens += tokens;
    this.bytes += bytes;
  }

  /** Sends the waiting tokens, unless the client is slow or the stream interval not reached. Makes one write of all events. */
  send(): void {
    if (this.done || (this.finish === null && this.text.waiting === 0)) return;
    const { sink } = this.#answer;
    sink.gather?.();
    try {
      this.#send();
    } finally {
      sink.release?.();
    }
  }

  #send(): void {
    const { form, output } = this.context;
    this.#answer.open();
    // A plan of faults may have ended the stream during its opening.
    if (this.done) return;
    if (this.#answer.busy) {
      this.#hold(this.text.waiting * UNSENT_ID_BYTES);
      return;
    }
    const waiting = this.text.tokens - this.#tokensSent;
    if (this.finish === null && this.#tokensSent > 0 && waiting < output.streamInterval) return;
    // An answer without tokens has no piece, unless its finish reason is not one of the engine's.
    if (this.text.tokens > 0 || this.named !== null) {
      const piece = this.#piece();
      const long = form.longPiece?.(piece) ?? null;
      if (long !== null) {
        this.#tokensSent = this.text.tokens;
        const ended = this.finish !== null;
        this.#answer.writeLong(long, this, () => this.#sent(ended));
        return;
      }
      this.write(form.piece(piece));
    }
    this.#tokensSent = this.text.tokens;
    this.#sent(this.finish !== null);
  }

  #sent(ended: boolean): void {
    if (this.#bytesHeld > 0) this.#hold(0);
    if (ended) {
      this.done = true;
      this.#answer.choiceDone(this);
    } else if (this.#prefix === null && this.#plain) this.#frame();
  }

  write(events: readonly string[]): void {
    for (const event of events) {
      this.bytes += Buffer.byteLength(event);
      this.#answer.sink.write(event);
    }
  }

  override leave(): Submission | null {
    if (this.#bytesHeld > 0) this.#hold(0);
    this.done = true;
    this.#prefix = null;
    return super.leave();
  }

  /** Fails the stream because the engine failed the choice. A live engine's error may come after the stream's opening. */
  #fail(): void {
    const { form, server } = this.context;
    this.done = true;
    if (form.opensBeforeError && server.alive.get()) this.#answer.open();
    this.#answer.fail(this, engineError(server));
  }

  #piece(): Piece {
    const { ids } = this.text;
    const text = this.text.take(this.finish);
    const delta =
      this.parser === null ? { content: text, calls: [] } : this.parser.push(text, ids, this.finish !== null);
    if (delta?.calls.length) this.called = true;
    return { choice: this, delta, ids, from: this.#tokensSent, logprobs: this.#logprobs };
  }

  #frame(): void {
    const frame = this.context.form.frame?.(this.index);
    if (!frame) return;
    this.#prefix = frame.prefix;
    this.#suffix = frame.suffix;
    this.#frameBytes = frame.prefix.length + frame.suffix.length;
    this.#showsEmpty = frame.showsEmpty;
    const { laneEnd } = this.#answer.sink;
    // An answer that shows its times needs a call for each token.
    if (laneEnd && this.times === null)
      this.#lane = this.submission?.lane?.(this, laneEnd, frame.prefix, frame.suffix) ?? null;
  }

  #hold(bytes: number): void {
    this.context.server.waiting?.held(bytes - this.#bytesHeld);
    this.#bytesHeld = bytes;
  }
}
