/** Tests sequences: strategies, idle time, control inputs and invalid requests. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { atOnce } from "../../src/base/pieces.ts";
import { InferRequest } from "../../src/servers/triton/inference/request.ts";
import { sequenceInputs } from "../../src/servers/triton/inference/sequence-inputs.ts";
import type { ModelConfig, SequenceBatching } from "../../src/servers/triton/model-config/model-config.ts";
import { wrongControls } from "../../src/servers/triton/model-config/validate-sequences.ts";
import type { SequenceBatcher } from "../../src/servers/triton/scheduling/sequence-batcher.ts";
import type { SequenceId } from "../../src/servers/triton/scheduling/sequences.ts";
import { OLDEST, of, Request } from "../servers/triton/scheduling/sequence-histories.ts";
import { hostTriton } from "./child.ts";
import { decoded, encoded, input, int32, TritonClient } from "./grpc-client.ts";

const start = (id: SequenceId) => new Request(id, true);
const next = (id: SequenceId) => new Request(id);
const end = (id: SequenceId) => new Request(id, false, true);
const placed = (batcher: SequenceBatcher<Request>, nowUs: number) =>
  batcher
    .orders(nowUs)
    .placed!.map(({ rows }) => rows.map(({ request, ready }) => (ready ? request.sequenceId : null)));

test("direct: a slot without a request stays empty, and a batch ends before the next is formed", () => {
  const batcher = of({});
  for (const request of [start(1n), start("two"), next("two")]) batcher.enqueue(request, 0);
  expect(placed(batcher, 0)).toEqual([[1n, "two"]]);
  expect(placed(batcher, 10)).toEqual([]);
  batcher.freed(0);
  expect(placed(batcher, 20)).toEqual([[null, "two"]]);
});

test("a sequence without a slot waits for another's end, and an idle sequence loses its slot", () => {
  const batcher = of({ slots: 1 });
  batcher.enqueue(start(1n), 0);
  batcher.enqueue(start(2n), 0);
  expect(placed(batcher, 0)).toEqual([[1n]]);
  batcher.freed(0);
  expect(placed(batcher, 0)).toEqual([]);
  batcher.enqueue(end(1n), 500);
  expect(placed(batcher, 500)).toEqual([[1n]]);
  batcher.freed(0);
  expect(placed(batcher, 600)).toEqual([[2n]]);
  batcher.freed(0);
  batcher.enqueue(start(3n), 700);
  expect(placed(batcher, 900)).toEqual([]);
  expect(placed(batcher, 2000)).toEqual([[3n]]);
  expect(() => batcher.enqueue(next(2n), 2000)).toThrow(
    "inference request for sequence 2 to model 'm' must specify the START flag on the first request of the sequence",
  );
});

test("cancelling a request of an ended sequence does not affect a new sequence with the same id", () => {
  const batcher = of({});
  const ending = end(1n);
  batcher.enqueue(start(1n), 0);
  expect(placed(batcher, 0)).toEqual([[1n]]);
  batcher.enqueue(ending, 1);
  batcher.enqueue(start(1n), 2);
  ending.cancelled = true;
  batcher.freed(0);
  expect(placed(batcher, 3)).toEqual([[null, 1n]]);
  batcher.freed(0);
  batcher.enqueue(end(1n), 4);
  expect(placed(batcher, 4)).toEqual([[null, 1n]]);
});

test("oldest: sequences share a batch, with one request of each at a time", () => {
  const batcher = of({ strategy: OLDEST, slots: 4 });
  const first = [start(1n), start(2n), next(1n)];
  for (const request of first) batcher.enqueue(request, 0);
  expect(placed(batcher, 0)).toEqual([[1n, 2n]]);
  for (const request of first.slice(0, 2)) batcher.completed(request, 10);
  batcher.freed(0);
  expect(placed(batcher, 10)).toEqual([[1n]]);
});

test("a request waits in the backlog at most for its timeout; a request without a sequence is refused", () => {
  const batcher = of({ slots: 1 });
  batcher.enqueue(start(1n), 0);
  const late = new Request(2n, true, false, 100);
  batcher.enqueue(late, 0);
  expect(batcher.orders(50).wakeUs).toBe(100);
  expect(batcher.orders(100).rejected).toEqual([late]);
  expect(() => batcher.enqueue(start(0n), 0)).toThrow(
    "inference request to model 'm' must specify a non-zero or non-empty correlation ID",
  );
  const own = of({ iterative: true });
  own.enqueue(next(0n), 0);
  expect(placed(own, 0)).toEqual([[1n]]);
});

const config: ModelConfig = {
  name: "m",
  version_policy: {},
  max_batch_size: 4,
  input: [{ name: "IN", data_type: "TYPE_INT32", dims: [1] }],
  sequence_batching: {
    control_input: [
      { name: "START", control: [{ int32_false_true: [0, 7] }] },
      { name: "END", control: [{ kind: "CONTROL_SEQUENCE_END", fp32_false_true: [0, 1] }] },
      { name: "READY", control: [{ kind: "CONTROL_SEQUENCE_READY", bool_false_true: [false, true] }] },
      { name: "ID", control: [{ kind: "CONTROL_SEQUENCE_CORRID", data_type: "TYPE_UINT32" }] },
    ],
  },
};
const asked = (id: SequenceId) =>
  new InferRequest(
    config,
    {
      id: "",
      inputs: [{ name: "IN", datatype: "INT32", shape: [1, 1], data: Uint8Array.of(5, 0, 0, 0) }],
      outputs: [],
      parameters: [],
      priority: 0,
      timeoutUs: 0,
      sequence: { id, start: true, end: false },
    },
    { respond: () => {} },
  );

test("a model gets its controls as inputs; an id of a wrong type is refused", () => {
  const shown = (ready: boolean) =>
    [...sequenceInputs(config, { request: asked(300n), slot: 0, ready }).values()].map(({ name, datatype, data }) => [
      name,
      datatype,
      [...data],
    ]);
  expect(shown(true)).toEqual([
    ["IN", "INT32", [5, 0, 0, 0]],
    ["START", "INT32", [7, 0, 0, 0]],
    ["END", "FP32", [0, 0, 0, 0]],
    ["READY", "BOOL", [1]],
    ["ID", "UINT32", [44, 1, 0, 0]],
  ]);
  expect(shown(false).map(([, , data]) => data)).toEqual([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0], [0, 0, 0, 0]]);
  expect(() => asked("text")).toThrow(
    "[request id: <id_unknown>] sequence batching control 'ID' data-type is 'BYTES', but model 'm' expects 'UINT32'",
  );
});

test("invalid control inputs are refused with Triton's message", () => {
  const wrong = (...inputs: object[]) => atOnce(wrongControls({ control_input: inputs } as SequenceBatching, "m"));
  const flags = { int32_false_true: [0, 1] };
  const id = { kind: "CONTROL_SEQUENCE_CORRID", data_type: "TYPE_STRING" };
  const start = "for CONTROL_SEQUENCE_START for m";
  expect(wrong({ name: "a", control: [flags] }, { name: "b", control: [id] })).toBeUndefined();
  expect(wrong({ control: [flags] })).toBe("sequence batching control tensor must have a name for m");
  expect(wrong({ name: "a", control: [flags] }, { name: "a" })).toBe(
    "sequence batching control tensor 'a' is specified for multiple control kinds for m",
  );
  expect(wrong({ name: "a", control: [flags, flags] })).toBe(
    "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m",
  );
  expect(wrong({ name: "a", control: [{}] })).toBe(
    `sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' ${start}`,
  );
  expect(wrong({ name: "a", control: [{ ...flags, bool_false_true: [false, true] }] })).toBe(
    `sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' ${start}`,
  );
  expect(wrong({ name: "a", control: [{ fp32_false_true: [0] }] })).toBe(
    `sequence batching control 'fp32_false_true' must have exactly 2 entries ${start}`,
  );
  expect(wrong({ name: "a", control: [{ ...id, ...flags }] })).toContain("must not specify either");
  expect(wrong({ name: "a", control: [{ ...id, data_type: "TYPE_FP32" }] })).toContain(
    "unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are TYPE_UINT64,",
  );
});

/** Returns its input, after 300 ms for 1 and at once for 2. */
const LATER = `export default {
  execute(requests) {
    for (const request of requests) {
      const { data } = request.inputs.get("IN");
      setTimeout(() => request.send({ outputs: [{ ...request.inputs.get("IN"), name: "OUT" }] }, true), data[0] === 1 ? 300 : 0);
    }
    return null;
  },
};`;

