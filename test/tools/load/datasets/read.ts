/** Helpers for tests of datasets: files to read, and functions that inspect turns. */
import { expect } from "bun:test";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DatasetOptions, dataset } from "../../../../src/tools/load/datasets/index.ts";
import type { Turn } from "../../../../src/tools/load/requests/types.ts";
import { type BadLine, TraceError } from "../../../../src/workloads/trace.ts";

/** A folder that the test has to remove. */
export const folder = mkdtempSync(join(tmpdir(), "understudy-datasets-"));

let files = 0;
export function file(text: string): string {
  const path = join(folder, `${files++}`);
  // Another test file of the same process may have removed the folder.
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, text);
  return path;
}
export const lines = (...rows: readonly unknown[]) =>
  file(rows.map((row) => (typeof row === "string" ? row : JSON.stringify(row))).join("\n"));

export const BASE = { chat: true, count: null, seed: 0, limit: null } as const;
type PartialOptions = Partial<DatasetOptions> & Pick<DatasetOptions, "name">;

/** Returns the first `most` items of a dataset. */
export async function read(
  options: PartialOptions,
  { seed = 0, most = 1000, warmUp = false } = {},
): Promise<(Turn | BadLine)[]> {
  const found = await dataset({ ...BASE, ...options });
  const items: (Turn | BadLine)[] = [];
  for (const item of warmUp ? found.warmUp(seed) : found.turns(seed)) {
    if (items.push(item) === most) break;
  }
  return items;
}

/** Returns the turns of a dataset without bad lines. */
export async function turns(options: PartialOptions, wanted?: Parameters<typeof read>[1]): Promise<Turn[]> {
  const items = await read(options, wanted);
  expect(items.filter((item) => "expected" in item)).toEqual([]);
  return items as Turn[];
}

export async function refusal(run: () => Promise<unknown>): Promise<string> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    expect(error.message).not.toContain("\n");
    return error.message;
  }
  throw new Error("it was taken");
}

/** Returns the tokens of a prompt: its ids, or the words of its text. */
export function tokensOf({ prompt }: Turn): readonly (string | number)[] {
  if (typeof prompt === "string") return prompt === "" ? [] : prompt.split(" ");
  return prompt as readonly number[];
}
export const beginning = (turn: Turn, tokens: number) => tokensOf(turn).slice(0, tokens).join(" ");
/** Smallest block size in use. Shorter common beginnings do not matter. */
export const BLOCK = 16;
