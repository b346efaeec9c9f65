/** Tests that a model gets its tensors in the shape of `reshape`, and its client in that of the configuration. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import type { InferAnswer } from "../../../../src/servers/triton/inference/request.ts";
import type { TritonServer } from "../../../../src/servers/triton/inference/server.ts";
import { clientShape, modelShape } from "../../../../src/servers/triton/model-config/reshape.ts";
import { TritonError } from "../../../../src/servers/triton/model-config/status.ts";
import { pureServer } from "../../../triton/pure-server.ts";

const base = mkdtempSync(join(tmpdir(), "triton-reshape-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const tensor = (kind: "input" | "output", name: string, dims: string, more = "") =>
  `${kind} { name: "${name}" data_type: TYPE_FP32 dims: [ ${dims} ] ${more} }`;
const to = (shape: string) => `reshape { shape: [ ${shape} ] }`;
const model = (most: number, x: readonly [string, string?], y: readonly [string, string?], more = "") =>
  `backend: "identity" max_batch_size: ${most} ${tensor("input", "x", ...x)} ${tensor("output", "y", ...y)} ${more}`;
const IDENTITY = "behaviour.yaml" as const;
const making = (shape: string) => `export default { execute: (all) => all.map(({ inputs }) => {
  const x = inputs.get("x");
  return { outputs: [{ ...x, name: "y", shape: ${shape} }] };
}) }`;
const step = (name: string, from: string, into: string) =>
  `{ model_name: "${name}" model_version: -1 input_map { key: "x" value: "${from}" } output_map { key: "y" value: "${into}" } }`;

const MODELS: Readonly<Record<string, readonly [config: string, by?: typeof IDENTITY | string]>> = {
  // The outputs of these models have no reshape, so they show the shape that the model gets.
  input: [model(4, ["4", to("2, 2")], ["2, 2"]), IDENTITY],
  unbatched: [model(0, ["4", to("2, 2")], ["2, 2"]), IDENTITY],
  open: [model(4, ["-1, 2, -1", to("-1, 1, 2, -1")], ["-1, 1, 2, -1"]), IDENTITY],
  scalar: [model(4, ["1", "reshape { }"], ["1"]), IDENTITY],
  output: [model(4, ["6"], ["2, 3", to("6")]), IDENTITY],
  widened: [model(0, ["-1, 2"], ["-1, 1, 2", to("-1, 2")]), IDENTITY],
  flat: [model(4, ["1"], ["1, 1", "reshape { shape: [ ] }"]), making("[x.shape[0]]")],
  wrong: [model(4, ["6"], ["2, 3", to("6")]), making("[1, 12]")],
  drawn: [model(4, ["1"], ["2, 3", to("6")])],
  "drawn-open": [model(4, ["1"], ["-1, 3", to("-1, 3, 1")])],
  batched: [
    model(8, ["-1", to("-1, 1")], ["-1, 1"], "dynamic_batching { max_queue_delay_microseconds: 1000 }"),
    IDENTITY,
  ],
  ensemble: [
    `platform: "ensemble" max_batch_size: 4 ${tensor("input", "a", "2, 2", to("4"))} ${tensor("output", "b", "4", to("2, 2"))}
      ensemble_scheduling { step [ ${step("input", "a", "b")} ] }`,
  ],
};
const clock = new VirtualClock();
let server: TritonServer;

/** Advances the clock until `isDone`. Each turn waits for the event loop, because a `model.ts` is read in real time. */
async function pass(isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    if (clock.nextUs() !== Infinity) clock.advanceTo(Math.max(clock.nextUs(), clock.now()));
    await new Promise(setImmediate);
  }
}

beforeAll(async () => {
  for (const [name, [config, by]] of Object.entries(MODELS)) {
    mkdirSync(join(base, name, "1"), { recursive: true });
    writeFileSync(join(base, name, "config.pbtxt"), config);
    if (by === IDENTITY) writeFileSync(join(base, name, IDENTITY), "behaviour: identity");
    else if (by !== undefined) writeFileSync(join(base, name, "model.ts"), by);
  }
  server = pureServer([`--model-repository=${base}`], clock);
  let failures: string[] | null = null;
  void server.start().then((found) => (failures = found));
  await pass(() => failures !== null);
  expect(failures).toEqual([] as never);
});

function ask(name: string, shape: readonly number[]): { answer: InferAnswer | TritonError | null } {
  const [{ name: input = "" } = {}] = server.find(name, -1).config.input ?? [];
  const count = shape.reduce((all, size) => all * size, 1);
  const data = new Uint8Array(Float32Array.from({ length: count }, (_, at) => at).buffer);
  const inputs = [{ name: input, datatype: "FP32" as const, shape, data }];
  const asked: { answer: InferAnswer | TritonError | null } = { answer: null };
  const fields = { id: "", inputs, outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
  server.infer(name, -1, fields, { respond: (answer) => (asked.answer = answer) });
  return asked;
}

const shown = ({ answer }: { answer: InferAnswer | TritonError | null }) =>
  answer instanceof TritonError ? answer.message : answer?.outputs[0]?.shape;

test.each([
  ["input", [2, 4], [2, 2, 2]],
  ["unbatched", [4], [2, 2]],
  ["open", [3, 5, 2, 7], [3, 5, 1, 2, 7]],
  ["scalar", [3, 1], [3]],
  ["output", [1, 6], [1, 2, 3]],
  ["widened", [5, 2], [5, 1, 2]],
  ["flat", [3, 1], [3, 1, 1]],
  ["wrong", [2, 6], "model 'wrong' gave an output 'y' of shape [1,12], which does not fit its reshape"],
  ["drawn", [2, 1], [2, 2, 3]],
  ["drawn-open", [2, 1], [2, 1, 3]],
  // The client's [2, 2] is [4] in the ensemble, [2, 2] in its step, and [4] again in the ensemble's answer.
  ["ensemble", [3, 2, 2], [3, 4]],
])("%s: a tensor of %j is answered as %j", async (name, shape, expected) => {
  const asked = ask(name, shape);
  await pass(() => asked.answer !== null);
  expect(shown(asked) as unknown).toEqual(expected);
});

test("a client's shape is checked against dims", () => {
  expect(() => ask("input", [2, 2, 2])).toThrow("Expected [-1,4], got [2,2,2].");
  expect(() => ask("ensemble", [3, 4])).toThrow("Expected [-1,2,2], got [3,4].");
});

test("requests share a batch if the model sees equal shapes", async () => {
  const { statistics } = server.find("batched", -1);
  const asked = [ask("batched", [1, 2]), ask("batched", [1, 3]), ask("batched", [2, 3])];
  await pass(() => asked.every(({ answer }) => answer !== null));
  expect(asked.map(shown)).toEqual([
    [1, 2, 1],
    [1, 3, 1],
    [2, 3, 1],
  ]);
  expect([...statistics.batches.keys()]).toEqual([1, 3]);
});

test("variable dimensions keep their order on both sides", () => {
  const config = { name: "x", data_type: "TYPE_FP32", dims: [-1, 6, -1], reshape: { shape: [-1, 2, 3, -1] } };
  expect(modelShape([8, 5, 6, 7], config, 1)).toEqual([8, 5, 2, 3, 7]);
  expect(clientShape([8, 5, 2, 3, 7], config, 1)).toEqual([8, 5, 6, 7]);
  expect(clientShape([8, 5, 2], config, 1)).toBeUndefined();
});