test("oldest with preserve_ordering: responses leave in the order of the requests at the instance", async () => {
  const folder = mkdtempSync(join(tmpdir(), "triton-ordered-"));
  for (const kept of [true, false]) {
    mkdirSync(join(folder, `${kept}`, "1"), { recursive: true });
    const strategy = `oldest { max_candidate_sequences: 4 preserve_ordering: ${kept} }`;
    writeFileSync(
      join(folder, `${kept}`, "config.pbtxt"),
      `${PBTXT(strategy)} model_transaction_policy { decoupled: true }`,
    );
    writeFileSync(join(folder, `${kept}`, "model.ts"), LATER);
  }
  const child = await hostTriton([`--model-repository=${folder}`]);
  const client = new TritonClient(child.grpc);
  try {
    const ends: string[] = [];
    for (const kept of [true, false]) {
      const stream = client.stream();
      stream.on("data", (bytes: Buffer) => {
        const { infer_response: answer } = decoded("ModelStreamInferResponse", bytes);
        ends.push(`${kept} ${(answer as { id: string }).id}`);
      });
      const ended = new Promise((done) => stream.on("status", done));
      for (const value of [1, 2])
        stream.write(
          encoded("ModelInferRequest", {
            ...{ model_name: `${kept}`, id: `${value}` },
            parameters: { sequence_id: { int64_param: `${value}` }, sequence_start: { bool_param: true } },
            inputs: [{ ...input("IN", "INT32"), shape: ["1", "1"] }],
            raw_input_contents: [int32(value)],
          }),
        );
      stream.end();
      await ended;
    }
    expect(ends).toEqual(["true 1", "true 2", "false 2", "false 1"]);
  } finally {
    client.close();
    await child.stop(0);
    rmSync(folder, { recursive: true, force: true });
  }
});

