/**
 * What did this request really experience? With `x-understudy-truth: summary` its answer says so itself: a stream in a
 * comment behind `[DONE]`, an answer in one piece in a header of the same name. docs/reference/truth-log.md.
 */

import type { Finish, Receiver, Submission } from "../../../engine/interface/types.ts";
import { asciiJson } from "../../../truth/format.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import { FINISH_NAMES } from "./context.ts";

/** Most choices in a header; clients take heads of some 8 KB. */
const CHOICES_MOST = 16;

/** A choice whose truth is told. */
export interface ToldChoice extends Receiver {
  readonly submission: Submission | null;
  readonly finish: Finish | null;
  readonly tokens: number;
  truth: TruthTimes | null;
}

/** Times of one kind between tokens that came in different steps; microseconds. */
class Gaps {
  first = Number.NaN;
  last = Number.NaN;
  most = 0;
  steps = 0;

  came(us: number): void {
    if (this.steps++ === 0) this.first = us;
    else this.most = Math.max(this.most, us - this.last);
    this.last = us;
  }

  text(): string {
    return this.steps < 2 ? "null" : `{"mean":${mean(this.last - this.first, this.steps - 1)},"max":${this.most}}`;
  }
}

/** When the tokens of one choice were due, and when they were written. */
export class TruthTimes {
  readonly #due = new Gaps();
  readonly #written = new Gaps();
  #lateUs = 0;
  #mostLateUs = 0;

  /** Tokens of a step are about to be handed out. */
  begins(dueUs: number): void {
    this.#due.came(dueUs);
  }

  /** They have been; called again, it does nothing. */
  wrote(nowUs: number): void {
    if (this.#written.steps === this.#due.steps) return;
    this.#written.came(nowUs);
    const lateUs = Math.max(0, nowUs - this.#due.last);
    this.#lateUs += lateUs;
    this.#mostLateUs = Math.max(this.#mostLateUs, lateUs);
  }

  /** JSON of its part of a summary, without braces. */
  text(arrivalUs: number): string {
    const [due, written] = [this.#due, this.#written];
    const since = (from: number, to: number) => `{"due":${known(from - arrivalUs)},"written":${known(to - arrivalUs)}}`;
    const late = due.steps === 0 ? "null" : `{"mean":${mean(this.#lateUs, due.steps)},"max":${this.#mostLateUs}}`;
    return (
      `"ttftUs":${since(due.first, written.first)},"itlUs":{"due":${due.text()},"written":${written.text()}}` +
      `,"e2eUs":${since(due.last, written.last)},"lateUs":${late}`
    );
  }
}

/** Notes when a choice's tokens come. */
export class TimedReceiver extends ReceiverBefore {
  readonly #choice: ToldChoice;
  readonly #times = new TruthTimes();
  readonly #nowUs: () => number;

  constructor(choice: ToldChoice, next: Receiver, nowUs: () => number) {
    super(next);
    this.#choice = choice;
    this.#nowUs = nowUs;
    choice.truth = this.#times;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const dueUs = this.#choice.submission?.timeline?.stepDueUs;
    if (count > 0 && dueUs !== undefined) this.#times.begins(dueUs);
    this.next.onTokens(ids, at, count, finish, stopTokenId);
    this.#times.wrote(this.#nowUs());
  }
}

/** The JSON of the choices, in ASCII; null: it was not asked for, or nobody watches the engine. */
export function truthSummary(choices: readonly ToldChoice[], nowUs: () => number): string | null {
  const rows: string[] = [];
  for (const { truth, submission, finish, tokens } of choices.slice(0, CHOICES_MOST)) {
    const timeline = submission?.timeline;
    if (truth === null || !timeline) return null;
    // The last tokens have just been written: this is called from within.
    truth.wrote(nowUs());
    timeline.settleLate();
    const { id, arrivalUs, queuedUs, scheduledUs } = timeline;
    rows.push(
      `{"id":${asciiJson(id)},"reason":${finish === null ? "null" : `"${FINISH_NAMES[finish]}"`},"arrivalUs":${arrivalUs}` +
        `,"queueUs":${known(Math.max(0, scheduledUs - queuedUs))},${truth.text(arrivalUs)}` +
        `,"lateSteps":${timeline.lateSteps},"rebasedUs":${timeline.rebasedUs},"preemptions":${timeline.preemptions}` +
        `,"promptTokens":${timeline.promptTokens},"cachedTokens":${timeline.cachedTokens},"outputTokens":${tokens}}`,
    );
  }
  return `[${rows.join()}]`;
}

/** A stream's comment with it. */
export function truthComment(text: string): string {
  return `: understudy-truth ${text}\n\n`;
}

const known = (us: number) => (Number.isNaN(us) ? "null" : String(us));

const mean = (sum: number, count: number) => Math.round((sum / count) * 10) / 10;
