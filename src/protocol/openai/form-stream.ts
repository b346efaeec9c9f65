/**
 * How does a stream in another dialect's form run? One choice: its outputs become deltas as chat's do, and events of the
 * form; while the client is slow, tokens wait as ids and leave as one piece.
 */
import { Finish, type Submission } from "../../engine/types.ts";
import type { AnswerParser } from "../answer-parser.ts";
import type { Form } from "../form.ts";
import type { ErrorAnswer } from "../request.ts";
import type { EventSink, SinkEvents } from "../sink.ts";
import { type Asked, answerParser, endingOf, engineError, logprobsOf, outcomeOf, timesOf } from "./answer.ts";
import { AnswerText } from "./answer-text.ts";
import { ID_BYTES } from "./held-ids.ts";
import type { Logprobs } from "./logprobs.ts";
import { hidesTokens } from "./output-options.ts";
import { logAborted } from "./request-log.ts";
import { summary, type ToldChoice, truthComment } from "./truth-summary.ts";

/** Give it the sink, then the submission. */
export class FormStream implements ToldChoice, SinkEvents {
  readonly streams = true;
  readonly asked: Asked;
  readonly choices: readonly [FormStream] = [this];
  sink!: EventSink;
  submission: Submission | null = null;
  /** Of the events that were written. */
  bytes = 0;
  truth: ToldChoice["truth"] = null;
  readonly #form: Form;
  readonly #text: AnswerText;
  readonly #parser: AnswerParser | null;
  readonly #logprobs: Logprobs | null;
  readonly #times: ReturnType<typeof timesOf>;
  #began = false;
  finish: Finish | null = null;
  #stop: string | number | null = null;
  #done = false;
  /** Tokens in pieces so far. */
  #tokensSent = 0;
  #bytesHeld = 0;

  constructor(asked: Asked, form: Form) {
    this.asked = asked;
    this.#form = form;
    this.#text = new AnswerText(asked.server.vocabulary, asked.wishes.text);
    this.#parser = answerParser(asked, 0);
    this.#logprobs = hidesTokens(asked.wishes) ? null : logprobsOf(asked, 0);
    this.#times = timesOf(asked);
  }

  get tokens(): number {
    return this.#text.tokens;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.finish !== null) return;
    this.#times?.came(this.asked.server.clockUs!());
    const stop = this.#text.accept(ids, at, count, finish);
    if (stop !== null && finish === null) this.submission?.finish(Finish.Stop, this.#text.tokens);
    const ended = stop !== null ? Finish.Stop : finish;
    if (ended === Finish.Error) {
      this.finish = ended;
      this.#fail(engineError(this.asked.server));
      return;
    }
    if (ended !== null) {
      this.finish = ended;
      this.#stop = stop ?? (stopTokenId >= 0 ? stopTokenId : null);
    } else if (count === 0) return;
    this.#send();
  }

  /** Events of the form, each by itself. */
  write(events: readonly string[]): void {
    for (const event of events) {
      this.bytes += Buffer.byteLength(event);
      this.sink.write(event);
    }
  }

  /** Its time is over. */
  expire(): void {
    if (!this.#done) this.#fail(this.asked.server.timedOut);
  }

  onDrain(): void {
    if (!this.#done && (this.finish !== null || this.#text.waiting > 0)) this.#send();
  }

  /** Somebody wants it to end. */
  cancel(): void {
    if (this.#done) return;
    this.onGone();
    this.sink.end();
  }

  onGone(): void {
    logAborted(this.asked, () => !this.#done);
    this.#drop();
    this.#form.dropped();
    this.asked.ticket.settle(outcomeOf([this.finish ?? Finish.Abort]));
  }

  #send(): void {
    if (this.sink.full) {
      this.#hold(this.#text.waiting * ID_BYTES);
      return;
    }
    const { streamInterval } = this.asked.wishes;
    const ended = this.finish !== null;
    if (!ended && this.#tokensSent > 0 && this.#text.tokens - this.#tokensSent < streamInterval) return;
    if (!this.#began) {
      this.#began = true;
      this.write(this.#form.began());
    }
    if (this.#text.tokens > 0) this.#piece(ended);
    if (this.#bytesHeld > 0) this.#hold(0);
    if (!ended) return;
    this.#done = true;
    this.write(
      this.#form.ended(
        endingOf(this.asked, {
          finish: this.finish!,
          stop: this.#stop,
          tokens: this.#text.tokens,
          reasoningTokens: this.#parser?.reasoningTokens ?? null,
          submission: this.submission,
          times: this.#times,
        }),
      ),
    );
    const { truthUs } = this.asked;
    const truth = truthUs ? summary(this.choices, truthUs) : null;
    if (truth !== null) this.write([truthComment(truth)]);
    this.asked.ticket.settle(outcomeOf([this.finish!]));
    this.sink.end();
  }

  #piece(ended: boolean): void {
    const ids = this.#text.ids;
    const text = this.#text.take(this.finish);
    const delta = this.#parser === null ? { content: text, calls: [] } : this.#parser.push(text, ids, ended);
    const logprobs = this.#logprobs?.chat(ids, this.#tokensSent) ?? null;
    this.#tokensSent = this.#text.tokens;
    if (delta !== null) this.write(this.#form.piece(delta, logprobs));
  }

  #fail(error: ErrorAnswer): void {
    this.#drop();
    const events = this.sink.full ? null : this.#form.failed(error);
    this.asked.ticket.settle("error");
    if (events === null) this.sink.reset();
    else {
      this.write(events);
      this.sink.end();
    }
    this.#form.dropped();
  }

  #drop(): void {
    if (this.finish === null) this.submission?.cancel();
    if (this.#bytesHeld > 0) this.#hold(0);
    this.finish ??= Finish.Abort;
    this.#done = true;
  }

  #hold(bytes: number): void {
    this.asked.server.waiting?.held(bytes - this.#bytesHeld);
    this.#bytesHeld = bytes;
  }
}
