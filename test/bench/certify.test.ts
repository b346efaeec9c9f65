/** Tests the comparison of load generators with the truth, and that docs/explanation/measuring.md contains the measured values. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import fc from "fast-check";
import { chunkEnds, compare, type ToolRequest, type TrueRequest, truthOf } from "../../bench/certify/compare.ts";
import { lastRun } from "../../bench/certify/page.ts";
import { scenarios } from "../../bench/certify/scenarios.ts";
import { tools } from "../../bench/certify/tools.ts";
import { freePort } from "../../bench/lib/servers.ts";
import manifest from "../../package.json";
import { pageTexts } from "../../scripts/docs/pages.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";

const root = new URL("../../", import.meta.url).pathname;

/**
 * Truth of five tokens. Each follows 20 ms after the one before, except the fourth after 500 ms. The first was written 100 ms
 * after the arrival.
 */
const LINES = [
  ...[100, 120, 140, 640, 660].map((ms, i) => ({
    ...{ type: "step", engine: 0, step: i + 7, tokens: 1 },
    ...{ dueUs: ms * 1000, writeStartUs: ms * 1000, writeEndUs: ms * 1000 },
  })),
  {
    ...{ type: "request", engine: 0, id: "chatcmpl-r", requestId: "r", order: 0, preemptions: 1 },
    ...{ arrivalUs: 0, scheduledUs: 0, firstWrittenUs: 100_000, lastWrittenUs: 660_000 },
    runs: [
      [7, 3],
      [10, 2],
    ],
  },
  { type: "page", requests: 1, steps: 5, next: "x", more: false, missed: 0 },
].map((line) => JSON.stringify(line));

const seen: ToolRequest = {
  ...{
    id: "r",
    ttftMs: 101,
    e2eMs: 663,
    tpotMs: 140.5,
    itlMs: [20, 20, 501, 21],
    gapsMs: [20, 20, 501, 21],
    chunks: 5,
  },
};

describe("compare", () => {
  test("a request is found by its id or by its answer's id, or counts as missing", () => {
    const truth = truthOf(LINES);
    const all = [seen, { ...seen, id: "chatcmpl-r" }, { ...seen, id: "of somebody else" }];
    expect(compare(all, truth, 1)).toMatchObject({ requests: 2, missing: 1, chunks: { tool: 10, written: 10 } });
  });

  test("errors are the tool's values minus the truth", () => {
    const { errors, reported, truth, preemptions } = compare([seen], truthOf(LINES), 1);
    expect([errors.ttft.p50, errors.e2e.p50, errors.tpot.p50]).toEqual([1, 3, 0.5]);
    expect(errors.gap).toMatchObject({ count: 4, p50: 0.5, max: 1 });
    expect([reported.itl.max, truth.itl.max, truth.tpot.p50, preemptions]).toEqual([501, 500, 140, 1]);
  });

  test("with chunks of two tokens, gaps are those between last tokens", () => {
    const paired = { ...seen, itlMs: [40, 520], gapsMs: [40, 520], chunks: 3 };
    expect(compare([paired], truthOf(LINES), 2).errors.gap).toMatchObject({ count: 2, p50: 0, max: 0 });
    // If the numbers of chunks differ, no gap can be matched.
    expect(compare([paired], truthOf(LINES), 1).errors.gap.count).toBe(0);
  });

  test("a value that the tool does not report has no error", () => {
    const { errors } = compare([{ ...seen, tpotMs: null, gapsMs: null }], truthOf(LINES), 1);
    expect([errors.tpot.count, errors.gap.count, errors.tpot.p50]).toEqual([0, 0, null]);
  });

  test("a step that the server no longer has is reported", () => {
    expect(() => truthOf(LINES.slice(1))).toThrow("no longer knows the step of token 0 of chatcmpl-r");
  });

  test("a tool without delay has no error, whatever the chunks are", () => {
    const steps = fc.array(fc.integer({ min: 1, max: 1e6 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 9 }), (gaps, interval) => {
        let us = 0;
        const tokenUs = gaps.map((gap) => (us += gap));
        const [ttftMs, e2eMs] = [tokenUs[0]! / 1000, us / 1000];
        const ends = chunkEnds(tokenUs.length, interval).map((end) => tokenUs[end]!);
        const gapsMs = ends.slice(1).map((at, i) => (at - ends[i]!) / 1000);
        const tpotMs = tokenUs.length > 1 ? (e2eMs - ttftMs) / (tokenUs.length - 1) : null;
        const request: TrueRequest = { ttftMs, e2eMs, preemptions: 0, tokenUs };
        const tool: ToolRequest = { id: "r", ttftMs, e2eMs, tpotMs, itlMs: gapsMs, gapsMs, chunks: ends.length };
        const { errors, chunks } = compare([tool], new Map([["r", request]]), interval);
        expect(chunks.tool).toBe(chunks.written);
        expect(errors.gap.count).toBe(gapsMs.length);
        for (const { p1, p50, max } of Object.values(errors)) expect([p1 ?? 0, p50 ?? 0, max ?? 0]).toEqual([0, 0, 0]);
      }),
    );
  });

  test("chunks are the first token alone, then groups of the interval, then the rest", () => {
    expect([chunkEnds(0, 4), chunkEnds(1, 4), chunkEnds(5, 4), chunkEnds(6, 4), chunkEnds(3, 1)]).toEqual([
      ...[[], [0], [0, 4], [0, 4, 5]],
      [0, 1, 2],
    ]);
  });
});

