/**
 * Adds a summary of a request's true times to its answer, if the request has the header `x-understudy-truth: summary`. A
 * stream has it in a comment after `[DONE]`, a whole answer in a header of the same name. See docs/reference/truth-log.md.
 */

import type { Finish, Receiver, Submission } from "../../../engine/interface/types.ts";
import { asciiJson } from "../../../truth/format.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import { FINISH_NAMES } from "./context.ts";

/** Largest number of choices in a summary. Clients accept headers of about 8 KB. */
const CHOICES_MOST = 16;

/** A choice whose times a summary shows. */
interface TimedChoice extends Receiver {
  readonly submission: Submission | null;
  readonly finish: Finish | null;
  readonly tokens: number;
  truth: TruthTimes | null;
}

/** Statistics of the times between the tokens of different steps, in microseconds. */
class StepTimes {
  first = Number.NaN;
  last = Number.NaN;
  most = 0;
  steps = 0;

  add(us: number): void {
    if (this.steps++ === 0) this.first = us;
    else this.most = Math.max(this.most, us - this.last);
    this.last = us;
  }

  text(): string {
    return this.steps < 2 ? "null" : `{"mean":${mean(this.last - this.first, this.steps - 1)},"max":${this.most}}`;
  }
}

/** Records the times at which the tokens of one choice were due and were written. */
export class TruthTimes {
  readonly #due = new StepTimes();
  readonly #written = new StepTimes();
  #lateUs = 0;
  #mostLateUs = 0;

  /** Records the due time of a step's tokens, before they are delivered. */
  due(dueUs: number): void {
    this.#due.add(dueUs);
  }

  /** Records the time after the step's tokens were written. Further calls for the same step do nothing. */
  written(nowUs: number): void {
    if (this.#written.steps === this.#due.steps) return;
    this.#written.add(nowUs);
    const lateUs = Math.max(0, nowUs - this.#due.last);
    this.#lateUs += lateUs;
    this.#mostLateUs = Math.max(this.#mostLateUs, lateUs);
  }

  /** Returns the times of the choice as members of a JSON object, without braces. */
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

/** Records the times of a choice's tokens as they pass to the next receiver. */
export class TimedReceiver extends ReceiverBefore {
  readonly #choice: TimedChoice;
  readonly #times = new TruthTimes();
  readonly #nowUs: () => number;

  constructor(choice: TimedChoice, next: Receiver, nowUs: () => number) {
    super(next);
    this.#choice = choice;
    this.#nowUs = nowUs;
    choice.truth = this.#times;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const dueUs = this.#choice.submission?.timeline?.stepDueUs;
    if (count > 0 && dueUs !== undefined) this.#times.due(dueUs);
    this.next.onTokens(ids, at, count, finish, stopTokenId);
    this.#times.written(this.#nowUs());
  }
}

/** Returns the summary of the choices as ASCII JSON. Returns null if it was not requested or the engine has no observer. */
export function truthSummary(choices: readonly TimedChoice[], nowUs: () => number): string | null {
  const rows: string[] = [];
  for (const { truth, submission, finish, tokens } of choices.slice(0, CHOICES_MOST)) {
    const timeline = submission?.timeline;
    if (truth === null || !timeline) return null;
    // The last tokens were just written, but `TimedReceiver` is still inside its call and has not recorded it.
    truth.written(nowUs());
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

/** Returns a stream's comment with the summary. */
export function truthComment(text: string): string {
  return `: understudy-truth ${text}\n\n`;
}

const known = (us: number) => (Number.isNaN(us) ? "null" : String(us));

const mean = (sum: number, count: number) => Math.round((sum / count) * 10) / 10;