const ACCUMULATES = `export default {
  sums: new Map(),
  execute(requests) {
    return requests.map(({ inputs }) => {
      const number = (name) => new DataView(inputs.get(name).data.slice().buffer).getInt32(0, true);
      if (inputs.get("READY").data[0] === 0) return { outputs: [] };
      const id = number("ID");
      const sum = (number("START") === 1 ? 0 : this.sums.get(id)) + number("IN");
      this.sums.set(id, sum);
      return { outputs: [{ ...inputs.get("IN"), name: "OUT", data: new Uint8Array(Int32Array.of(sum).buffer) }] };
    });
  },
};`;
const PBTXT = (strategy: string) => `backend: "python" max_batch_size: 4
  input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
  sequence_batching { ${strategy} control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
    { name: "READY" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } },
    { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT32 } } ] }`;

const REMEMBERS = `export default {
  execute(requests) {
    return requests.map(({ inputs }) => {
      const number = (name) => new DataView(inputs.get(name).data.slice().buffer).getInt32(0, true);
      const data = new Uint8Array(Int32Array.of(number("HELD") + number("IN")).buffer);
      const of = (name) => ({ ...inputs.get("IN"), name, data });
      return { outputs: [of("OUT"), of("LEFT")] };
    });
  },
};`;

test("implicit state: each sequence gets its last state, a new one the initial state; clients do not see it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "triton-states-"));
  const state = (more: string) =>
    `state { input_name: "HELD" output_name: "LEFT" data_type: TYPE_INT32 dims: [ -1 ] ${more} }`;
  const file = 'initial_state { data_type: TYPE_INT32 dims: [ 1 ] name: "first" data_file: "thousand" }';
  for (const [name, text] of [
    ["direct", PBTXT(`direct { } ${state("")}`)],
    ["oldest", PBTXT(`oldest { max_candidate_sequences: 2 } ${state(file)}`)],
    ["seen", `${PBTXT(`direct { } ${state("")}`)} output { name: "LEFT" data_type: TYPE_INT32 dims: [ 1 ] }`],
    ["short", PBTXT(`direct { } ${state(file.replace("thousand", "short"))}`)],
    ["missing", PBTXT(`direct { } ${state(file.replace("thousand", "none"))}`)],
    ["large", PBTXT(`direct { } ${state("").replace("-1", "99999999")}`)],
  ] as const) {
    mkdirSync(join(folder, name, "1"), { recursive: true });
    mkdirSync(join(folder, name, "initial_state"));
    writeFileSync(join(folder, name, "initial_state", "thousand"), Buffer.from(Int32Array.of(1000).buffer));
    writeFileSync(join(folder, name, "initial_state", "short"), "abc");
    writeFileSync(join(folder, name, "config.pbtxt"), text);
    writeFileSync(join(folder, name, "model.ts"), REMEMBERS);
  }
  const child = await hostTriton([`--model-repository=${folder}`, "--exit-on-error=false"]);
  try {
    const ask = async (name: string, id: number, value: number, parameters: object = {}) => {
      const inputs = [{ name: "IN", shape: [1, 1], datatype: "INT32", data: [value] }];
      const body = JSON.stringify({ inputs, parameters: { sequence_id: id, ...parameters } });
      const answer = await fetch(`${child.url}/v2/models/${name}/infer`, { method: "POST", body });
      return ((await answer.json()) as { outputs: { name: string; data: number[] }[] }).outputs.map(
        ({ name: output, data }) => `${output} ${data[0]}`,
      );
    };
    const [starts, ends] = [{ sequence_start: true }, { sequence_end: true }];
    for (const [name, first] of [
      ["direct", 0],
      ["oldest", 1000],
    ] as const) {
      expect(await ask(name, 1, 1, starts)).toEqual([`OUT ${first + 1}`]);
      expect(await Promise.all([ask(name, 2, 5, starts), ask(name, 1, 10)])).toEqual([
        [`OUT ${first + 5}`],
        [`OUT ${first + 11}`],
      ]);
      expect(await ask(name, 1, 100, ends)).toEqual([`OUT ${first + 111}`]);
      expect(await ask(name, 2, 1)).toEqual([`OUT ${first + 6}`]);
      expect(await ask(name, 1, 2, starts)).toEqual([`OUT ${first + 2}`]);
    }
    expect(await ask("seen", 1, 3, starts)).toEqual(["OUT 3", "LEFT 3"]);
    expect(child.output()).toContain("initial state 'HELD' of model 'short' has 3 bytes, expected 4");
    expect(child.output()).toContain("failed to open initial state file");
    expect(child.output()).toContain("state 'HELD' of model 'large' has 399999996 bytes: a stand-in takes 67108864");
  } finally {
    await child.stop(0);
    rmSync(folder, { recursive: true, force: true });
  }
});

