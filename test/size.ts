/**
 * How much of a test runs? What takes long has two sizes: a seeded sample of at most 20 s, which every run of all tests
 * has, and the whole, `npx bun run test:NAME` (scripts/test-whole.ts, which sets what is read here).
 */
import { appendFileSync } from "node:fs";

// Without the program's own prefix: servers that tests start would name them as unknown options.
const { TEST_WHOLE, TEST_SEED, TEST_FIGURES } = process.env;

/** Decides what the sample holds, and what is drawn in either size. */
export const seed = Number(TEST_SEED ?? 1);

export function sized<T>(name: string, { sample, whole }: { readonly sample: T; readonly whole: T }): T {
  return TEST_WHOLE === name ? whole : sample;
}

/** All of them in the whole; in the sample so many, drawn by the seed. In their order. */
export function sampled<T>(name: string, items: readonly T[], count: number): T[] {
  return sized(name, { sample: drawn(items, count, seed), whole: [...items] });
}

export function drawn<T>(items: readonly T[], count: number, seed: number): T[] {
  const order = [...items.keys()].map((at) => ({ at, by: Bun.hash.wyhash(`${at}`, BigInt(seed)) }));
  order.sort((a, b) => (a.by < b.by ? -1 : 1));
  const kept = new Set(order.slice(0, count).map(({ at }) => at));
  return items.filter((_, at) => kept.has(at));
}

/** Runs of a property: all in the whole of `test:properties`, a third in the sample. FC_RUNS=10 is ten times as many as all. */
export const times = (runs: number): number =>
  Math.ceil(runs * Number(process.env.FC_RUNS ?? sized("properties", { sample: 1 / 3, whole: 1 })));

/** A figure of the whole's result, which is committed; nothing in the sample. */
export function figure(name: string, value: unknown): void {
  if (TEST_FIGURES) appendFileSync(TEST_FIGURES, `${JSON.stringify([name, value])}\n`);
}
