/**
 * Draws curves as text, with one mark per column and curve, and axes with round numbers. This is our own code, because
 * asciichart 1.5 and simple-ascii-chart 5.4 have no horizontal axis, or draw steps and distinguish curves only by color.
 */

export interface PlotSeries {
  /** Character that is drawn at each value of the curve. */
  readonly mark: string;
  readonly label: string;
  /** Returns the value at `x`, or undefined if the curve has no value there. */
  readonly at: (x: number) => number | undefined;
}

export interface TextPlot {
  readonly title: string;
  readonly xLabel: string;
  readonly xMost: number;
  readonly series: readonly PlotSeries[];
}

const WIDTH = 66;
const HEIGHT = 14;
/** Number of columns between two numbers of the horizontal axis. */
const TICK = 16;

/**
 * Draws x from 1 to `xMost` and y from 0 to the largest value. A later series hides an earlier series at points that both have.
 */
export function plot({ title, xLabel, xMost, series }: TextPlot): string {
  const xs = Array.from({ length: WIDTH }, (_, column) => Math.round(1 + (column * (xMost - 1)) / (WIDTH - 1)));
  const values = series.map(({ at }) => xs.map(at));
  const most = Math.max(...values.flat().filter((value) => value !== undefined));
  const step = roundStep(most / HEIGHT);
  const rows = Math.max(1, Math.ceil(most / step));
  const cells = Array.from({ length: rows + 1 }, () => Array.from({ length: WIDTH }, () => " "));
  for (const [i, line] of values.entries()) {
    for (const [column, value] of line.entries()) {
      if (value !== undefined) cells[Math.round(value / step)]![column] = series[i]!.mark;
    }
  }
  const every = rows > 7 ? 2 : 1;
  const numbers = cells.map((_, row) => (row % every === 0 ? trimmed(row * step) : ""));
  const indent = Math.max(...numbers.map((number) => number.length));
  const body = cells.map((line, row) => `${numbers[row]!.padStart(indent)} ┤${line.join("")}`.trimEnd()).reverse();
  const legend = series.length > 1 ? [`${" ".repeat(indent + 2)}${series.map(legendOf).join("   ")}`] : [];
  return [title, ...body, ...axis(indent, xs, xLabel), ...legend].join("\n");
}

const legendOf = ({ mark, label }: PlotSeries) => `${mark} ${label}`;

function axis(indent: number, xs: readonly number[], label: string): string[] {
  const line = xs.map((_, column) => (column % TICK === 0 ? "┴" : "─")).join("");
  let numbers = "";
  for (let column = 0; column < WIDTH; column += TICK) numbers = numbers.padEnd(column) + xs[column]!;
  return [`${" ".repeat(indent)} └${line}`, `${" ".repeat(indent + 2)}${numbers}  ${label}`];
}

/** Returns the smallest number that is 1, 2 or 5 times a power of ten and at least `least`. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least) ?? 10 * power;
}

const trimmed = (value: number) => String(Number(value.toPrecision(6)));
