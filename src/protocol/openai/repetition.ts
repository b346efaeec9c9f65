/** Does an answer repeat itself? `repetition_detection`: vLLM 0.33, `check_stop` and `check_sequence_repetition` of `v1/core/sched/utils.py`. */
import { Finish, type Receiver, type Submission } from "../../engine/types.ts";
import type { Repetition } from "../request.ts";

/** How many ids there are when a pattern is complete, of those since `from`; null: none is. `ended`: the last one ended the answer in another way, which counts. */
export function repeatedAfter(
  ids: readonly number[],
  from: number,
  repetition: Repetition,
  ended: boolean,
): number | null {
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

type Choice = Receiver & { readonly submission: Submission | null };

/** Who listens to the engine for a choice: itself where nothing is to be looked for. */
export function watched({ repetition }: { readonly repetition: Repetition | null }, choice: Choice): Receiver {
  return repetition === null ? choice : new RepetitionWatch(choice, repetition);
}

/** Stands between the engine and a choice, and ends it as the front ends one that met a stop string. */
class RepetitionWatch implements Receiver {
  readonly #choice: Choice;
  readonly #repetition: Repetition;
  readonly #said: number[] = [];
  #over = false;

  constructor(choice: Choice, repetition: Repetition) {
    this.#choice = choice;
    this.#repetition = repetition;
  }

  get streams(): boolean {
    return this.#choice.streams === true;
  }

  get bytes(): number {
    return this.#choice.bytes ?? 0;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    if (this.#over) return;
    const from = this.#said.length;
    for (let i = at; i < at + count; i++) this.#said.push(ids[i]!);
    const repeated = repeatedAfter(this.#said, from, this.#repetition, finish !== null);
    this.#over = finish !== null || repeated !== null;
    if (repeated === null) {
      this.#choice.onTokens(ids, at, count, finish, stopTokenId);
      return;
    }
    this.#choice.onTokens(ids, at, repeated - from, Finish.Repetition, -1);
    this.#choice.submission?.finish(Finish.Repetition, repeated);
  }
}
