/** Data of the page's plots. Everything is decided and sampled before; the page's script only draws it. */

/** Names of colours in `page/style.css`, which defines them per theme. */
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
  /** True for shares, so that 0.5 is shown as 50 %. */
  readonly percent?: boolean;
  readonly from?: number;
  readonly to?: number;
  /** True for counts, so that ticks are whole numbers. */
  readonly whole?: boolean;
}

/** A line at a value, or a band from `at` to `to`. */
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
  /** Explains the plot and its number of values, in one or two sentences. */
  readonly note: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly lines: readonly PlotLine[];
  /** Rising x values, then the values of each line. Null if a line has no value there. */
  readonly data: readonly (readonly (number | null)[])[];
  readonly marks: readonly Mark[];
}

/**
 * Requests as rows in the order of sending. Times are in seconds. Null if a request did not get that far, or if the time is
 * unknown.
 */
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
  /** Reason of a failure. "" if the request was successful. */
  readonly failure: readonly string[];
  /** Long gaps before a token: row, time of the token in seconds, and length of the gap in milliseconds. */
  readonly outliers: {
    readonly row: readonly number[];
    readonly at: readonly number[];
    readonly gapMs: readonly number[];
  };
  /** Gaps in milliseconds from which a token is marked, and from which it is marked as worse. */
  readonly thresholdsMs: readonly [number, number];
}

export interface PageData {
  readonly plots: readonly Plot[];
  readonly waterfall: Waterfall | null;
}
