/**
 * Converts a trace's timestamps to microseconds and measures the time from the first to the last. The span is always
 * printed, because a trace in seconds that is read as milliseconds runs a thousand times too fast.
 */
export const TIMESTAMP_UNITS = ["s", "ms", "us"] as const;
export type TimestampUnit = (typeof TIMESTAMP_UNITS)[number];
/** "dates": the format has absolute times, which its reader converts to microseconds. */
export type TimeForm = TimestampUnit | "dates";

const US_PER_UNIT: Readonly<Record<TimeForm, number>> = { s: 1e6, ms: 1e3, us: 1, dates: 1 };
export const UNIT_NAMES: Readonly<Record<TimeForm, string>> = {
  dates: "dates",
  s: "seconds",
  ms: "milliseconds",
  us: "microseconds",
};
/** Latest time, in microseconds: about 31,000 years. */
const LATEST_US = 1e18;
/** Gaps below this are rare in a trace in milliseconds. Milliseconds. */
const SHORT_GAP_MS = 5;
/** If at least this share of gaps is short, fractional milliseconds are suspicious. */
const SHORT_SHARE = 0.25;

export interface TraceSpan {
  /** Seconds from the earliest timestamp to the latest. */
  readonly seconds: number;
  readonly unit: TimeForm;
}

export class Timestamps {
  #firstUs = Number.POSITIVE_INFINITY;
  #lastUs = Number.NEGATIVE_INFINITY;
  #previousUs = Number.NaN;
  #hasFraction = false;
  #gaps = 0;
  #shortGaps = 0;

  constructor(
    readonly unit: TimeForm,
    /** True if the user or the format states the unit, so that no warning is needed. */
    private readonly isStated: boolean,
  ) {}

  /** Converts a timestamp or a pause. Returns whole microseconds, or null if the value is not a number from 0 to 31,000 years. */
  microseconds(value: unknown): number | null {
    if (typeof value !== "number" || !(value >= 0)) return null;
    const us = value * US_PER_UNIT[this.unit];
    return us <= LATEST_US ? Math.round(us) : null;
  }

  /** Adds a request's time to the span. `value`: the timestamp as in the file; absent if it has another form. */
  add(us: number, value = 0): void {
    if (us < this.#firstUs) this.#firstUs = us;
    if (us > this.#lastUs) this.#lastUs = us;
    if (!Number.isInteger(value)) this.#hasFraction = true;
    const gapUs = us - this.#previousUs;
    if (gapUs > 0) {
      this.#gaps++;
      if (gapUs < SHORT_GAP_MS * 1000) this.#shortGaps++;
    }
    this.#previousUs = us;
  }

  /** Returns null if no request had a timestamp. */
  span(): TraceSpan | null {
    if (this.#lastUs < this.#firstUs) return null;
    return { seconds: (this.#lastUs - this.#firstUs) / 1e6, unit: this.unit };
  }

  /** Returns a warning if the unit is a guess that is probably wrong, else null. */
  warning(): string | null {
    if (this.isStated || !this.#hasFraction || this.#shortGaps < SHORT_SHARE * this.#gaps || this.#gaps === 0)
      return null;
    return (
      `timestamps were read as ${UNIT_NAMES[this.unit]}, but they have fractions, and ${this.#shortGaps} of ${this.#gaps} gaps ` +
      `are below ${SHORT_GAP_MS} ms: if they are seconds, say --timestamp-unit s; if they are not, --timestamp-unit ${this.unit}`
    );
  }
}

/** Formats the span for people: `59.864 s (timestamps in seconds)`. */
export function spanText({ seconds, unit }: TraceSpan): string {
  const shown = seconds.toLocaleString("en-US", { maximumFractionDigits: 3 });
  return `${shown} s (timestamps ${unit === "dates" ? "are" : "in"} ${UNIT_NAMES[unit]})`;
}
