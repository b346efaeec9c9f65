/** Tests `understudy truth`: the true times of a run of any load tool, and the error of that tool's own figures. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MEASURED_MOST, readMeasured } from "../../../src/tools/load/measured-file.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { main } from "../../program.ts";

setDefaultTimeout(30_000);

const folder = mkdtempSync(join(tmpdir(), "truth-command-"));
let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--timing", "constant:ttft=20ms,itl=2ms"]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function run(...words: string[]) {
  const child = Bun.spawn([process.execPath, main, "truth", ...words], { cwd: folder, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, err };
}

const write = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return name;
};

/** Three steps of 10 ms. The first request has tokens in all of them, the second in the last two. */
const LOG = [
  { type: "header", schema: 1 },
  ...[1, 2, 3].map((step) => ({
    ...{ type: "step", engine: 0, step, dueUs: step * 10_000, writeStartUs: step * 10_000, tokens: 1 },
    writeEndUs: step * 10_000,
  })),
  {
    ...{ type: "request", engine: 0, order: 0, id: "chatcmpl-a", requestId: "a", arrivalUs: 2000, scheduledUs: 3000 },
    ...{ firstWrittenUs: 10_000, lastWrittenUs: 30_000, outputTokens: 3, runs: [[1, 3]] },
  },
  {
    ...{ type: "request", engine: 0, order: 1, id: "chatcmpl-b", requestId: "b", arrivalUs: 10_000 },
    ...{ scheduledUs: 12_000, firstWrittenUs: 20_000, lastWrittenUs: 30_000, outputTokens: 2, runs: [[2, 2]] },
  },
  { type: "request", engine: 0, order: 2, id: "c", arrivalUs: 11_000, firstWrittenUs: null, outputTokens: 0, runs: [] },
]
  .map((line) => JSON.stringify(line))
  .join("\n");

test("durations of a truth log follow from the times in its rows", async () => {
  write("log.jsonl", `${LOG}\n`);
  const { code, out } = await run("log.jsonl", "--json");
  const { requests, withoutToken, times, compared } = JSON.parse(out);
  expect([code, requests, withoutToken, compared]).toEqual([0, 2, 1, null]);
  expect([times.ttft.count, times.ttft.mean, times.ttft.p50]).toEqual([2, 9, 9]);
  expect([times.itl.count, times.itl.min, times.itl.max]).toEqual([3, 10, 10]);
  expect([times.tpot.mean, times.e2e.mean, times.e2e.max]).toEqual([10, 24, 28]);
  const table = await run("log.jsonl");
  expect(table.out).toContain("of 2 generations that gave tokens; 1 gave no token");
  expect(table.out).toMatch(/^E2E +2 +24\.000 +24\.000 +27\.200 +27\.920$/m);
});

test.each([
  ["request_id,ttft,e2e\na,9,30\nb,11,20\nz,1,1\n"],
  ["Request ID,TTFT_s,E2E Latency_s\na,0.009,0.03\nb,0.011,0.02\nz,1,1\n"],
  ["Request-ID,Time to First Token (ms),Request Latency [s]\na,9,0.03\nb,11,0.02\nz,1,1\n"],
  ['"requestId","ttft_us","e2el_ms"\n"a",9000,30\n"b",11000,20\n"z",1,1\n'],
  [
    '{"request_id":"a","ttft_ms":9,"e2e_ms":30}\n{"request_id":"b","ttft_ms":11,"e2e_ms":20}\n{"request_id":"z","e2e_ms":1}\n',
  ],
])("the error is measured minus true, for each form of the tool's file: %j", async (text) => {
  write("log.jsonl", LOG);
  write("measured", text);
  const { code, out } = await run("log.jsonl", "--compare", "measured", "--json");
  const { compared } = JSON.parse(out);
  expect([code, compared.requests, compared.unknown]).toEqual([0, 2, 1]);
  const { ttft, e2e } = compared.errors;
  expect([ttft.count, ttft.min, ttft.max].map((ms) => Math.round(ms * 1e6) / 1e6)).toEqual([2, 1, 1]);
  expect([e2e.count, e2e.min, e2e.max].map((ms) => Math.round(ms * 1e6) / 1e6)).toEqual([2, 0, 2]);
  expect((await run("log.jsonl", "--compare", "measured")).out).toContain(
    "of 2 requests in both; 1 of the file are not in the truth",
  );
});