describe("early-role.ts", () => {
  let server: HostedServer;
  let proxy: Bun.Subprocess;
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  beforeAll(async () => {
    server = await hosted(["--served-model-name", "m", "--timing", "constant:ttft=2s,itl=1ms"]);
    const words = ["bench/certify/early-role.ts", new URL(server.url).port, "--port", String(port)];
    proxy = Bun.spawn([process.execPath, ...words], { cwd: root });
    await eventually(() =>
      fetch(`${url}/health`).then(
        ({ ok }) => ok,
        () => false,
      ),
    );
  });
  afterAll(async () => {
    proxy.kill();
    await server.stop();
  });

  test.each([
    ["an id of the client's", { "x-request-id": "mine" }],
    ["no id", {}],
  ] as const)(
    "the role chunk comes once, before the server's first token, with the answer's id; the request has %s",
    async (_, more) => {
      const messages = [{ role: "user", content: "Hello" }];
      const body = JSON.stringify({ model: "m", messages, stream: true, max_tokens: 5, ignore_eos: true });
      const headers = { "content-type": "application/json", ...more };
      const tokens = () => sample(server.url, "vllm:generation_tokens_total");
      const before = await tokens();
      const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
      const reader = answer.body!.getReader();
      const first = new TextDecoder().decode((await reader.read()).value);
      expect(await tokens()).toBe(before);
      let text = first;
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        text += new TextDecoder().decode(next.value);
      }
      const events = text.trimEnd().split("\n\n");
      expect(events.at(-1)).toBe("data: [DONE]");
      const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice("data: ".length)));
      expect(first.trimEnd()).toBe(events[0]!);
      expect(chunks.map(({ choices }) => choices[0].delta.role)).toEqual(["assistant", ...Array(5).fill(undefined)]);
      expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
      if ("x-request-id" in more) expect(chunks[0].id).toBe("chatcmpl-mine");
    },
  );
});

describe("docs/explanation/measuring.md", () => {
  const { old: page, now } = pageTexts("docs/explanation/measuring.md");
  const run = lastRun();

  test("the tables are those of the last run, with each tool in each scenario", () => {
    expect(page).toBe(now);
    const wanted = scenarios.flatMap(({ name }) => tools.map((tool) => `${name} × ${tool.name}`));
    expect(run.rows.map(({ scenario, tool }) => `${scenario} × ${tool}`)).toEqual(wanted);
    for (const [i, { name, requests }] of scenarios.entries()) {
      for (const row of run.rows.slice(i * tools.length, (i + 1) * tools.length)) {
        expect([name, row.tool, row.requests, row.missing]).toEqual([name, row.tool, requests, 0]);
      }
    }
  });

  test("scenarios did what their names say: preemptions with pauses, and chunks of four tokens", () => {
    for (const { scenario, tool, preemptions, truth, chunks } of run.rows) {
      expect([tool, scenario, preemptions > 0]).toEqual([tool, scenario, scenario === "preemption"]);
      if (scenario === "preemption") expect(truth.itl.max!).toBeGreaterThan(10 * truth.itl.p99!);
      const { requests, tokens, interval } = scenarios.find(({ name }) => name === scenario)!;
      expect(chunks.written).toBe(requests * chunkEnds(tokens, interval).length);
    }
  });

  test("versions of other tools are the pinned ones", () => {
    for (const { name, version, needs } of tools) {
      if (needs) expect(run.rows.find(({ tool }) => tool === name)?.version).toBe(version);
    }
  });

  test("commands that the page names exist", () => {
    const named = [...page.matchAll(/bun run ([\w:-]+)/g)].map(([, name]) => name!);
    expect(named.filter((name) => !(name in manifest.scripts))).toEqual([]);
    expect(named.length).toBeGreaterThan(0);
    const files = [...page.matchAll(/(?:^|[\s`])(?:\.\/)?((?:bin|bench|test)\/[\w./-]+)/gm)].map(([, path]) => path!);
    expect(files).toContain("bin/understudy");
    expect(files).toContain("bench/certify/vllm_serve.py");
    expect(files.filter((path) => !existsSync(root + path) && !path.startsWith("bench/results/"))).toEqual([]);
    for (const { needs } of tools) {
      if (needs) expect(existsSync(root + /-r (\S+)$/.exec(needs.make)![1]!)).toBe(true);
    }
  });
});
