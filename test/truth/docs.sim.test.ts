/** Runs the code of docs/reference/truth-log.md with a log of `understudy replay` and with a running server. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hosted } from "../hosted.ts";
import { main } from "../program.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-truth-docs-"));
afterAll(() => rmSync(folder, { recursive: true }));
const docs = readFileSync(new URL("../../docs/reference/truth-log.md", import.meta.url), "utf8");

test("the documented program computes the time of each token", () => {
  // The pool is small enough to preempt requests, so that they have several runs.
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

test("reads the last requests of a running server from before a run to its end", async () => {
  const server = await hosted(["--timing", "constant:ttft=5ms,itl=1ms", "--served-model-name", "m"]);
  try {
    const [, code = ""] = [...docs.matchAll(/```js\n([\s\S]*?)```/g)][1] ?? [];
    const ask = `await Promise.all(Array.from({ length: 30 }, async (_, i) => (await fetch("${server.url}/v1/completions", {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": \`r\${i}\` },
      body: JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 5, ignore_eos: true, n: 1 + (i % 2) }),
    })).text()));`;
    const tell = "console.log(JSON.stringify([steps.size, [...rows].map(([id, found]) => [id, found.length])]));";
    const whole = code.replace("http://127.0.0.1:8000", server.url).replace("// … the run …", ask);
    writeFileSync(join(folder, "requests.mjs"), `${whole}\n${tell}\n`);
    const child = Bun.spawn([process.execPath, "requests.mjs"], { cwd: folder, stdout: "pipe" });
    const [steps, rows] = JSON.parse(await new Response(child.stdout).text()) as [number, [string, number][]];
    expect(steps).toBeGreaterThan(4);
    const wanted = Array.from({ length: 30 }, (_, i) => [`r${i}`, 1 + (i % 2)] as [string, number]);
    expect(new Map(rows)).toEqual(new Map(wanted));
  } finally {
    await server.stop();
  }
});
