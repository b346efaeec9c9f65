/** Which coefficients, none below 0, come nearest to all equations? Least squares, each kind with the same weight, outliers with less. */
import { type Equation, UNKNOWNS, type Unknown } from "./equations.ts";

export interface Solution {
  /** Microseconds; 0 where the equations say nothing of it. */
  readonly us: Readonly<Record<Unknown, number>>;
  /** What the equations cannot tell from the others, or say nothing of. */
  readonly open: readonly Unknown[];
  /** Errors of the equations of steps, as shares of what the coefficients say. */
  readonly meanError: number;
  readonly p90Error: number;
}

const PREFILL = UNKNOWNS.indexOf("prefill");
/** Columns that are equal but for so much say nothing of their own: the square of what is left of one. */
const OWN_SHARE = 1e-5;

/** Equations that miss by more than this many ordinary misses count for less: a host that stood still is not the engine. */
const HUBER = 1.5;
const ROUNDS = 20;
/** Share of the median time below which the ordinary miss is as good as exact. */
const EXACT_SHARE = 1e-6;

/** `prefillUs`: where it is known. Null: there is no equation, or none is met by coefficients above 0. */
export function solve(equations: readonly Equation[], prefillUs?: number): Solution | null {
  if (equations.length === 0) return null;
  const rows = rowsOf(equations, prefillUs);
  let found = nearest(rows);
  for (let round = 0; round < ROUNDS && found !== null; round++) {
    weigh(rows, found.values);
    found = nearest(rows);
  }
  if (found === null) return null;
  const { values, matrix } = found;
  const us = Object.fromEntries(UNKNOWNS.map((name, i) => [name, values[i]!])) as Record<Unknown, number>;
  if (prefillUs !== undefined) us.prefill = prefillUs;
  const set = UNKNOWNS.map((_, i) => i).filter((i) => values[i]! > 0);
  const open = UNKNOWNS.filter((name, i) => us[name] === 0 && isOpen(matrix, set, i));
  const all = UNKNOWNS.map((name) => us[name]);
  const errors = equations
    .filter(({ kind }) => kind === "step")
    .map(({ factors, us: measured }) => Math.abs(measured / dot(factors, all) - 1))
    .sort((a, b) => a - b);
  const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length;
  return { us, open, meanError: mean, p90Error: errors[Math.floor(0.9 * (errors.length - 1))]! };
}

interface Row {
  readonly factors: readonly number[];
  readonly us: number;
  readonly kind: Equation["kind"];
  /** What it counts among all, as much for each kind, and of that the share that its miss leaves it. */
  readonly counts: number;
  readonly medianUs: number;
  share: number;
}

const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

function rowsOf(equations: readonly Equation[], prefillUs: number | undefined): Row[] {
  return (["step", "first"] as const).flatMap((kind) => {
    const mine = equations.filter((one) => one.kind === kind);
    const medianUs = median(mine.map(({ us }) => us));
    const counts = 1 / (mine.length * medianUs ** 2);
    return mine.map(({ factors, us }) => ({
      factors: prefillUs === undefined ? factors : factors.with(PREFILL, 0),
      us: us - (prefillUs ?? 0) * factors[PREFILL]!,
      kind,
      counts,
      medianUs,
      share: 1,
    }));
  });
}

/** Huber's weights. */
function weigh(rows: readonly Row[], values: readonly number[]): void {
  const misses = rows.map(({ factors, us }) => Math.abs(dot(factors, values) - us));
  for (const kind of ["step", "first"] as const) {
    const ordinary = median(misses.filter((_, i) => rows[i]!.kind === kind));
    for (const [i, row] of rows.entries()) {
      if (row.kind !== kind) continue;
      const mostUs = HUBER * Math.max(ordinary, EXACT_SHARE * row.medianUs);
      row.share = Math.min(1, mostUs / misses[i]!);
    }
  }
}

interface Nearest {
  /** By `UNKNOWNS`. */
  readonly values: readonly number[];
  readonly matrix: readonly (readonly number[])[];
}

/** Finds, among all choices of coefficients above 0, the one that explains most. */
function nearest(rows: readonly Row[]): Nearest | null {
  const { matrix, right } = normal(rows);
  let best: { readonly values: readonly number[]; readonly fits: number } | null = null;
  for (let bits = 1; bits < 2 ** UNKNOWNS.length; bits++) {
    const set = UNKNOWNS.map((_, i) => i).filter((i) => (bits & (1 << i)) !== 0);
    const found = eliminate(
      set.map((row) => set.map((column) => matrix[row]![column]!)),
      set.map((row) => right[row]!),
    );
    if (found === null || found.some((value) => value < 0)) continue;
    // How much of the right side's square is explained.
    const fits = found.reduce((sum, value, i) => sum + value * right[set[i]!]!, 0);
    if (best !== null && fits <= best.fits * (1 + 1e-12)) continue;
    best = { values: UNKNOWNS.map((_, i) => (set.includes(i) ? found[set.indexOf(i)]! : 0)), fits };
  }
  return best && { values: best.values, matrix };
}

function normal(rows: readonly Row[]): { matrix: number[][]; right: number[] } {
  const matrix = UNKNOWNS.map(() => UNKNOWNS.map(() => 0));
  const right = UNKNOWNS.map(() => 0);
  for (const { factors, us, counts, share } of rows) {
    const weight = counts * share;
    for (const [i, a] of factors.entries()) {
      if (a === 0) continue;
      right[i]! += weight * a * us;
      for (const [j, b] of factors.entries()) matrix[i]![j]! += weight * a * b;
    }
  }
  return { matrix, right };
}

/** Nothing is said of it, or with it the others have no single solution. */
function isOpen(matrix: readonly (readonly number[])[], set: readonly number[], i: number): boolean {
  const wider = [...set, i];
  const square = wider.map((row) => wider.map((column) => matrix[row]![column]!));
  return (
    eliminate(
      square,
      wider.map(() => 0),
    ) === null
  );
}

/** Gauss-Jordan on columns of length 1; null where one of them says nothing of its own. */
function eliminate(square: readonly (readonly number[])[], right: readonly number[]): number[] | null {
  const n = right.length;
  const lengths = square.map((row, i) => Math.sqrt(row[i]!));
  if (lengths.some((length) => length === 0)) return null;
  const rows = square.map((row, i) => [
    ...row.map((value, j) => value / (lengths[i]! * lengths[j]!)),
    right[i]! / lengths[i]!,
  ]);
  for (let i = 0; i < n; i++) {
    // Symmetric and positive: what is left on the diagonal is the column's own share.
    const pivot = rows[i]![i]!;
    if (pivot < OWN_SHARE) return null;
    for (let other = 0; other < n; other++) {
      if (other === i) continue;
      const by = rows[other]![i]! / pivot;
      for (let column = i; column <= n; column++) rows[other]![column]! -= by * rows[i]![column]!;
    }
  }
  return rows.map((row, i) => row[n]! / row[i]! / lengths[i]!);
}
