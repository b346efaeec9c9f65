/**
 * Ends answers that repeat themselves, for requests with `repetition_detection`. vLLM 0.33: `check_stop` and
 * `check_sequence_repetition` of `v1/core/sched/utils.py`.
 */
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import type { Repetition } from "../request/request.ts";

/**
 * Returns the number of ids at which a pattern first completes after index `from`, or null. `ended`: the last id ended the
 * answer in another way, so that no pattern may complete with it.
 */
function repeatedAfter(ids: readonly number[], from: number, repetition: Repetition, ended: boolean): number | null {
  const until = ids.length - Number(ended);
  for (let length = Math.max(from + 1, repetition.minTokens); length <= until; length++)
    if (repeats(ids, length, repetition)) return length;
  return null;
}

/** Reports whether the first `length` ids end with a pattern that repeats often enough. */
function repeats(ids: readonly number[], length: number, { minPattern, maxPattern, minCount }: Repetition): boolean {
  for (let pattern = Math.max(1, minPattern); pattern <= maxPattern; pattern++) {
    const from = length - pattern * minCount;
    if (from < 0) return false;
    let same = true;
    for (let i = from + pattern; i < length && same; i++) same = ids[i] === ids[i - pattern];
    if (same) return true;
  }
  return false;
}

/** Keeps the tokens of a choice so far, and finds repetition in them. */
export class OutputTokens {
  readonly ids: number[] = [];

  /** `repetition` null: repetition is not looked for. */
  constructor(private readonly repetition: Repetition | null) {}

  /** Adds an output. Returns the number of ids at which a pattern completes, or null. `ended`: the answer ends with it. */
  add(ids: Int32Array, at: number, count: number, ended: boolean): number | null {
    const from = this.ids.length;
    for (let i = at; i < at + count; i++) this.ids.push(ids[i]!);
    return this.repetition && repeatedAfter(this.ids, from, this.repetition, ended);
  }
}

type WatchedChoice = Receiver & { readonly submission: Submission | null };

/** Stands between the engine and a choice, and ends the choice if it repeats itself. */
export class RepetitionWatch extends ReceiverBefore {
  readonly #choice: WatchedChoice;
  readonly #tokens: OutputTokens;
  #over = false;

  constructor(choice: WatchedChoice, repetition: Repetition) {
    super(choice);
    this.#choice = choice;
    this.#tokens = new OutputTokens(repetition);
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.#over) return;
    const from = this.#tokens.ids.length;
    const repeated = this.#tokens.add(ids, at, count, finish !== null);
    this.#over = finish !== null || repeated !== null;
    if (repeated === null) {
      this.next.onTokens(ids, at, count, finish, stopTokenId);
      return;
    }
    this.next.onTokens(ids, at, repeated - from, Finish.Repetition, -1);
    this.#choice.submission?.finish(Finish.Repetition, repeated);
  }
}
