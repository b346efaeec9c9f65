/** Tests output and results of `understudy replay` for small traces in other tools' formats (test/workloads/traces). */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Results } from "../../../src/tools/replay/results.ts";
import { main } from "../../program.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-trace-cases-"));
afterAll(() => rmSync(folder, { recursive: true }));

const traceCase = (name: string) => new URL(`../../workloads/traces/${name}`, import.meta.url).pathname;
/** Flags for a timing of 10 ms to the first token and 10 ms per further token. */
const CONSTANT = ["--timing", "constant:ttft=10ms,itl=10ms"];

function replay(...argv: string[]) {
  const json = join(folder, "results.json");
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, "replay", ...argv, "--json", json]);
  const results = (): Results => JSON.parse(readFileSync(json, "utf8"));
  return { exitCode, out: stdout.toString(), err: stderr.toString(), results };
}

function rows(...each: readonly object[]): string {
  const path = join(folder, "rows.jsonl");
  writeFileSync(path, each.map((row) => JSON.stringify(row)).join("\n"));
  return path;
}
const row = (timestamp: number, more: object = {}) => ({
  timestamp,
  input_length: 600,
  output_length: 5,
  hash_ids: [1, 2],
  ...more,
});

describe("units", () => {
  test("bailian: times are seconds, an id is a block of 16 tokens, and the span is printed with its unit", () => {
    const { exitCode, out, err, results } = replay(traceCase("bailian.jsonl"), ...CONSTANT);
    expect([exitCode, err]).toEqual([0, ""]);
    expect(out).toContain("\ntrace span: 59.864 s (timestamps in seconds)\n");
    expect(out).not.toContain("warning");
    const { trace, requests, tokens, engine, duration_s } = results();
    expect(trace).toMatchObject({ format: "bailian", span_s: 59.864, timestamp_unit: "s" });
    expect([requests.finished, tokens.prompt_cached, engine.blockSize]).toEqual([3, 32, 16]);
    expect(duration_s).toBe(60.164);
  });

  test("the engine's block size may differ from the tokens per id", () => {
    const cached = (...argv: string[]) => replay(traceCase("bailian.jsonl"), ...argv).results().tokens.prompt_cached;
    expect(cached("--block-size", "32")).toBe(32);
    expect(cached("--block-size", "512")).toBe(0);
    const path = rows(row(0), row(1000));
    const mooncake = (...argv: string[]) => replay(path, ...argv).results().tokens.prompt_cached;
    expect(mooncake()).toBe(512);
    expect(mooncake("--block-size", "48")).toBe(576);
    expect(mooncake("--hash-block-tokens", "300", "--block-size", "100")).toBe(500);
  });

  test("if seconds are read as milliseconds, the printed span shows it, and a warning names the option", () => {
    const path = rows(row(1.25), row(3.5), row(61.114));
    const { out } = replay(path);
    expect(out).toContain("\ntrace span: 0.06 s (timestamps in milliseconds)\n");
    expect(out).toContain("\nwarning: timestamps were read as milliseconds, but they have fractions");
    const stated = replay(path, "--timestamp-unit", "s");
    expect(stated.out).toContain("\ntrace span: 59.864 s (timestamps in seconds)\n");
    expect(stated.out).not.toContain("warning");
    expect(stated.results().duration_s).toBeGreaterThan(59.8);
  });
});