test("rows of a running server are read from a cursor on, and a client's times are never below the truth", async () => {
  const { code, out } = await run(server.url, "--since", "end", "--json");
  expect(code).toBe(1);
  const rows: string[] = [];
  for (let at = 0; at < 5; at++) {
    const startMs = performance.now();
    const answer = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": `r${at}` },
      body: JSON.stringify({ prompt: "Hello", max_tokens: 5, ignore_eos: true }),
    });
    await answer.text();
    rows.push(`r${at},${performance.now() - startMs}`);
  }
  write("client.csv", `request_id,latency\n${rows.join("\n")}\n`);
  const { next } = JSON.parse(out);
  const since = JSON.parse((await run(server.url, "--since", next, "--compare", "client.csv", "--json")).out);
  expect([since.requests, since.compared.requests, since.compared.unknown]).toEqual([5, 5, 0]);
  expect(since.times.itl.count).toBe(20);
  expect(since.compared.errors.e2e.min).toBeGreaterThan(0);
  const all = JSON.parse((await run(`${server.url}/understudy/requests`, "--json")).out);
  expect(all.requests).toBe(5);
  expect((await run(server.url)).out).toContain(`to read only newer requests next time: --since ${all.next}`);
});

test("a tool may name a request by the id of its answer, of any endpoint, whether or not it sent one", async () => {
  const { next } = JSON.parse((await run(server.url, "--since", "end", "--json")).out);
  const rows: string[] = [];
  const bodies = {
    completions: { prompt: "Hello", max_tokens: 3 },
    "chat/completions": { messages: [{ role: "user", content: "Hello" }], max_tokens: 3 },
    messages: {
      model: "meta-llama/Llama-3.1-8B-Instruct",
      messages: [{ role: "user", content: "Hello" }],
      max_tokens: 3,
    },
    responses: { input: "Hello", max_output_tokens: 3 },
  };
  for (const [path, body] of Object.entries(bodies))
    for (const sent of [null, `sent-${path}`]) {
      const headers = { "content-type": "application/json", ...(sent && { "x-request-id": sent }) };
      const answer = await fetch(`${server.url}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      rows.push(`${((await answer.json()) as { id: string }).id},1000`);
    }
  write("by-answer.csv", `id,e2e\n${rows.join("\n")}\n`);
  const { compared } = JSON.parse((await run(server.url, "--since", next, "--compare", "by-answer.csv", "--json")).out);
  expect([compared.requests, compared.unknown]).toEqual([8, 0]);
});

test("a file of more than 1,000,000 requests is refused, with the line", () => {
  const path = join(folder, write("many.csv", "request_id,ttft\na,1\nb,1\nc,1\n"));
  expect(readMeasured(path, "ms", 3).size).toBe(3);
  expect(() => readMeasured(path, "ms", 2)).toThrow("many.csv:4: more than 2 requests");
  expect(MEASURED_MOST).toBe(1_000_000);
});

test.each([
  [["nothing-here"], /cannot read "nothing-here" \(ENOENT\)/],
  [["log.jsonl", "--since", "5"], /--since: a file has no cursor; give a URL/],
  [["log.jsonl", "--compare", "no-id.csv"], /no-id\.csv:1: expected a request's id with ttft or e2e/],
  [["log.jsonl", "--compare", "empty.csv"], /empty\.csv: no requests; expected/],
  [["log.jsonl", "--unit", "h"], /--unit: takes s or ms or us or ns, not "h"/],
  [["http://127.0.0.1:1"], /http:\/\/127\.0\.0\.1:1: .*is it an Understudy server\?/],
  [[], /takes one URL or one file/],
] as const)("%j is refused with one line and exit code 2", async (words, why) => {
  write("log.jsonl", LOG);
  write("no-id.csv", "name,ttft\na,1\n");
  write("empty.csv", "request_id,ttft\n");
  const { code, out, err } = await run(...words);
  expect([code, out, err.trimEnd().split("\n").length]).toEqual([2, "", 1]);
  expect(err).toMatch(why);
});
