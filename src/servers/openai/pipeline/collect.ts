/** Collects an answer that is not streamed. Its choices keep their tokens until all have ended, then the form writes the body. */
import { Finish, type Outcome } from "../../../engine/interface/types.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { Logprobs } from "../request/logprobs.ts";
import type { Message } from "../tool-calls/output.ts";
import { AnswerChoice, cancelChoices } from "./choice.ts";
import { type AnswerContext, answerParser, engineError, logprobsOf, outcomeOf } from "./context.ts";
import type { WholeChoice } from "./form.ts";
import { type LongBody, LongTexts } from "./long-body.ts";
import { logAborted } from "./request-log.ts";

/** The body of an answer, an object that generates a long body, or an error. null: the client disconnected. */
export type WholeAnswer = string | LongBody | ErrorAnswer | null;

/** Receives an answer that is not streamed. */
export interface WholeAnswerListener {
  /** Called once, when all choices have ended or the client has disconnected. Runs in a microtask, after the engine's step. */
  collected(answer: CollectedAnswer, body: WholeAnswer): void;
}

/** Answers that are complete or failed, and whose listeners the next microtask will call. */
const settled: CollectedAnswer[] = [];

function notifySettled(): void {
  let notified = 0;
  try {
    // A listener may settle further answers, so the length is read again each time.
    while (notified < settled.length) settled[notified++]!.notify();
  } finally {
    if (notified < settled.length) {
      // A listener threw. The other listeners are called by another microtask.
      settled.splice(0, notified);
      queueMicrotask(notifySettled);
    } else settled.length = 0;
  }
}

/** Collects the choices of a request until all have ended. */
export class CollectedAnswer {
  readonly context: AnswerContext;
  readonly choices: readonly CollectedChoice[];
  readonly #listener: WholeAnswerListener;
  #body: WholeAnswer = null;
  #running: number;
  #settled = false;

  constructor(context: AnswerContext, listener: WholeAnswerListener) {
    this.context = context;
    this.#listener = listener;
    this.#running = context.prompts.length * context.output.n;
    const choices: CollectedChoice[] = [];
    for (let index = 0; index < this.#running; index++) choices.push(new CollectedChoice(this, index));
    this.choices = choices;
  }

  choiceDone(choice: CollectedChoice): void {
    this.#running--;
    if (this.#settled) return;
    if (choice.finish === Finish.Error) {
      this.#settle(engineError(this.context.server), "error");
    } else if (this.#running === 0) {
      const long = new LongTexts();
      const body = long.in(this.context.form.whole(this.choices, long));
      // Only the truth log of an observed engine needs the bytes.
      if (typeof body === "string" && choice.submission?.timeline) choice.bytes = Buffer.byteLength(body);
      const only = this.choices.length === 1;
      this.#settle(body, outcomeOf(only ? [choice.finish!] : this.choices.map(({ finish }) => finish!)));
    }
  }

  /** Makes this object a listener of an `AbortSignal`, which is aborted when the client disconnects. */
  handleEvent(): void {
    this.gone();
  }

  /** Ends the answer because its client disconnected. */
  gone(): void {
    if (this.#settled) return;
    const { n } = this.context.output;
    this.context.form.dropped?.();
    logAborted(this.context, (i) => this.choices.slice(i * n, (i + 1) * n).some(({ finish }) => finish === null));
    this.#settle(null, "abort");
  }

  /** Ends the answer with an error, because a choice failed. */
  fail(): void {
    if (!this.#settled) this.#settle(engineError(this.context.server), "error");
  }

  /** Ends the answer with an error, because its time limit has passed. */
  expire(): void {
    if (!this.#settled) this.#settle(this.context.server.timedOut, "error");
  }

  #settle(answer: WholeAnswer, outcome: Outcome): void {
    this.#settled = true;
    if (this.#running > 0) cancelChoices(this.choices, this.context.server);
    this.context.ticket.settle(outcome);
    this.#body = answer;
    if (settled.push(this) === 1) queueMicrotask(notifySettled);
  }

  /** Calls the listener. Only for `notifySettled`. */
  notify(): void {
    const body = this.#body;
    this.#body = null;
    this.#listener.collected(this, body);
  }
}

class CollectedChoice extends AnswerChoice implements WholeChoice {
  readonly gathers: boolean;
  readonly #answer: CollectedAnswer;

  constructor(answer: CollectedAnswer, index: number) {
    super(answer.context, index);
    this.gathers = this.times === null && answer.context.truthUs === null;
    this.#answer = answer;
  }

  get ids(): readonly number[] {
    return this.text.ids;
  }

  logprobs(): Logprobs | null {
    return logprobsOf(this.context, this.index);
  }

  message(): Message {
    this.parser = answerParser(this.context, this.index);
    if (this.parser === null) return { content: this.text.take(this.finish), reasoning: null, calls: [] };
    const { ids } = this;
    return this.parser.extract(this.text.take(this.finish), ids);
  }

  broken(): void {
    this.finish ??= Finish.Error;
    this.#answer.fail();
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.finish !== null) return;
    const { server, output } = this.context;
    this.times?.record(server.backend.nowUs());
    // vLLM's beam search reports the end-of-sequence id as a stop id.
    const named = output.beam && finish === Finish.Stop && stopTokenId < 0 ? server.vocabulary.eosId : stopTokenId;
    this.take(ids, at, count, finish, named);
    if (this.finish !== null) this.#answer.choiceDone(this);
  }
}
