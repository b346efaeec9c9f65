/** Tests `understudy fault`: an example for every fault in every way, and the list of faults. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { exampleOf } from "../../src/faults/example.ts";
import { explainPlan } from "../../src/faults/explain.ts";
import { parsePlan } from "../../src/faults/parse.ts";
import type { FaultParameter, FaultRow } from "../../src/faults/plan/types.ts";
import { faultRulesOf, POLICY } from "../../src/faults/rows/row.ts";
import { FAULT_ROWS } from "../../src/faults/table.ts";
import { main } from "../program.ts";

setDefaultTimeout(120_000);

const ordered = [...FAULT_ROWS.values()].filter(({ stage }) => stage !== "client");
const wordsOf = (parameter: FaultParameter) =>
  parameter.type === "word" ? parameter.words.map((word) => `,${parameter.name}=${word}`) : [""];
/** Returns each combination of the words that the fault accepts. */
const waysOf = ({ id, parameters }: FaultRow): string[] =>
  parameters.reduce((plans, parameter) => plans.flatMap((plan) => wordsOf(parameter).map((word) => plan + word)), [id]);

/** Removes the header that names the plan. */
const bare = (lines: readonly string[]) => lines.map((line) => line.replace(/x-understudy-fault: .*?(\\r|…|$)/, ""));

test("explain shows an example that the fault changes, for each fault in each of its ways and any seed", () => {
  const plans = ordered.flatMap(waysOf).flatMap((plan) => [0, 1, 2, 3].map((seed) => `${plan}#seed=${seed}`));
  expect(plans.length).toBeGreaterThan(700);
  const idle = plans.filter((plan) => {
    const { idle, lines, plainLines } = exampleOf(parsePlan(plan));
    return idle.length > 0 || Bun.deepEquals(bare(lines), bare(plainLines));
  });
  expect(idle).toEqual([]);
});

test("the example of explain contains the position that a plan names, and marks the changed lines", () => {
  for (const plan of ["E7@e40", "J2@e300", "B4@b9000", "S14@?200,dropped", "T1@e10,2s"])
    expect([plan, exampleOf(parsePlan(plan)).idle]).toEqual([plan, []]);
  const text = explainPlan(parsePlan("S4@e2,ping"));
  expect(text).toContain("a correct client: ignored (WHATWG HTML, 9.2.6)");
  const marked = text.split("\n").filter((line) => line.startsWith(">"));
  expect(marked.length).toBe(2);
  expect(marked[1]).toContain(": ping\\n\\ndata: ");
  expect(explainPlan(parsePlan("A1,day;E6@e2"))).toContain("E6@e2 did not act");
});

test(`a row has the source "policy" exactly if it judges no client`, () => {
  for (const row of FAULT_ROWS.values())
    for (const { way, rule } of faultRulesOf(row))
      expect([row.id, way, rule.text === POLICY]).toEqual([row.id, way, rule.allows === "policy"]);
});

test("the list has a line per way, can be JSON or filtered by name, and refuses an unknown name", () => {
  const fault = (...words: string[]) => {
    const { stdout, stderr, exitCode } = Bun.spawnSync([process.execPath, main, "fault", ...words]);
    return { out: stdout.toString(), err: stderr.toString(), exitCode };
  };
  const all = fault("list").out.trim().split("\n");
  expect(all.length).toBe([...FAULT_ROWS.values()].flatMap(faultRulesOf).length);
  expect(all.find((line) => line.startsWith("B8 "))).toMatch(/^B8 +byte order mark at the start$/);
  expect(fault("list", "S1*").exitCode).toBe(2);
  expect(fault("list", "J7", "T*").out.trim().split("\n").length).toBe(6 + 1 + 1 + 1 + 1 + 3 + 1 + 2);
  const [first] = JSON.parse(fault("list", "--json", "B8").out);
  expect(first).toMatchObject({
    fault: "B8",
    text: "WHATWG HTML, 9.2.6",
    oracle: "the mark is ignored",
    ordered: true,
  });
  expect(fault("explain").exitCode).toBe(2);
  expect(fault("list", "X9").err).toContain("X9: not a fault");
});