describe("turns of a conversation", () => {
  const turn = (chat_id: number, parent_chat_id: number, timestamp: number, output_length: number) => ({
    ...{ chat_id, parent_chat_id, timestamp, output_length, input_length: 32, hash_ids: [1, 2] },
  });

  test("a later turn waits for the previous answer and for its own time, and other requests only for their time", () => {
    const argv = [...CONSTANT, "--format", "bailian"];
    const duration = (...each: readonly object[]) => replay(rows(...each), ...argv).results().duration_s;
    // The first answer takes one second, so the second turn begins at 1 s, or at its own later time.
    expect(duration(turn(1, -1, 0, 100), turn(2, 1, 0.5, 100))).toBe(2);
    expect(duration(turn(1, -1, 0, 100), turn(2, 1, 3, 100))).toBe(4);
    expect(duration(turn(1, -1, 0, 100), turn(2, -1, 0.5, 100))).toBeLessThan(1.6);
    expect(duration(turn(1, -1, 0, 100), turn(2, 1, 0.1, 100), turn(3, 2, 0.2, 100))).toBe(3);
  });

  test("a request after a waiting turn in the file is sent at its own time", () => {
    const path = rows(turn(1, -1, 0, 100), turn(2, 1, 0.1, 1), turn(3, -1, 0.2, 10));
    const { requests, e2e_ms } = replay(path, ...CONSTANT).results();
    expect(requests.finished).toBe(3);
    // The third request is planned in the step after its arrival.
    expect(e2e_ms.mean).toBe((1000 + 10 + 110) / 3);
  });
});

describe("skipped rows", () => {
  test("if all rows are skipped, one line has the number, the reasons and the options that select others", () => {
    const { exitCode, out, err } = replay(traceCase("burst.csv"));
    expect([exitCode, out]).toEqual([2, ""]);
    expect(err).toContain(
      "burst.csv: no request to send: 3 rows, 3 passed over: Model is gpt-4 (2), Model is ChatGPT (1); --trace-models and --trace-log-types choose others",
    );
  });

  test("if some rows are skipped, the reasons follow the table", () => {
    const { exitCode, out, results } = replay(traceCase("burst.csv"), "--trace-models", "gpt-4");
    expect(exitCode).toBe(0);
    expect(out).toContain("\ntrace rows: 3 rows, 1 passed over: Model is ChatGPT\n");
    expect(results().requests).toMatchObject({ finished: 2, passed_over: 1 });
    expect(replay(traceCase("sharegpt-oai.jsonl")).results().requests).toMatchObject({ finished: 1, passed_over: 0 });
  });
});

describe("hash ids, sessions, packed files", () => {
  const cached = (name: string) => replay(traceCase(name), ...CONSTANT).results();

  test("large ids that differ, and rows without ids, share no block", () => {
    for (const [name, requests] of [
      ["big.jsonl", 4],
      ["big2.jsonl.gz", 2],
      ["nohash.jsonl", 2],
    ] as const) {
      const { requests: counts, tokens } = cached(name);
      expect([name, counts.finished, tokens.prompt_cached]).toEqual([name, requests, 0]);
    }
  });

  test("a row with a pause instead of a time is sent that long after the previous answer", () => {
    // The first answer ends after 0.1 s. The third request begins 2 s later and takes 0.1 s.
    const { duration_s, tokens, requests } = cached("delta.jsonl");
    expect([requests.finished, tokens.prompt_cached]).toEqual([3, 512]);
    expect(duration_s).toBeWithin(2.2, 2.25);
  });
});

describe("agents", () => {
  test("weka: an id is a block of 64 tokens, and a turn waits for its recorded time and its recorded pause", () => {
    const { out, results } = replay(traceCase("weka.jsonl"), ...CONSTANT);
    expect(out).toContain("\ntrace span: 4.5 s (timestamps in seconds)\n");
    const { requests, tokens, engine, duration_s } = results();
    expect([requests.finished, tokens.prompt, tokens.prompt_cached, engine.blockSize]).toEqual([2, 1600, 640, 64]);
    expect(duration_s).toBe(4.5 + 0.6);
    // The answer takes 4 s, so with the pause of 3.3 s the next turn begins after its recorded time.
    const slow = replay(traceCase("weka.jsonl"), "--timing", "constant:ttft=100ms,itl=100ms").results();
    expect(slow.duration_s).toBeWithin(4 + 3.3 + 6, 4 + 3.3 + 6.2);
  });

  test("otel: a span is a request", () => {
    const { out, results } = replay(traceCase("otel.jsonl"), ...CONSTANT);
    expect(out).toContain("\ntrace span: 0 s (timestamps are dates)\n");
    expect(results()).toMatchObject({
      trace: { format: "otel" },
      tokens: { prompt: 120, generated: 30 },
      duration_s: 0.3,
    });
  });
});
