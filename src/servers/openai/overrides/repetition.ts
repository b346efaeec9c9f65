/** Does an answer repeat itself? `repetition_detection`: vLLM 0.33, `check_stop` and `check_sequence_repetition` of `v1/core/sched/utils.py`. */
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import type { Repetition } from "../request/request.ts";

/** How many ids there are when a pattern is complete, of those since `from`; null: none is. `ended`: the last one ended the answer in another way, which counts. */
function repeatedAfter(ids: readonly number[], from: number, repetition: Repetition, ended: boolean): number | null {
  const until = ids.length - Number(ended);
  for (let length = Math.max(from + 1, repetition.minTokens); length <= until; length++)
    if (repeats(ids, length, repetition)) return length;
  return null;
}

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

/** The tokens of a choice so far, and where they repeat themselves. */
export class SaidTokens {
  readonly ids: number[] = [];
  readonly #repetition: Repetition | null;

  /** `repetition` null: nobody looks for it. */
  constructor(repetition: Repetition | null) {
    this.#repetition = repetition;
  }

  /** Takes an output; how many ids there are when a pattern is complete, null: none is. */
  add(ids: Int32Array, at: number, count: number, ended: boolean): number | null {
    const from = this.ids.length;
    for (let i = at; i < at + count; i++) this.ids.push(ids[i]!);
    return this.#repetition && repeatedAfter(this.ids, from, this.#repetition, ended);
  }
}

type Watched = Receiver & { readonly submission: Submission | null };

/** Ends a choice that repeats itself, as the front ends one that met a stop string. */
export class RepetitionWatch extends ReceiverBefore {
  readonly #choice: Watched;
  readonly #said: SaidTokens;
  #over = false;

  constructor(choice: Watched, repetition: Repetition) {
    super(choice);
    this.#choice = choice;
    this.#said = new SaidTokens(repetition);
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.#over) return;
    const from = this.#said.ids.length;
    const repeated = this.#said.add(ids, at, count, finish !== null);
    this.#over = finish !== null || repeated !== null;
    if (repeated === null) {
      this.next.onTokens(ids, at, count, finish, stopTokenId);
      return;
    }
    this.next.onTokens(ids, at, repeated - from, Finish.Repetition, -1);
    this.#choice.submission?.finish(Finish.Repetition, repeated);
  }
}
