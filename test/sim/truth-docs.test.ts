/** Does the code of docs/truth-log.md find the time of each token in a log that `understudy replay` wrote? */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "understudy-truth-docs-"));
afterAll(() => rmSync(folder, { recursive: true }));
const docs = readFileSync(new URL("../../docs/truth-log.md", import.meta.url), "utf8");
const main = new URL("../../src/main.ts", import.meta.url).pathname;

test("per-token times", () => {
  // A pool in which some are preempted, so that requests have several runs.
  const trace = "synthetic:isl=100,osl=50-150,concurrency=8,requests=40";
  const pool = ["--max-model-len", "256", "--num-gpu-blocks-override", "40"];
  const replayed = Bun.spawnSync([process.execPath, main, "replay", trace, ...pool, "--truth-log", "truth.jsonl"], {
    cwd: folder,
  });
  expect(replayed.exitCode).toBe(0);
  const [, code = ""] = /```js\n([\s\S]*?)```/.exec(docs) ?? [];
  const ask = "console.log(JSON.stringify(lines.filter((l) => l.type === 'request').map((l) => [l, due(l)])));";
  writeFileSync(join(folder, "times.mjs"), `${code}\n${ask}\n`);
  const { stdout } = Bun.spawnSync([process.execPath, "times.mjs"], { cwd: folder });
  const rows = JSON.parse(stdout.toString());
  expect(rows).toHaveLength(40);
  expect(rows.some(([{ runs }]: [{ runs: unknown[] }]) => runs.length > 1)).toBe(true);
  for (const [request, times] of rows) {
    expect(times).toHaveLength(request.outputTokens);
    expect([times[0], times.at(-1)]).toEqual([request.prefillEndUs, request.endUs]);
    expect(times).toEqual(times.toSorted((a: number, b: number) => a - b));
  }
});
