/**
 * Finds the parsers of Python's front end whose streamed tool calls depend on how the same tokens fall into steps: vllm#55079 and
 * its five issues. `dependent-parsers.yaml` has what 0.33.0 does. The parsers of `vllm-rs` must not depend on it.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { YAML } from "bun";
import { figure, leavesOut, sized } from "../../size.ts";
import { installPython, isPythonHere } from "../python-front.ts";
import type { FrontName } from "../real-front.ts";
import { isHere } from "../vllm-rs.ts";
import { CALL_FORMATS, type CallFormat } from "./call-formats.ts";
import { CUTS, cutsOf } from "./cuts.ts";
import type { OracleRequest } from "./draw.ts";
import { markerModel } from "./marker-model.ts";
import { startServer } from "./three-servers.ts";

setDefaultTimeout(600_000);

const EOS = 1;
/** Slow enough that a front end gets the steps one by one. */
const TIMING = sized("fronts", { sample: "constant:ttft=2ms,itl=2ms", whole: "constant:ttft=30ms,itl=30ms" });
/** Parsers of Python's that `vllm-rs` has, too. */
const IN_RUST = ["deepseek_v3", "deepseek_v31", "llama3_json", "internlm"];
const isWhole = sized("fronts", { sample: false, whole: true });
/** Parsers by whether their calls depend on the steps. */
const known = YAML.parse(readFileSync(new URL("dependent-parsers.yaml", import.meta.url), "utf8")) as Readonly<
  Record<string, { readonly issue: string; readonly depends: boolean }>
>;

/** Returns the different results of each answer, by the cuts that give them. */
async function resultsOf(front: FrontName, { parser, marks, answers }: CallFormat): Promise<readonly string[][]> {
  const model = markerModel(marks);
  const server = await startServer(front, model.folder, { tools: parser }, TIMING);
  const all: string[][] = [];
  for (const answer of answers) {
    const tokens = [...model.tokens(answer), EOS];
    const results = await Promise.all(
      cutsOf(tokens, 1).map(async (script, index) => {
        const got = await server.ask({ ...REQUEST, tokens }, script);
        expect([parser, CUTS[index], "choices" in got]).toEqual([parser, CUTS[index], true]);
        return JSON.stringify("choices" in got && got.choices[0]!.calls);
      }),
    );
    all.push([...new Set(results)]);
  }
  await server.stop();
  rmSync(model.folder, { recursive: true });
  return all;
}

const TOOL = {
  type: "function",
  function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};
const REQUEST: Omit<OracleRequest, "tokens"> = {
  ...{ seed: 1, kind: "tools", path: "/v1/chat/completions" },
  body: { model: "golden", stream: true, messages: [{ role: "user", content: "hi" }], tools: [TOOL] },
};

test.skipIf(!isHere())("calls of vllm-rs do not depend on the steps", async () => {
  const formats = CALL_FORMATS.filter(({ parser }) => IN_RUST.includes(parser));
  for (const format of isWhole ? formats : formats.slice(0, 1)) {
    const results = await resultsOf("vllm-rs", format);
    expect([format.parser, results.filter((each) => each.length > 1)]).toEqual([format.parser, []]);
  }
});

test.skipIf(!isWhole || leavesOut("python"))("the issues of vllm#55079 are found in Python's front end", async () => {
  if (!isPythonHere()) await installPython();
  const found: Record<string, { issue: string; depends: boolean }> = {};
  for (const format of CALL_FORMATS) {
    const results = await resultsOf("python", format);
    found[format.parser] = { issue: format.issue, depends: results.some((each) => each.length > 1) };
  }
  expect(found).toEqual(known);
  const dependent = Object.entries(found).filter(([, { depends }]) => depends);
  figure(
    "parsers whose calls depend on the steps",
    dependent.map(([parser, { issue }]) => `${parser} (${issue})`),
  );
});
