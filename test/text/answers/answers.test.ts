/** Lengths of answers that nothing else ends: the option `--output-tokens`, and their distribution over seeds. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { refusalOf } from "../../../src/cli/serve/serve.ts";
import { naturalLength } from "../../../src/text/answers/answers.ts";
import { outputLengthsText, parseOutputLengths } from "../../../src/text/answers/length-forms.ts";
import { readOutputLengths } from "../../../src/workloads/output-lengths.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-lengths-"));
afterAll(() => rmSync(folder, { recursive: true }));
const writeFile = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

describe("--output-tokens", () => {
  test.each([
    ["constant:1", { kind: "constant", tokens: 1 }],
    ["constant:1000000", { kind: "constant", tokens: 1_000_000 }],
    ["lognormal:mean=40", { kind: "lognormal", meanTokens: 40, sigma: 0.7 }],
    ["lognormal:mean=40.5,sigma=0", { kind: "lognormal", meanTokens: 40.5, sigma: 0 }],
    ["trace:a b:c.jsonl", { kind: "trace", file: "a b:c.jsonl" }],
  ] as const)("%s", (text, lengths) => {
    expect(parseOutputLengths(text)).toEqual(lengths);
    expect(parseOutputLengths(outputLengthsText(lengths))).toEqual(lengths);
  });

  test.each([
    ...["", "7", "constant:", "constant:0", "constant:1.5", "constant:1000001", "constant:-1", "Constant:1"],
    ...["lognormal:", "lognormal:40", "lognormal:mean=0", "lognormal:mean=40,sigma=4", "lognormal:sigma=1"],
    ...["lognormal:mean=4,sigma=1,", "trace:", "normal:mean=4", "lognormal:mean=1.2.3"],
  ])("refused: %p", (text) => {
    expect(parseOutputLengths(text)).toBeUndefined();
  });

  const resolved = (...flags: string[]) => resolveServeConfig(flags, {}, () => "");

  test("an error lists the accepted forms in one line; --mean-output-tokens excludes --output-tokens", () => {
    const refused = resolved("--output-tokens", "gauss:4");
    expect(JSON.stringify(refused)).toContain(
      "constant:N, lognormal:mean=N,sigma=X, or trace:FILE; lengths up to 1000000, sigma up to 3",
    );
    const both = resolved("--output-tokens", "constant:4", "--mean-output-tokens", "9");
    expect(JSON.stringify(both)).toContain(
      "--mean-output-tokens: --output-tokens (constant:4) sets it too; use one of them",
    );
    expect(resolved("--mean-output-tokens", "9")).toMatchObject({
      config: { text: { outputTokens: { kind: "lognormal", meanTokens: 9, sigma: 0.7 } } },
    });
  });

  test("an error of a trace names the file, the fault and the accepted forms", () => {
    const started = resolved();
    if (!("config" in started)) throw new Error("the defaults are refused");
    const messageFor = (file: string) => {
      try {
        readOutputLengths(file);
      } catch (error) {
        return refusalOf(started.config, error);
      }
      return null;
    };
    const missing = join(folder, "missing.csv");
    expect(messageFor(missing)).toBe(`--output-tokens trace: cannot read "${missing}" (ENOENT)`);
    const empty = writeFile("empty.csv", "");
    expect(messageFor(empty)).toBe(`--output-tokens trace: ${empty}: the trace is empty`);
    const prose = writeFile("prose.txt", "Hello there\n");
    expect(messageFor(prose)).toBe(
      `--output-tokens trace: ${prose}: its format is not recognised; a trace of mooncake, bailian, weka, azure, burstgpt, otel, sharegpt or our truth log is expected`,
    );
    const spoiled = writeFile("spoiled.jsonl", '{"timestamp":0,"input_length":5,"output_length":0,"hash_ids":[1]}\n');
    expect(messageFor(spoiled)).toBe(
      `--output-tokens trace: ${spoiled}:1: expected "output_length": a whole number of at least 1, not 0`,
    );
  });

  test("a length in a trace that exceeds 32 bits becomes the largest length", () => {
    const long = writeFile(
      "long.jsonl",
      `{"timestamp":0,"input_length":5,"output_length":${2 ** 32},"hash_ids":[1]}\n`,
    );
    expect(readOutputLengths(long)).toEqual(Uint32Array.of(2 ** 30));
  });
});

describe("over consecutive seeds, as choices have them", () => {
  const COUNT = 20_000;
  const seeds = Array.from({ length: COUNT }, (_, seed) => seed + 7);

  test("log-normal lengths have the right mean and quantiles, and neighbours are independent", () => {
    const draw = naturalLength({ kind: "lognormal", meanTokens: 300, sigma: 0.5 }, null);
    const logs = seeds.map((seed) => Math.log(draw(seed)));
    const scores = logs.map((log) => (log - (Math.log(300) - 0.125)) / 0.5);
    // Shares of a normal distribution below each score.
    for (const [z, share] of [
      [-2, 0.02275],
      [-1, 0.15866],
      [0, 0.5],
      [1, 0.84134],
      [2, 0.97725],
    ] as const)
      expect(Math.abs(scores.filter((score) => score < z).length / COUNT - share)).toBeLessThan(0.015);
    const neighbours = scores.slice(1).reduce((sum, score, i) => sum + score * scores[i]!, 0) / (COUNT - 1);
    expect(Math.abs(neighbours)).toBeLessThan(4 / Math.sqrt(COUNT));
  });

  test("lengths of a trace occur as often as in the trace", () => {
    const draw = naturalLength({ kind: "trace", file: "" }, Uint32Array.of(5, 5, 9, 70));
    const counts = new Map<number, number>();
    for (const seed of seeds) counts.set(draw(seed), (counts.get(draw(seed)) ?? 0) + 1);
    for (const [length, share] of [
      [5, 0.5],
      [9, 0.25],
      [70, 0.25],
    ] as const)
      expect(Math.abs(counts.get(length)! / COUNT - share)).toBeLessThan(0.02);
    expect(counts.size).toBe(3);
  });
});
