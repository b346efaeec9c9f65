/**
 * When was each token due, and when was it written? By the truth's rows (docs/truth-log.md): a step's tokens are written one
 * after the other, in the order in which their requests run.
 */

/** The part of a step's row that is needed, as another process wrote it. */
export interface StepTimes {
  readonly engine: number;
  readonly step: number;
  readonly dueUs: number | null;
  readonly writeStartUs: number | null;
  readonly writeEndUs: number | null;
  readonly tokens: number;
  /** When equal parts of them had been written, all but the last; absent: one part. */
  readonly writtenUs?: readonly number[];
}

/** The part of a request's row that is needed, as another process wrote it. */
export interface RunsLine {
  readonly engine: number;
  readonly order: number;
  readonly scheduledUs: number | null;
  readonly runs: readonly (readonly [first: number, steps: number, width?: number])[];
}

export interface TokenTime {
  readonly dueUs: number;
  /** When writing of its step began. */
  readonly startUs: number;
  /** When the token was written: by its place in the step, as if all of its part took equally long. */
  readonly writtenUs: number;
}

interface Step {
  readonly dueUs: number;
  /** When writing began, and when each part was written. */
  readonly partsUs: readonly number[];
  readonly tokens: number;
  /** Tokens that were placed so far. */
  placed: number;
}

export class TokenTimes {
  readonly #steps = new Map<string, Step>();

  /** All steps come before any request. */
  add({ engine, step, dueUs, writeStartUs: startUs, writeEndUs, tokens, writtenUs = [] }: StepTimes): void {
    if (typeof startUs !== "number" || typeof dueUs !== "number" || !Array.isArray(writtenUs)) return;
    const partsUs = [startUs, ...writtenUs, writeEndUs ?? startUs];
    if (typeof tokens !== "number" || !partsUs.every((us) => typeof us === "number")) return;
    this.#steps.set(`${engine}/${step}`, { dueUs, partsUs, tokens, placed: 0 });
  }

  /**
   * Gives each request with the times of its tokens; undefined: of a step that nobody knows. Requests run in the order in
   * which they were scheduled first (but for those that came back from a preemption); those that are not among `rows`
   * have no place, so the others come too early by theirs.
   */
  *of<R extends RunsLine>(rows: readonly R[]): Generator<readonly [R, readonly (TokenTime | undefined)[]]> {
    const running = rows.toSorted(
      (a, b) => (a.scheduledUs ?? 0) - (b.scheduledUs ?? 0) || a.engine - b.engine || a.order - b.order,
    );
    for (const row of running) yield [row, this.#timesOf(row)];
  }

  #timesOf({ engine, runs }: RunsLine): (TokenTime | undefined)[] {
    const times: (TokenTime | undefined)[] = [];
    for (const [first, count, width = 1] of runs) {
      for (let number = first; number < first + count; number++) {
        const step = this.#steps.get(`${engine}/${number}`);
        const time = step && placed(step, width);
        for (let token = 0; token < width; token++) times.push(time);
      }
    }
    return times;
  }
}

/** The tokens of a step that one request gets are written together. */
function placed(step: Step, width: number): TokenTime {
  step.placed += width;
  const { dueUs, partsUs } = step;
  const parts = partsUs.length - 1;
  const place = (parts * step.placed) / Math.max(step.tokens, step.placed);
  const part = Math.min(Math.floor(place), parts - 1);
  const [fromUs, untilUs] = [partsUs[part]!, partsUs[part + 1]!];
  return { dueUs, startUs: partsUs[0]!, writtenUs: fromUs + (untilUs - fromUs) * (place - part) };
}
