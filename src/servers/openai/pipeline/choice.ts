/** What becomes of one choice of an answer? Its text, its end, its times; alike for streams and for answers in one piece. */
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import type { AnswerParser } from "../tool-calls/answer-parser.ts";
import { type AnswerContext, timesOf } from "./context.ts";
import type { ChoiceSoFar } from "./form.ts";
import type { OutputTimes } from "./request-metrics.ts";
import { AnswerText } from "./text.ts";
import type { TruthTimes } from "./truth-summary.ts";

export abstract class AnswerChoice implements Receiver, ChoiceSoFar {
  readonly index: number;
  submission: Submission | null = null;
  finish: Finish | null = null;
  named: string | null = null;
  stop: string | number | null = null;
  called = false;
  /** Bytes that were written for it; the last choice also counts the answer's end. */
  bytes = 0;
  /** When its tokens were due and written, where the answer tells that. */
  truth: TruthTimes | null = null;
  readonly times: OutputTimes | null;
  protected readonly context: AnswerContext;
  protected readonly text: AnswerText;
  protected parser: AnswerParser | null = null;

  constructor(context: AnswerContext, index: number) {
    this.index = index;
    this.context = context;
    this.times = timesOf(context);
    this.text = new AnswerText(context.server.vocabulary, context.output.text);
  }

  get tokens(): number {
    return this.text.tokens;
  }

  get reasoningTokens(): number | null {
    return this.parser?.reasoningTokens ?? null;
  }

  /** The engine gave it up. */
  protected get failed(): boolean {
    return this.finish === Finish.Error;
  }

  abstract onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void;

  /** Takes one output of the engine, and ends where a stop string is complete. True: there are new tokens, or it has ended. */
  protected take(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): boolean {
    const stop = this.text.accept(ids, at, count, finish);
    if (stop !== null && finish === null) this.submission?.finish(Finish.Stop, this.text.tokens);
    this.finish = stop !== null ? Finish.Stop : finish;
    if (this.finish === null) return count > 0;
    this.stop = stop ?? (stopTokenId >= 0 ? stopTokenId : null);
    return true;
  }

  /** Gives its end a name that the engine does not have. */
  nameEnd(name: string): void {
    if (this.context.form.namesEnds) this.named = name;
  }

  /** Hears no more; what the engine still has of it, to be cancelled. */
  leave(): Submission | null {
    if (this.finish !== null) return null;
    this.finish = Finish.Abort;
    return this.submission;
  }
}

/** Most that are cancelled in one go. */
const CANCELLED_OF_A_TURN = 256;

/** Takes choices back from the engine, where they still run: none of them hears more, many are cancelled in several turns. */
export function takeBack(
  choices: readonly AnswerChoice[],
  { backend: { after } }: Pick<ServerTraits, "backend">,
): void {
  const running = choices.flatMap((choice) => choice.leave() ?? []);
  const cancel = (from: number): void => {
    const until = after === undefined ? running.length : Math.min(from + CANCELLED_OF_A_TURN, running.length);
    for (let at = from; at < until; at++) running[at]!.cancel();
    if (until < running.length) after!(0, () => cancel(until));
  };
  cancel(0);
}
