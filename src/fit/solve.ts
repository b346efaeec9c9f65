/** Which coefficients, none below 0, come nearest to all equations? Least squares of relative errors, each kind with the same weight. */
import { type Equation, UNKNOWNS, type Unknown } from "./equations.ts";

export interface Solution {
  /** Microseconds; 0 where the equations say nothing of it. */
  readonly us: Readonly<Record<Unknown, number>>;
  /** What the equations cannot tell from the others, or say nothing of. */
  readonly open: readonly Unknown[];
  /** Of the equations of steps: shares of the measured. */
  readonly meanError: number;
  readonly p90Error: number;
}

const PREFILL = UNKNOWNS.indexOf("prefill");
/** Columns that are equal but for so much say nothing of their own: the square of what is left of one. */
const OWN_SHARE = 1e-5;

/** `prefillUs`: where it is known. Null: there is no equation, or none is met by coefficients above 0. */
export function solve(equations: readonly Equation[], prefillUs?: number): Solution | null {
  if (equations.length === 0) return null;
  const { matrix, right } = normal(equations, prefillUs);
  let best: { readonly set: readonly number[]; readonly values: readonly number[]; readonly fits: number } | null =
    null;
  for (let bits = 1; bits < 2 ** UNKNOWNS.length; bits++) {
    const set = UNKNOWNS.map((_, i) => i).filter((i) => (bits & (1 << i)) !== 0);
    const values = eliminate(
      set.map((row) => set.map((column) => matrix[row]![column]!)),
      set.map((row) => right[row]!),
    );
    if (values === null || values.some((value) => value < 0)) continue;
    // How much of the right side's square is explained.
    const fits = values.reduce((sum, value, i) => sum + value * right[set[i]!]!, 0);
    const isBetter = best === null || fits > best.fits * (1 + 1e-12);
    if (isBetter) best = { set, values, fits };
  }
  if (best === null) return null;
  const { set, values } = best;
  const given = (i: number) => (i === PREFILL ? (prefillUs ?? 0) : 0);
  const of = (i: number) => (set.includes(i) ? values[set.indexOf(i)]! : given(i));
  const us = Object.fromEntries(UNKNOWNS.map((name, i) => [name, of(i)])) as Record<Unknown, number>;
  const open = UNKNOWNS.filter((_, i) => !set.includes(i) && of(i) === 0 && isOpen(matrix, set, i));
  const errors = equations
    .filter(({ kind }) => kind === "step")
    .map(({ factors, us: measured }) =>
      Math.abs(
        dot(
          factors,
          UNKNOWNS.map((_, i) => of(i)),
        ) /
          measured -
          1,
      ),
    )
    .sort((a, b) => a - b);
  const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length;
  return { us, open, meanError: mean, p90Error: errors[Math.floor(0.9 * (errors.length - 1))]! };
}

const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);

function normal(
  equations: readonly Equation[],
  prefillUs: number | undefined,
): { matrix: number[][]; right: number[] } {
  const count = (kind: Equation["kind"]) => equations.filter((one) => one.kind === kind).length;
  const weights = { step: 1 / count("step"), first: 1 / count("first") };
  const matrix = UNKNOWNS.map(() => UNKNOWNS.map(() => 0));
  const right = UNKNOWNS.map(() => 0);
  for (const { factors: all, us, kind } of equations) {
    const factors = prefillUs === undefined ? all : all.with(PREFILL, 0);
    const leftUs = us - (prefillUs ?? 0) * all[PREFILL]!;
    for (const [i, a] of factors.entries()) {
      right[i]! += (weights[kind] * a * leftUs) / (us * us);
      for (const [j, b] of factors.entries()) matrix[i]![j]! += (weights[kind] * a * b) / (us * us);
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
