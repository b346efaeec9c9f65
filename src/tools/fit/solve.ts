/**
 * Finds the coefficients, none below 0, that fit all equations best. Uses least squares, with equal weight for each kind of
 * equation, and less weight for outliers.
 */
import { COEFFICIENTS, type Coefficient, type Equation } from "./equations.ts";

export interface Solution {
  /** Coefficients in microseconds. 0 if the equations do not determine one. */
  readonly us: Readonly<Record<Coefficient, number>>;
  /** Coefficients that the equations do not determine, or cannot separate from others. */
  readonly open: readonly Coefficient[];
  /** Errors of the equations of kind "step", as shares of the computed time. */
  readonly meanError: number;
  readonly p90Error: number;
}

const PREFILL = COEFFICIENTS.indexOf("prefill");
/** Smallest squared share of a column that is independent of the others. Below it the column counts as dependent. */
const OWN_SHARE = 1e-5;

/** Number of median errors from which an equation gets less weight, because a stall of the host is not the engine's time. */
const HUBER = 1.5;
const ROUNDS = 20;
/** Smallest median error that is used, as a share of the median time. */
const EXACT_SHARE = 1e-6;

/**
 * Solves the equations. `prefillUs`: prefill coefficient, if it is known. Null if there are no equations, or no solution with
 * coefficients above 0.
 */
export function solve(equations: readonly Equation[], prefillUs?: number): Solution | null {
  if (equations.length === 0) return null;
  const rows = rowsOf(equations, prefillUs);
  let fit = bestFit(rows);
  for (let round = 0; round < ROUNDS && fit !== null; round++) {
    weigh(rows, fit.values);
    fit = bestFit(rows);
  }
  if (fit === null) return null;
  const { values, matrix } = fit;
  const us = Object.fromEntries(COEFFICIENTS.map((name, i) => [name, values[i]!])) as Record<Coefficient, number>;
  if (prefillUs !== undefined) us.prefill = prefillUs;
  const set = COEFFICIENTS.map((_, i) => i).filter((i) => values[i]! > 0);
  const open = COEFFICIENTS.filter((name, i) => us[name] === 0 && isOpen(matrix, set, i));
  const all = COEFFICIENTS.map((name) => us[name]);
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
  /** Weight of an equation of this kind. Both kinds have the same total weight. `share`: reduces the weight of outliers. */
  readonly kindWeight: number;
  readonly medianUs: number;
  share: number;
}

const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

function rowsOf(equations: readonly Equation[], prefillUs: number | undefined): Row[] {
  return (["step", "first"] as const).flatMap((kind) => {
    const sameKind = equations.filter((equation) => equation.kind === kind);
    const medianUs = median(sameKind.map(({ us }) => us));
    const kindWeight = 1 / (sameKind.length * medianUs ** 2);
    return sameKind.map(({ factors, us }) => ({
      factors: prefillUs === undefined ? factors : factors.with(PREFILL, 0),
      us: us - (prefillUs ?? 0) * factors[PREFILL]!,
      kind,
      kindWeight,
      medianUs,
      share: 1,
    }));
  });
}

/** Sets the weights of outliers by Huber's method. */
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

interface BestFit {
  /** Values in the order of `COEFFICIENTS`. */
  readonly values: readonly number[];
  readonly matrix: readonly (readonly number[])[];
}

/** Tries each subset of coefficients, and returns the solution above 0 that explains most. */
function bestFit(rows: readonly Row[]): BestFit | null {
  const { matrix, right } = normal(rows);
  let best: { readonly values: readonly number[]; readonly fits: number } | null = null;
  for (let bits = 1; bits < 2 ** COEFFICIENTS.length; bits++) {
    const set = COEFFICIENTS.map((_, i) => i).filter((i) => (bits & (1 << i)) !== 0);
    const solution = eliminate(
      set.map((row) => set.map((column) => matrix[row]![column]!)),
      set.map((row) => right[row]!),
    );
    if (solution === null || solution.some((value) => value < 0)) continue;
    // Part of the squared times that the solution explains.
    const fits = solution.reduce((sum, value, i) => sum + value * right[set[i]!]!, 0);
    if (best !== null && fits <= best.fits * (1 + 1e-12)) continue;
    best = { values: COEFFICIENTS.map((_, i) => (set.includes(i) ? solution[set.indexOf(i)]! : 0)), fits };
  }
  return best && { values: best.values, matrix };
}

function normal(rows: readonly Row[]): { matrix: number[][]; right: number[] } {
  const matrix = COEFFICIENTS.map(() => COEFFICIENTS.map(() => 0));
  const right = COEFFICIENTS.map(() => 0);
  for (const { factors, us, kindWeight, share } of rows) {
    const weight = kindWeight * share;
    for (const [i, a] of factors.entries()) {
      if (a === 0) continue;
      right[i]! += weight * a * us;
      for (const [j, b] of factors.entries()) matrix[i]![j]! += weight * a * b;
    }
  }
  return { matrix, right };
}

/** Reports whether the equations do not determine coefficient `i`, given those in `set`. */
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

/**
 * Solves linear equations by Gauss-Jordan elimination, with columns scaled to length 1. Returns null if the columns are
 * linearly dependent.
 */
function eliminate(square: readonly (readonly number[])[], right: readonly number[]): number[] | null {
  const n = right.length;
  const lengths = square.map((row, i) => Math.sqrt(row[i]!));
  if (lengths.some((length) => length === 0)) return null;
  const rows = square.map((row, i) => [
    ...row.map((value, j) => value / (lengths[i]! * lengths[j]!)),
    right[i]! / lengths[i]!,
  ]);
  for (let i = 0; i < n; i++) {
    // The matrix is symmetric and positive, so the remaining diagonal is the part of the column that is independent.
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
