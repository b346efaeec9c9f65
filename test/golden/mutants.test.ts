/** Checks that the comparison notices wrong decisions: recordings with one changed value, and unknown rows and options. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { sampled } from "../size.ts";
import { firstDifference } from "./compare.ts";
import { mutate } from "./mutate.ts";
import { recordingsAt } from "./places.ts";
import { ofTrace } from "./recording.ts";
import { readTrace, type Trace } from "./trace.ts";

const folder = join(import.meta.dir, "vllm-0.33");
const random = join(import.meta.dir, "random");
const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build/core.wasm")));
const names = readdirSync(folder)
  .filter((name) => /\.jsonl(\.gz)?$/.test(name))
  .sort();
const load = (name: string): Trace => {
  const bytes = readFileSync(join(folder, name));
  return readTrace((name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString(), name);
};
const differs = (trace: Trace) => firstDifference(ofTrace(trace), module);

/** Returns the seeds for a recording. Large recordings take a second each, so they get one seed. */
const seedsOf = (name: string) => (name.endsWith(".gz") ? [1] : sampled("golden", [1, 2, 3, 4, 5, 6], 2));

test("every mutant of every recording is noticed", () => {
  const unnoticed: string[] = [];
  for (const name of names) {
    for (const seed of seedsOf(name)) {
      const trace = load(name);
      const change = mutate(ofTrace(trace), seed);
      if (!differs(trace)) unnoticed.push(`${name}, seed ${seed}: ${change}`);
    }
  }
  expect(unnoticed).toEqual([]);
});

test("every mutant of the random recordings is noticed", () => {
  const unnoticed: string[] = [];
  for (const { name, load: fresh } of recordingsAt([random])) {
    for (const seed of sampled("golden", [1, 2, 3], 1)) {
      const recording = fresh();
      const change = mutate(recording, seed);
      if (!firstDifference(recording, module)) unnoticed.push(`${name}, seed ${seed}: ${change}`);
    }
  }
  expect(unnoticed).toEqual([]);
});

test("a mutant is noticed at its row or before it", () => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const trace = load("multi_turn_async.jsonl");
    const row = Number(/^row (\d+)/.exec(mutate(ofTrace(trace), seed))![1]);
    expect(differs(trace)!.index).toBeLessThanOrEqual(row);
  }
});

test("a missing, doubled or moved row is noticed", () => {
  const at = (trace: Trace) => trace.rows.findIndex((row, i) => i > 4 && row.t === "s");
  const changes: ((trace: Trace) => void)[] = [
    (trace) => trace.rows.splice(at(trace), 1),
    (trace) => trace.rows.splice(at(trace), 0, trace.rows[at(trace)]!),
    (trace) => trace.rows.splice(at(trace) + 1, 0, trace.rows.splice(at(trace), 1)[0]!),
  ];
  for (const change of changes) {
    const trace = load("many_short_async.jsonl");
    change(trace);
    expect(differs(trace)).not.toBeNull();
  }
});

test("an unknown key of a row is noticed", () => {
  for (const kind of ["s", "u", "add", "end"]) {
    const trace = load("single_request.jsonl");
    trace.rows.find((row) => row.t === kind)!.unheard = 1;
    expect(differs(trace)!.keys).toEqual(["unheard"]);
  }
});

test("an unknown kind of row is an error", () => {
  const trace = load("single_request.jsonl");
  trace.rows.unshift({ t: "sleep" });
  expect(differs(trace)!.ours).toEqual({ error: "Error: unknown kind of row: sleep" });
});

test("an unknown option is an error", () => {
  const trace = load("single_request.jsonl");
  Object.assign(trace.config, { num_speculative_tokens: 2 });
  expect(() => differs(trace)).toThrow("unknown option in the header: num_speculative_tokens");
});

test("a file with a wrong row count in its header is refused", () => {
  const lines = readFileSync(join(folder, "single_request.jsonl"), "utf8").trimEnd().split("\n");
  const cut = [...lines.slice(0, 8), ...lines.slice(9)].join("\n");
  expect(() => readTrace(cut, "cut.jsonl")).toThrow("the header counts other rows than the file has");
});
