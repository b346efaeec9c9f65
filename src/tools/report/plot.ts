/** What does the page's script draw? Everything is decided here and sampled before; the script only puts it on a canvas. */

/** Names of colours in `page/style.css`, one per theme. */
export type Color = "blue" | "orange" | "green" | "purple" | "red" | "grey";

export interface PlotLine {
  readonly label: string;
  readonly color: Color;
  readonly kind: "line" | "step" | "area" | "dots";
  readonly dash?: boolean;
}

export interface Axis {
  readonly label: string;
  readonly log?: boolean;
  /** Shares: 0.5 is shown as 50 %. */
  readonly percent?: boolean;
  readonly from?: number;
  readonly to?: number;
  /** Counts: no ticks between whole numbers. */
  readonly whole?: boolean;
}

/** A line at a value, or a band up to another. */
export interface Mark {
  readonly axis: "x" | "y";
  readonly at: number;
  readonly to?: number;
  readonly label: string;
  readonly color: Color;
}

export interface Plot {
  readonly id: string;
  readonly title: string;
  /** What it shows, and of how many; one or two sentences. */
  readonly note: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly lines: readonly PlotLine[];
  /** Rising x, then the values of each line; null: none there. */
  readonly data: readonly (readonly (number | null)[])[];
  readonly marks: readonly Mark[];
}

/** Requests one below the other, in order of sending. Seconds; null: it never came so far, or nobody said. */
export interface Waterfall {
  readonly ids: readonly string[];
  readonly intended: readonly (number | null)[];
  readonly send: readonly (number | null)[];
  readonly scheduled: readonly (number | null)[];
  readonly first: readonly (number | null)[];
  readonly last: readonly (number | null)[];
  readonly end: readonly (number | null)[];
  readonly inputTokens: readonly number[];
  readonly outputTokens: readonly number[];
  /** Empty: it went well. */
  readonly failure: readonly string[];
  /** Long waits for a token: the row, when the token came (seconds), how long it took (ms). */
  readonly outliers: {
    readonly row: readonly number[];
    readonly at: readonly number[];
    readonly gapMs: readonly number[];
  };
  /** Gaps above the first are marked, above the second marked as worse; ms. */
  readonly thresholdsMs: readonly [number, number];
}

export interface PageData {
  readonly plots: readonly Plot[];
  readonly waterfall: Waterfall | null;
}
