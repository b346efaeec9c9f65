/** One choice of an answer: its text, its end, its times. Alike for streams and for answers in one piece. */
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { Detokenizer } from "../../../text/tokens/detokenizer.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { TextOptions } from "../request/output-options.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import type { AnswerParser } from "../tool-calls/answer-parser.ts";
import { type AnswerContext, timesOf } from "./context.ts";
import type { ChoiceSoFar } from "./form.ts";
import { HeldIds } from "./held-ids.ts";
import type { OutputTimes } from "./request-metrics.ts";
import { StopStrings } from "./stop-strings.ts";
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

const EMPTY = new Uint8Array();

/**
 * The text of the tokens of one choice, and the stop string on which it ends. vLLM 0.33: `v1/engine/detokenizer.py`. Without
 * stop strings tokens stay ids until they are sent, so that the text that waits for a slow client is small.
 */
export class AnswerText {
  /** Output tokens so far. */
  tokens = 0;
  readonly #held = new HeldIds();
  readonly #vocabulary: Vocabulary;
  readonly #skipSpecial: boolean;
  readonly #showStop: boolean;
  readonly #stops: StopStrings | null;
  /** Made when a token leaves a code point open; most answers never do. */
  #detokenizer: Detokenizer | null = null;

  constructor(vocabulary: Vocabulary, options: TextOptions) {
    this.#vocabulary = vocabulary;
    this.#skipSpecial = options.skipSpecialTokens;
    this.#showStop = options.includeStopStrInOutput;
    this.#stops =
      options.stop.length > 0 ? new StopStrings(options.stop, options.includeStopStrInOutput, options.minTokens) : null;
  }

  /** Tokens since the last `take`; a copy. */
  get ids(): readonly number[] {
    return this.#held.toArray();
  }

  /** How many these are. */
  get waiting(): number {
    return this.#held.length;
  }

  /** Nothing waits, and the next token's text depends on that token alone. */
  get idle(): boolean {
    return this.#held.length === 0 && this.#stops === null && (this.#detokenizer === null || this.#detokenizer.idle);
  }

  /** The text of a token when `idle`, as UTF-8, escaped for JSON or not; undefined: it needs `accept`. */
  plain(id: number, escaped = true): Uint8Array | undefined {
    if (this.#skipSpecial && this.#vocabulary.isSpecial(id)) return EMPTY;
    return escaped ? this.#vocabulary.escapedBytes(id) : this.#vocabulary.pieceBytes(id);
  }

  /** Takes the tokens of one step; `finish` as the engine says. Returns the stop string that ended the answer, or null. */
  accept(ids: Int32Array, at: number, count: number, finish: Finish | null): string | null {
    for (let i = at; i < at + count; i++) this.#held.push(ids[i]!);
    const before = this.tokens;
    this.tokens += count;
    if (this.#stops === null || count === 0) return null;
    const skipped = finish === Finish.Stop && !this.#showStop ? 1 : 0;
    const pieces: string[] = [];
    for (let i = at; i < at + count - skipped; i++) pieces.push(this.#decode(ids[i]!));
    const stop = this.#stops.push(pieces, before, skipped);
    if (stop === null) return null;
    // Tokens of the same step after the one that completed it are as if they had not come.
    const surplus = count - this.#stops.kept;
    this.#held.drop(surplus);
    this.tokens -= surplus;
    return stop;
  }

  /** The text that may be sent now. `finish`: how the answer ended, null while it runs. None waits then. */
  take(finish: Finish | null): string {
    let text = "";
    if (this.#stops !== null) {
      text = this.#stops.take(finish !== null);
    } else {
      const count = this.#held.length - (finish === Finish.Stop && !this.#showStop ? 1 : 0);
      for (let i = 0; i < count; i++) text += this.#decode(this.#held.at(i));
    }
    this.#held.clear();
    return text;
  }

  #decode(id: number): string {
    if (this.#detokenizer === null) {
      if (this.#skipSpecial && this.#vocabulary.isSpecial(id)) return "";
      const piece = this.#vocabulary.piece(id);
      if (piece !== undefined) return piece;
      this.#detokenizer = new Detokenizer(this.#vocabulary, this.#skipSpecial);
    }
    return this.#detokenizer.push(id);
  }
}
