/** Tests the parts of a request's time, including inputs and answers: no part is always 0, and no time is counted twice. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import { statisticsOfAll } from "../../../../src/servers/triton/inference/described.ts";
import { pureServer } from "../../../triton/pure-server.ts";

const base = mkdtempSync(join(tmpdir(), "triton-spans-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** A clock that advances by a microsecond each time it is read. */
class TickingClock extends VirtualClock {
  #looks = 0;
  override now(): number {
    return super.now() + this.#looks++;
  }
}

const io = (input: string, output: string) => `
  input { name: "${input}" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "${output}" data_type: TYPE_FP32 dims: [ 1 ] }`;
const model = (input: string, output: string) => `backend: "tensorrt" max_batch_size: 4 ${io(input, output)}
  instance_group { kind: KIND_CPU }`;
const FIRST = 'parameters { key: "understudy_us" value { string_value: "base=2000,per_item=300,first=150000" } }';
const step = (name: string, input: string, output: string, from: string, to: string) =>
  `{ model_name: "${name}" model_version: -1 input_map { key: "${input}" value: "${from}" } output_map { key: "${output}" value: "${to}" } }`;
const MODELS = {
  a: model("x", "y"),
  b: model("y", "z"),
  cold: `${model("x", "y")} ${FIRST}`,
  warmed: `${model("x", "y")} ${FIRST} model_warmup {
    name: "first" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }`,
  both: `platform: "ensemble" max_batch_size: 4 ${io("in", "out")}
    ensemble_scheduling { step [ ${step("a", "x", "y", "in", "between")}, ${step("b", "y", "z", "between", "out")} ] }`,
};

async function served() {
  for (const [name, text] of Object.entries(MODELS)) {
    mkdirSync(join(base, name, "1"), { recursive: true });
    writeFileSync(join(base, name, "config.pbtxt"), text);
  }
  const clock = new TickingClock();
  const server = pureServer([`--model-repository=${base}`], clock);
  const pass = async (isDone: () => boolean) => {
    for (let turns = 0; !isDone() && turns < 1000; turns++) {
      clock.advanceTo(Math.max(clock.nextUs() === Infinity ? 0 : clock.nextUs(), clock.now()));
      await new Promise(setImmediate);
    }
  };
  let failures: string[] | null = null;
  void server.start().then((found) => (failures = found));
  await pass(() => failures !== null);
  expect(failures).toEqual([] as never);
  const ask = async (name: string) => {
    const [{ name: input = "" } = {}] = server.find(name, -1).config.input ?? [];
    const x = { name: input, datatype: "FP32" as const, shape: [2, 1], data: new Uint8Array(8) };
    const fields = { id: "", inputs: [x], outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
    let done = false;
    server.infer(name, -1, fields, { respond: () => (done = true) });
    await pass(() => done);
  };
  return { server, ask };
}

test("inputs and outputs take time, equally in all counts, and the parts stay within the whole", async () => {
  const { server, ask } = await served();
  for (let left = 5; left > 0; left--) await ask("both");
  const [a, b, both] = ["a", "b", "both"].map((name) => server.find(name, -1).statistics.spans);
  for (const [request, queue, input, infer, output] of [a!, b!, both!] as [number, number, number, number, number][]) {
    expect(Math.min(input, infer, output)).toBeGreaterThanOrEqual(5);
    // The time between the parts belongs to none of them.
    expect(queue + input + infer + output).toBeLessThan(request);
  }
  // The parts of an ensemble are the sums over its steps.
  expect(both!.slice(2)).toEqual(a!.slice(2).map((us, at) => us + b![at + 2]!));
  const [told] = statisticsOfAll([server.find("a", -1)]);
  const { inference_stats: whole, batch_stats: batches } = told!;
  const { compute_input, compute_infer, compute_output } = whole as Record<string, unknown>;
  expect(batches).toEqual([{ batch_size: 2, compute_input, compute_infer, compute_output }] as never);
});

test("the first batch of a cold instance is slow, and after a warm-up it is not", async () => {
  const { server, ask } = await served();
  const took = async (name: string) => {
    const before = server.find(name, -1).statistics.spans[3]!;
    await ask(name);
    return Math.floor((server.find(name, -1).statistics.spans[3]! - before) / 1000);
  };
  // Times are in milliseconds.
  expect([await took("cold"), await took("cold"), await took("warmed")]).toEqual([152, 2, 2]);
  expect(server.find("warmed", -1).statistics.success.count).toBe(2);
});
