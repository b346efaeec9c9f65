/**
 * Decides how much of a long test runs. A long test has two sizes. Its seeded sample takes at most 20 s and runs with all
 * tests. The whole is run by `npx bun run test NAME` (scripts/test-whole.ts sets the variables that are read here).
 */
import { appendFileSync } from "node:fs";

// These names lack the program's prefix, because servers that tests start would report them as unknown options.
const { TEST_WHOLE, TEST_SEED, TEST_FIGURES } = process.env;

/** Seed that decides what the sample contains, and what is drawn in either size. */
export const seed = Number(TEST_SEED ?? 1);

export function sized<T>(name: string, { sample, whole }: { readonly sample: T; readonly whole: T }): T {
  return TEST_WHOLE === name ? whole : sample;
}

/** Reports whether the command line left out a tool, as `--without-go` does. */
export const leavesOut = (tool: string): boolean => (process.env.TEST_WITHOUT ?? "").split(",").includes(tool);

/** Returns all items in the whole run, and `count` items drawn by the seed in the sample. The order is kept. */
export function sampled<T>(name: string, items: readonly T[], count: number): T[] {
  return sized(name, { sample: drawn(items, count, seed), whole: [...items] });
}

export function drawn<T>(items: readonly T[], count: number, seed: number): T[] {
  const order = [...items.keys()].map((at) => ({ at, by: Bun.hash.wyhash(`${at}`, BigInt(seed)) }));
  order.sort((a, b) => (a.by < b.by ? -1 : 1));
  const kept = new Set(order.slice(0, count).map(({ at }) => at));
  return items.filter((_, at) => kept.has(at));
}

/**
 * Returns the number of runs of a property: all in the whole of `test properties`, a third in the sample. FC_RUNS=10
 * multiplies the full number by ten.
 */
export const times = (runs: number): number =>
  Math.ceil(runs * Number(process.env.FC_RUNS ?? sized("properties", { sample: 1 / 3, whole: 1 })));

/** Records a figure of the whole run's result, which is committed. Does nothing in the sample. */
export function figure(name: string, value: unknown): void {
  if (TEST_FIGURES) appendFileSync(TEST_FIGURES, `${JSON.stringify([name, value])}\n`);
}
