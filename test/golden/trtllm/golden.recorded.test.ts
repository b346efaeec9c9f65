/**
 * Checks that our decisions are identical to every recording of TensorRT-LLM's schedulers, in both builds of the core, and
 * that the comparison notices differences.
 */
import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { sampled } from "../../size.ts";
import { firstDifference, sideBySide } from "../compare.ts";
import { mutate } from "../mutate.ts";
import type { RecordingFile } from "../places.ts";
import { ofTrtTrace, trtRecordingsAt } from "./places.ts";
import { activeOrder } from "./project.ts";

const recordings = join(import.meta.dir, "recordings");
const core = (name: string) => new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../../build", name)));
const release = core("trtllm.wasm");
const debug = core("trtllm.debug.wasm");
const all = [...trtRecordingsAt([recordings])].map((file) => ({
  ...file,
  short: file.name.slice(recordings.length + 1),
}));

/** Returns "" if every row is as recorded, otherwise the first difference. */
function verdict({ load }: RecordingFile, module: WebAssembly.Module): string {
  const difference = firstDifference(load(), module);
  return difference ? sideBySide(difference) : "";
}

test("all recordings exist", () => {
  const kinds = [/^[^/]+\.jsonl/, /^overlap\//, /#/].map((kind) => all.filter(({ short }) => kind.test(short)).length);
  expect(kinds).toEqual([73, 45, 104]);
});

test.each(all.map((file) => [file.short, file] as const))("%s is reproduced by both cores", (_, file) => {
  expect(verdict(file, release)).toBe("");
  expect(verdict(file, debug)).toBe("");
});

test.each(sampled("golden", [1, 2], 1))(
  "every mutant with seed %p is noticed",
  (seed) => {
    const unnoticed: string[] = [];
    for (const { short, load } of all) {
      if (seed > 1 && short.includes("burst")) continue;
      const { start, rows } = load();
      // The rows of a project test are shared, so each mutant needs a copy.
      const recording = { start, rows: structuredClone(rows) };
      const change = mutate(recording, seed);
      if (!firstDifference(recording, release)) unnoticed.push(`${short}: ${change}`);
    }
    expect(unnoticed).toEqual([]);
  },
  120_000,
);

const single = gunzipSync(readFileSync(join(recordings, "single.jsonl.gz"))).toString();

test.each([
  ['"t":"req"', '"t":"req","images":1', "single.jsonl:2: the request has an unknown key: images"],
  ['"config":{', '"config":{"beam_width":2,', "single.jsonl:1: the configuration has an unknown key: beam_width"],
  ['"two_step_lookahead":false,', "", "single.jsonl:1: the configuration lacks two_step_lookahead"],
  ['"requests":1', '"requests":2', "single.jsonl: the header counts other requests than the file has"],
  ["GUARANTEED_NO_EVICT", "PREFILL_FIRST", "unknown policy: PREFILL_FIRST"],
  ['{"t":"end"', '{"t":"sleep"', "single.jsonl: the last row is not the end"],
  ['{"t":"it"', "{", "single.jsonl:3: not JSON"],
])("a trace with %j as %j is refused", (from, to, why) => {
  const text = single.replace(from, to);
  expect(text).not.toBe(single);
  expect(() => firstDifference(ofTrtTrace(text, "single.jsonl"), release)).toThrow(why);
});

test("unknown keys and missing rows are noticed", () => {
  for (const text of [
    single.replace('"wait":0', '"wait":0,"unheard":1'),
    single.replace(/\{"t":"it","it":3.*\n/, ""),
  ]) {
    expect(text).not.toBe(single);
    expect(firstDifference(ofTrtTrace(text, "single.jsonl"), release)).not.toBeNull();
  }
});

test("the C++ executor's active list is ordered by priority, first come among equals", () => {
  const { priority_insertion } = JSON.parse(
    gunzipSync(readFileSync(join(recordings, "project-tests.json.gz"))).toString(),
  );
  expect(activeOrder(priority_insertion.priorities, debug)).toEqual(priority_insertion.order);
});

function command(...words: string[]) {
  const run = Bun.spawnSync([process.execPath, join(import.meta.dir, "golden.ts"), ...words]);
  return { code: run.exitCode, lines: run.stdout.toString().trim().split("\n"), error: run.stderr.toString().trim() };
}

test("the command plays folders with subfolders, names absent recordings, and refuses a folder without recordings", () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-trtllm-"));
  writeFileSync(join(folder, "other.json"), "{}");
  writeFileSync(join(folder, "README.md"), "not looked at");
  const none = command(folder);
  expect([none.code, none.error]).toEqual([
    2,
    `golden trtllm: no recordings (*.jsonl, *.json of project tests, also .gz) in ${folder}`,
  ]);
  writeFileSync(join(folder, "cut.jsonl"), single.slice(0, 1000));
  const cut = command(folder);
  expect([cut.code, cut.lines.at(-1)]).toEqual([1, "0 passed, 1 failed"]);
  rmSync(folder, { recursive: true });
  expect(command("--only", "single,capacity/STATIC_BATCH/SimpleShouldFit", recordings).lines).toEqual([
    "3 passed, 0 failed",
  ]);
  expect(command("--only", "overlap/single_stop,nobody")).toEqual({
    code: 1,
    lines: ["absent nobody", "1 passed, 1 failed"],
    error: "",
  });
  expect(command("--mutate", "x").error).toBe("golden trtllm: --mutate: must be a whole number");
  expect(command("--mutate", "5", "--only", "fuzz_02")).toEqual({ code: 0, lines: ["0 passed, 1 failed"], error: "" });
}, 120_000);