test("sequences over HTTP add up separately; invalid ones are refused; each request counts once", async () => {
  const folder = mkdtempSync(join(tmpdir(), "triton-sequences-"));
  for (const [name, strategy] of [
    ["direct", "direct { }"],
    ["oldest", "oldest { max_candidate_sequences: 2 }"],
  ] as const) {
    mkdirSync(join(folder, name, "1"), { recursive: true });
    writeFileSync(join(folder, name, "config.pbtxt"), PBTXT(strategy));
    writeFileSync(join(folder, name, "model.ts"), ACCUMULATES);
  }
  const child = await hostTriton([`--model-repository=${folder}`]);
  try {
    for (const name of ["direct", "oldest"]) {
      const ask = async (value: number, parameters: object, count = 1) => {
        const inputs = [{ name: "IN", shape: [count, 1], datatype: "INT32", data: new Array(count).fill(value) }];
        const body = JSON.stringify({ inputs, parameters });
        const answer = await fetch(`${child.url}/v2/models/${name}/infer`, { method: "POST", body });
        const said = (await answer.json()) as { outputs?: { data: number[] }[]; error?: string };
        return said.outputs?.[0]?.data[0] ?? said.error;
      };
      const first = [1, 2, 3].map((id) => ask(id, { sequence_id: id, sequence_start: true, sequence_end: id === 3 }));
      expect(await Promise.all(first.slice(0, 2))).toEqual([1, 2]);
      expect(await Promise.all([ask(10, { sequence_id: 1 }), ask(20, { sequence_id: 2 })])).toEqual([11, 22]);
      expect(await ask(100, { sequence_id: 1, sequence_end: true })).toBe(111);
      expect(await first[2]).toBe(3);
      expect(await ask(1, { sequence_id: 1 })).toBe(
        `inference request for sequence 1 to model '${name}' must specify the START flag on the first request of the sequence`,
      );
      expect(await ask(1, {})).toBe(
        `inference request to model '${name}' must specify a non-zero or non-empty correlation ID`,
      );
      expect(await ask(1, { sequence_id: 9, sequence_start: true }, 2)).toBe(
        `inference request to model '${name}' must specify batch-size 1 due to requirements of sequence batcher`,
      );
      expect(await ask(1, { sequence_id: "a", sequence_start: true })).toContain("expects 'INT32'");
      const page = await (await fetch(`${child.metrics}/metrics`)).text();
      expect(page).toContain(`nv_inference_count{model="${name}",version="1"} 6`);
      expect(page).toContain(`nv_inference_pending_request_count{model="${name}",version="1"} 0`);
    }
  } finally {
    await child.stop(0);
    rmSync(folder, { recursive: true, force: true });
  }
});
