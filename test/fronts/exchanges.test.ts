/**
 * Plays recorded exchanges of vLLM's API through its real front ends, with our engine behind them. Python's front end must repeat
 * every byte. `vllm-rs` has a dialect of its own, so that text, calls, finish reasons and usage are compared. `explained.yaml`
 * has the reason of each difference.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { YAML } from "bun";
import { type Case, readFolder } from "../conformance/api/cases.ts";
import { difference } from "../conformance/api/compare.ts";
import { figure, leavesOut, sampled, sized } from "../size.ts";
import { readAnswer } from "./answers.ts";
import { isSingle, type PlayedCase, playExchanges } from "./play-exchanges.ts";
import { installPython, isPythonHere } from "./python-front.ts";
import type { FrontName } from "./real-front.ts";
import { isHere } from "./vllm-rs.ts";

setDefaultTimeout(1_800_000);

const recorded = readFolder(new URL("../conformance/recorded", import.meta.url).pathname, null);
const single = recorded.cases.filter(isSingle);
type Explanation = { readonly why: string; readonly whose: "front end" | "dialect"; readonly cases: string };
const table = YAML.parse(readFileSync(new URL("explained.yaml", import.meta.url), "utf8")) as Readonly<
  Record<FrontName, readonly Explanation[]>
>;
const explainedFor = (name: FrontName) => new Set(table[name].flatMap(({ cases }) => cases.split(/\s+/)));

/** Flags that `vllm-rs` refuses. It takes one key only. */
const PYTHON_ONLY =
  /^--(?:api-key|fingerprint-mode|override-generation-config|response-role|max-num-queued-reqs|enable-force-include-usage)$/;
const forVllmRs = single.filter(({ server_flags = [] }) => !server_flags.some((flag) => PYTHON_ONLY.test(flag)));

/** Returns the difference in bytes, with placeholders, or null. */
function inBytes({ recorded: { response, free_order }, answer }: PlayedCase): string | null {
  return "error" in answer ? answer.error : difference(response, answer, free_order === true);
}

const hasChoices = ({ response }: Case) => response.status === 200 && readAnswer(response) !== null;

/** Returns the difference in status, text, calls, finish reasons and usage, or null. */
function inMeaning({ recorded: { response }, answer }: PlayedCase): string | null {
  if ("error" in answer) return answer.error;
  if (answer.status !== response.status) return `status ${answer.status}, recorded ${response.status}`;
  if (answer.connection_closed_early) return "the answer was cut";
  const [was, is] = [response, answer].map((one) => {
    const read = one.status === 200 ? readAnswer(one) : null;
    return JSON.stringify(read && { choices: read.choices, usage: read.usage, failed: read.error !== null });
  });
  return was === is ? null : `recorded ${was}\n    got      ${is}`;
}

/** Expects exactly the explained differences among the played cases. Returns the number of equal cases. */
function expectExplained(
  name: FrontName,
  played: readonly PlayedCase[],
  differenceOf: (one: PlayedCase) => string | null,
): number {
  const differing = new Map(
    played.flatMap((one) => {
      const found = differenceOf(one);
      return found === null ? [] : [[one.recorded.name, found] as const];
    }),
  );
  const explained = explainedFor(name);
  expect([...differing].filter(([case_]) => !explained.has(case_))).toEqual([]);
  const names = played.map(({ recorded }) => recorded.name);
  expect(names.filter((case_) => explained.has(case_) && !differing.has(case_))).toEqual([]);
  return played.length - differing.size;
}

/** Reports whether a case needs no further try. */
function isAsExpected(name: FrontName, differenceOf: (one: PlayedCase) => string | null) {
  const explained = explainedFor(name);
  return (one: PlayedCase) => explained.has(one.recorded.name) || differenceOf(one) === null;
}

test("each explanation names cases that exist, once", () => {
  const known = new Set(single.map(({ name }) => name));
  for (const name of ["python", "vllm-rs"] as const) {
    const all = table[name].flatMap(({ cases }) => cases.split(/\s+/));
    expect(all.filter((case_) => !known.has(case_))).toEqual([]);
    expect(new Set(all).size).toBe(all.length);
  }
});

describe.skipIf(!isHere())("through vllm-rs", () => {
  test("text, calls, finish and usage are as recorded, except where explained", async () => {
    const plain = forVllmRs.filter(({ server_flags = [] }) => server_flags.length === 0);
    const cases = sized("fronts", { sample: sampled("fronts", plain, 60), whole: forVllmRs });
    const played = await playExchanges("vllm-rs", { ...recorded, cases }, isAsExpected("vllm-rs", inMeaning));
    const equal = expectExplained("vllm-rs", played, inMeaning);
    figure("vllm-rs recorded exchanges", { cases: cases.length, equal, explained: cases.length - equal });
    const accepted = played.filter(
      ({ recorded, answer }) => hasChoices(recorded) && !("error" in answer) && answer.status === 200,
    );
    for (const scope of ["without flags", "with all flags"]) {
      const both = accepted.filter(({ recorded }) => scope !== "without flags" || !recorded.server_flags?.length);
      const same = both.filter((one) => inMeaning(one) === null).length;
      figure(`vllm-rs answers with choices, ${scope}`, { answers: both.length, same });
    }
    // A request that is accepted is answered to its end.
    const cut = played.filter(({ answer }) => "error" in answer || answer.connection_closed_early);
    expect(cut.map(({ recorded }) => recorded.name)).toEqual([]);
  });
});

const withPython = sized("fronts", { sample: false, whole: true }) && !leavesOut("python");
describe.skipIf(!withPython)("through Python's API server", () => {
  test("every byte is as recorded, except where explained", async () => {
    if (!isPythonHere()) await installPython();
    const played = await playExchanges("python", { ...recorded, cases: single }, isAsExpected("python", inBytes));
    const equal = expectExplained("python", played, inBytes);
    figure("python recorded exchanges", { cases: single.length, equal, explained: single.length - equal });
    expect(equal).toBeGreaterThanOrEqual(386);
  });
});
