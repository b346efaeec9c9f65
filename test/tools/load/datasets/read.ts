/** What tests of datasets have in common: files to read, and turns to look at. */
import { expect } from "bun:test";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DatasetOptions, dataset } from "../../../../src/tools/load/datasets/index.ts";
import type { Turn } from "../../../../src/tools/load/requests/types.ts";
import { type BadLine, TraceError } from "../../../../src/workloads/trace.ts";

/** The test that uses it removes it. */
export const folder = mkdtempSync(join(tmpdir(), "understudy-datasets-"));

let files = 0;
export function file(text: string): string {
  const path = join(folder, `${files++}`);
  // Another test file of the same process may have removed it.
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, text);
  return path;
}
export const lines = (...rows: readonly unknown[]) =>
  file(rows.map((row) => (typeof row === "string" ? row : JSON.stringify(row))).join("\n"));

export const BASE = { chat: true, count: null, seed: 0, limit: null } as const;
type Given = Partial<DatasetOptions> & Pick<DatasetOptions, "name">;

/** The first `most` items of a dataset. */
export async function read(given: Given, { seed = 0, most = 1000, warmUp = false } = {}): Promise<(Turn | BadLine)[]> {
  const found = await dataset({ ...BASE, ...given });
  const items: (Turn | BadLine)[] = [];
  for (const item of warmUp ? found.warmUp(seed) : found.turns(seed)) {
    if (items.push(item) === most) break;
  }
  found.close();
  return items;
}

/** Turns of a dataset in which nothing is wrong. */
export async function turns(given: Given, wanted?: Parameters<typeof read>[1]): Promise<Turn[]> {
  const items = await read(given, wanted);
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

/** What a prompt has for tokens: ids, or the words of a text. */
export function tokensOf({ prompt }: Turn): readonly (string | number)[] {
  if (typeof prompt === "string") return prompt === "" ? [] : prompt.split(" ");
  return prompt as readonly number[];
}
export const beginning = (turn: Turn, tokens: number) => tokensOf(turn).slice(0, tokens).join(" ");
/** A block of the smallest size in use: what may not be shared by accident. */
export const BLOCK = 16;
