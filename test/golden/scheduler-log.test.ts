/** Checks that our decisions are identical to those of the second, separate recording of vLLM 0.33's scheduler. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { firstDifference } from "./compare.ts";
import { ofScenario } from "./recording.ts";
import type { Scenario } from "./scheduler-log.ts";

const read = (path: string) => readFileSync(join(import.meta.dir, path));
const { scenarios } = JSON.parse(read("recorded/vllm-0.33.0-scheduler.json").toString()) as { scenarios: Scenario[] };
const builds = ["core.wasm", "core.debug.wasm"].map(
  (name) => [name, new WebAssembly.Module(read(`../../build/${name}`))] as const,
);

test("the recording has 34 scenarios, 4 of them with requests that wait for a grammar", () => {
  expect(scenarios.length).toBe(34);
  expect(scenarios.filter(({ requests }) => requests.some(({ gram_ready }) => gram_ready !== undefined)).length).toBe(
    4,
  );
});

for (const [build, module] of builds) {
  test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
    `%s is reproduced by the ${build}`,
    (_, scenario) => {
      expect(firstDifference(ofScenario(scenario), module)).toBeNull();
    },
  );
}

test("a changed number in any row is noticed", () => {
  const module = builds[0]![1];
  const scenario = scenarios.find(({ name }) => name === "async-random-tight")!;
  for (let index = 0; index < scenario.log.length; index++) {
    const log = structuredClone(scenario.log) as Record<string, unknown>[];
    if ("abort" in log[index]!) continue;
    log[index]!.free = Number(log[index]!.free) + 1;
    expect(firstDifference(ofScenario({ ...scenario, log }), module)!.index).toBe(index);
  }
});
