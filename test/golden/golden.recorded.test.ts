/** Checks that our decisions are identical to every recorded trace of vLLM 0.33, in both builds of the core. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { firstDifference, sideBySide } from "./compare.ts";
import { recordingsAt } from "./places.ts";

const folders = ["vllm-0.33", "random"];
const core = (name: string) => new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build", name)));
const release = core("core.wasm");
const debug = core("core.debug.wasm");

const traces = folders.flatMap((folder) =>
  readdirSync(join(import.meta.dir, folder))
    .sort()
    .map((name) => `${folder}/${name}`),
);
/**
 * Traces for the debug core, which walks all its structures after each call. Bursts of a thousand requests would take too
 * long.
 */
const small = traces.filter((name) => !name.includes("burst"));

/** Returns "" if every row is as recorded, otherwise the first difference. */
function verdict(name: string, module: WebAssembly.Module): string {
  const [file] = recordingsAt([join(import.meta.dir, name)]);
  const difference = firstDifference(file!.load(), module);
  return difference ? sideBySide(difference) : "";
}

test("all recordings exist", () => {
  expect(traces.length).toBe(192);
  expect(small.length).toBe(189);
});

test.each(traces)("%s is reproduced", (name) => expect(verdict(name, release)).toBe(""));

test.each(small)("%s is reproduced by the debug core", (name) => expect(verdict(name, debug)).toBe(""));
