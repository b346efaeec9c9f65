/** Tests `understudy timing list` and `show`: their output and their refusals; and the limit of a folder for `fit`. */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { plot } from "../../../src/cli/plot.ts";
import { folderRun } from "../../../src/cli/timing/fit-folder.ts";
import { betweenTokensUs, firstToken } from "../../../src/engine/timing/curves.ts";
import { findPreset, presetNames } from "../../../src/engine/timing/presets.ts";
import { main } from "../../program.ts";

const root = new URL("../../../", import.meta.url).pathname;

function timing(...words: string[]) {
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, "timing", ...words], {
    cwd: root,
  });
  return { exitCode, out: stdout.toString(), error: stderr.toString() };
}

const NAME = "llama-3.1-70b-fp8-h100-tp2-vllm";

describe("list", () => {
  test("has a line for each preset, as text and as JSON", () => {
    const { exitCode, out, error } = timing("list");
    expect([exitCode, error]).toEqual([0, ""]);
    for (const name of presetNames) expect(out).toContain(`\n  ${name} `);
    const { presets, schema } = JSON.parse(timing("list", "--json").out);
    expect(schema).toBe("understudy-timing/1");
    expect(presets.map(({ name }: { name: string }) => name)).toEqual([...presetNames]);
    const mine = presets.find(({ name }: { name: string }) => name === NAME);
    expect(mine).toMatchObject({ model: "llama-3.1-70b", tp: 2, pool_tokens: 256_557, request_overhead_ms: 12 });
  });
});

describe("show", () => {
  test("prints tables and plots of a preset", () => {
    const { exitCode, out } = timing("show", NAME);
    expect(exitCode).toBe(0);
    // 12 ms of overhead, then one step of 1.014 · (80.46 + 1.326 + 0.001862 · 1024 + 0.000001876 · 524800) ms.
    expect(out).toMatch(/\n {2}1,024 +97\.86 +12\.00 +1\n/);
    expect(out).toMatch(/\n {2}16,384 +\d+\.\d +12\.00 +2\n/);
    // 64 sequences of 4,096 tokens do not fit the pool.
    expect(out).toMatch(/\n {2}64 +22\.50 +- +-\n/);
    expect(out).toContain("llama-3.1-70b, fp8, 2 × H100, measured on vllm 0.24.0");
    expect(out.match(/└┴─+/g)).toHaveLength(2);
  });

  test("--json prints the values of the formula", () => {
    const shown = JSON.parse(timing("show", `${NAME}:overhead=1ms`, "--json").out);
    const step = { ...findPreset(NAME)!.timing, requestOverheadUs: 1000 };
    expect(shown).toMatchObject({ timing: `${NAME}:overhead=1ms`, name: NAME, step });
    for (const { prompt_tokens: tokens, steps, ms } of shown.ttft) {
      expect({ steps, us: ms * 1000 }).toMatchObject({
        steps: Math.ceil(tokens / 8192),
        us: firstToken(step, tokens, 8192).us,
      });
    }
    expect(shown.itl.length).toBeGreaterThan(10);
    for (const { sequences, context_each: each, ms } of shown.itl) {
      expect(ms * 1000).toBeCloseTo(betweenTokensUs(step, sequences, each), 6);
      expect(sequences * each).toBeLessThanOrEqual(256_557);
    }
  });

  test.each(["constant:ttft=200ms,itl=20ms", "linear:base=4ms,prefill=0.02ms,decode=0.03ms,overhead=9ms"])(
    "accepts any timing: %s",
    (text) => {
      const { exitCode, out } = timing("show", text);
      expect(exitCode).toBe(0);
      expect(out).toMatch(text.startsWith("constant") ? /\n {2}1,024 +200\.0 / : /\n {2}1,024 +33\.48 +9\.00 +1\n/);
    },
  );
});

test.each([
  [[], "needs a command; there are list, show and fit"],
  [["draw"], '"draw" is not a command of timing; there are list, show and fit'],
  [["list", "x"], '"x": unexpected; timing list takes no name'],
  [["show"], "timing show takes one timing"],
  [["show", "a", "b"], "timing show takes one timing"],
  [["show", "a100"], '"a100": not a preset; must be none, constant:'],
  [["show", "none"], "has no times to show"],
  [["show", NAME, "--html"], "--html: unknown flag"],
  [["show", NAME, "--json=1"], '--json: takes no value, not "1"'],
])("timing %p is refused with one line and exit code 2", (words, why) => {
  const { exitCode, out, error } = timing(...words);
  expect([exitCode, out]).toEqual([2, ""]);
  expect(error.trimEnd().split("\n")).toHaveLength(1);
  expect(error).toStartWith("understudy timing: ");
  expect(error).toContain(why);
});

test("--help of each command prints the usage of all", () => {
  for (const words of [["--help"], ["show", "-h"], ["fit", "--help"]]) {
    const { exitCode, out } = timing(...words);
    expect(exitCode).toBe(0);
    expect(out).toContain("understudy timing fit FILE|FOLDER...");
  }
});

describe("a plot", () => {
  const draw = (at: (x: number) => number | undefined, xMost = 66) =>
    plot({ title: "T", xLabel: "x", xMost, series: [{ mark: "*", label: "", at }] }).split("\n");

  test("a straight line is a diagonal from the corner, on round numbers", () => {
    const lines = draw((x) => x);
    expect(lines[0]).toBe("T");
    expect(lines.at(-1)).toBe("    1               17              33              49              65  x");
    expect(lines.filter((line) => line.includes("┤")).map((line) => line.split("┤")[0]!.trim())).toEqual(
      [..."70 60 50 40 30 20 10 0".split(" ")].flatMap((number, i) => (i === 0 ? [number] : ["", number])),
    );
    const columns = lines.map((line) => line.indexOf("*")).filter((column) => column >= 0);
    expect(columns).toEqual([...columns].sort((a, b) => b - a));
  });

  test("each column with a value has a mark, and a column without a value has none", () => {
    const marks = (lines: string[]) => lines.join("").split("*").length - 1;
    expect(marks(draw(() => 3))).toBe(66);
    expect(marks(draw((x) => (x > 33 ? undefined : x)))).toBe(33);
    expect(marks(draw((x) => x / 1000, 3))).toBe(66);
  });
});

test("a folder of records is read only up to its limit, also if a record is a device", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fit-folder-"));
  symlinkSync("/dev/zero", join(folder, "endless.json"));
  await expect(folderRun(folder, {} as never, 2 ** 20)).rejects.toThrow("its files have more than 1 MiB");
  rmSync(folder, { recursive: true });
});
