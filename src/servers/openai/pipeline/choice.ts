/** One choice of an answer: its tokens, text, end and times. Streams and whole (not streamed) answers share this code. */
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { Detokenizer } from "../../../text/tokens/detokenizer.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { TextOptions } from "../request/output-options.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import type { AnswerParser } from "../tool-calls/answer-parser.ts";
import { type AnswerContext, timesOf } from "./context.ts";
import type { ChoiceSoFar } from "./form.ts";
import type { OutputTimes } from "./request-metrics.ts";
import { StopStrings } from "./stop-strings.ts";
import type { TruthTimes } from "./truth-summary.ts";
import { UnsentIds } from "./unsent-ids.ts";

/** Receives the outputs of one generation. Subclasses decide when its text is sent. */
export abstract class AnswerChoice implements Receiver, ChoiceSoFar {
  readonly index: number;
  submission: Submission | null = null;
  finish: Finish | null = null;
  named: string | null = null;
  stop: string | number | null = null;
  called = false;
  /** Bytes written for this choice. The last choice also counts the bytes that end the answer. */
  bytes = 0;
  /** Times at which its tokens were due and written. null unless the answer reports them. */
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

  /** True if the engine failed the generation. */
  protected get failed(): boolean {
    return this.finish === Finish.Error;
  }

  abstract onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void;

  /** Adds an output of the engine. A complete stop string ends the choice. Returns true if it has new tokens or has ended. */
  protected take(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): boolean {
    const stop = this.text.accept(ids, at, count, finish);
    if (stop !== null && finish === null) this.submission?.finish(Finish.Stop, this.text.tokens);
    this.finish = stop !== null ? Finish.Stop : finish;
    if (this.finish === null) return count > 0;
    this.stop = stop ?? (stopTokenId >= 0 ? stopTokenId : null);
    return true;
  }

  /** Sets a finish reason that the engine does not have. Ignored if the API's answers cannot show it. */
  nameEnd(name: string): void {
    if (this.context.form.namesEnds) this.named = name;
  }

  /** Ends the choice for its client. Returns the generation that is still to be cancelled, or null if it has ended. */
  leave(): Submission | null {
    if (this.finish !== null) return null;
    this.finish = Finish.Abort;
    return this.submission;
  }
}

/** Largest number of generations cancelled in one turn of the event loop. */
const CANCELLATIONS_PER_TURN = 256;

/** Cancels the choices that still run, which then receive nothing more. Cancels many over several turns of the event loop. */
export function cancelChoices(
  choices: readonly AnswerChoice[],
  { backend: { after } }: Pick<ServerTraits, "backend">,
): void {
  const running = choices.flatMap((choice) => choice.leave() ?? []);
  const cancel = (from: number): void => {
    const until = after === undefined ? running.length : Math.min(from + CANCELLATIONS_PER_TURN, running.length);
    for (let at = from; at < until; at++) running[at]!.cancel();
    if (until < running.length) after!(0, () => cancel(until));
  };
  cancel(0);
}

const EMPTY = new Uint8Array();

/**
 * Converts the tokens of one choice to text and finds the stop string that ends it, like `v1/engine/detokenizer.py` of vLLM
 * 0.33. Without stop strings, tokens are kept as ids until they are sent, because ids need less memory while a client is slow.
 */
export class AnswerText {
  /** Number of output tokens so far. */
  tokens = 0;
  readonly #unsent = new UnsentIds();
  readonly #vocabulary: Vocabulary;
  readonly #skipSpecial: boolean;
  readonly #showStop: boolean;
  readonly #stops: StopStrings | null;
  /** Created for the first token that ends inside a code point. Most answers have no such token. */
  #detokenizer: Detokenizer | null = null;

  constructor(vocabulary: Vocabulary, options: TextOptions) {
    this.#vocabulary = vocabulary;
    this.#skipSpecial = options.skipSpecialTokens;
    this.#showStop = options.includeStopStrInOutput;
    this.#stops =
      options.stop.length > 0 ? new StopStrings(options.stop, options.includeStopStrInOutput, options.minTokens) : null;
  }

  /** A copy of the ids since the last `take`. */
  get ids(): readonly number[] {
    return this.#unsent.toArray();
  }

  /** Number of ids since the last `take`. */
  get waiting(): number {
    return this.#unsent.length;
  }

  /** True if no token waits to be sent and the next token's text depends only on that token. */
  get idle(): boolean {
    return this.#unsent.length === 0 && this.#stops === null && (this.#detokenizer === null || this.#detokenizer.idle);
  }

  /**
   * Returns the text of the next token as UTF-8. Call it only if `idle`. Returns undefined if the token must go through
   * `accept`.
   */
  plain(id: number, escaped = true): Uint8Array | undefined {
    if (this.#skipSpecial && this.#vocabulary.isSpecial(id)) return EMPTY;
    return escaped ? this.#vocabulary.escapedBytes(id) : this.#vocabulary.pieceBytes(id);
  }

  /** Adds the tokens of one step, with the engine's `finish`. Returns the stop string that ended the answer, or null. */
  accept(ids: Int32Array, at: number, count: number, finish: Finish | null): string | null {
    for (let i = at; i < at + count; i++) this.#unsent.push(ids[i]!);
    const before = this.tokens;
    this.tokens += count;
    if (this.#stops === null || count === 0) return null;
    const skipped = finish === Finish.Stop && !this.#showStop ? 1 : 0;
    const pieces: string[] = [];
    for (let i = at; i < at + count - skipped; i++) pieces.push(this.#decode(ids[i]!));
    const stop = this.#stops.push(pieces, before, skipped);
    if (stop === null) return null;
    // Forget the tokens of this step that follow the one that completed the stop string.
    const surplus = count - this.#stops.kept;
    this.#unsent.drop(surplus);
    this.tokens -= surplus;
    return stop;
  }

  /** Returns the text that may be sent now, and forgets its ids. `finish`: null while the answer runs. */
  take(finish: Finish | null): string {
    let text = "";
    if (this.#stops !== null) {
      text = this.#stops.take(finish !== null);
    } else {
      const count = this.#unsent.length - (finish === Finish.Stop && !this.#showStop ? 1 : 0);
      for (let i = 0; i < count; i++) text += this.#decode(this.#unsent.at(i));
    }
    this.#unsent.clear();
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
