/**
 * Computes when each token was due and when it was written, from the rows of a truth log (docs/reference/truth-log.md). The tokens of a
 * step are written one after another, in the order of their requests.
 */

/** The needed part of a step's row, as another process wrote it. */
export interface StepTimes {
  readonly engine: number;
  readonly step: number;
  readonly dueUs: number | null;
  readonly writeStartUs: number | null;
  readonly writeEndUs: number | null;
  readonly tokens: number;
  /** Times at which equal parts of the tokens were written, without the last part. Missing if there is only one part. */
  readonly writtenUs?: readonly number[];
}

/** The needed part of a request's row, as another process wrote it. */
export interface RunsLine {
  readonly engine: number;
  readonly order: number;
  readonly scheduledUs: number | null;
  readonly runs: readonly (readonly [first: number, steps: number, width?: number])[];
}

export interface TokenTime {
  readonly dueUs: number;
  /** Time at which writing the step's tokens began. */
  readonly startUs: number;
  /** Time at which the token was written, estimated from its position within its part of the step. */
  readonly writtenUs: number;
}

interface Step {
  readonly dueUs: number;
  /** Time at which writing began, and times at which each part was written. */
  readonly partsUs: readonly number[];
  readonly tokens: number;
  /** Number of tokens that already have a position. */
  placed: number;
}

export class TokenTimes {
  readonly #steps = new Map<string, Step>();

  /** Adds a step. All steps must be added before `of` is called. */
  add({ engine, step, dueUs, writeStartUs: startUs, writeEndUs, tokens, writtenUs = [] }: StepTimes): void {
    if (typeof startUs !== "number" || typeof dueUs !== "number" || !Array.isArray(writtenUs)) return;
    const partsUs = [startUs, ...writtenUs, writeEndUs ?? startUs];
    if (typeof tokens !== "number" || !partsUs.every((us) => typeof us === "number")) return;
    this.#steps.set(`${engine}/${step}`, { dueUs, partsUs, tokens, placed: 0 });
  }

  /**
   * Yields each request with the times of its tokens. The time is undefined if its step is unknown. Requests within a step are
   * ordered by when they were first scheduled, except after a preemption. Requests that are not among `rows` take no position,
   * so the others seem slightly too early.
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
        const time = step && timeAfter(step, width);
        for (let token = 0; token < width; token++) times.push(time);
      }
    }
    return times;
  }
}

/** Returns the time of the tokens that one request gets from a step. They are written together. */
function timeAfter(step: Step, width: number): TokenTime {
  step.placed += width;
  const { dueUs, partsUs } = step;
  const parts = partsUs.length - 1;
  const place = (parts * step.placed) / Math.max(step.tokens, step.placed);
  const part = Math.min(Math.floor(place), parts - 1);
  const [fromUs, untilUs] = [partsUs[part]!, partsUs[part + 1]!];
  return { dueUs, startUs: partsUs[0]!, writtenUs: fromUs + (untilUs - fromUs) * (place - part) };
}
