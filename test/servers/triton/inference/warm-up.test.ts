/** Tests that each instance is warmed with the data of `model_warmup` before it serves, and that a load fails if that fails. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import type { TritonServer } from "../../../../src/servers/triton/inference/server.ts";
import { pureServer } from "../../../triton/pure-server.ts";

const base = mkdtempSync(join(tmpdir(), "triton-warm-up-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const model = (
  most: number,
  instances = 1,
  more = "",
  type = "TYPE_INT32",
) => `backend: "python" max_batch_size: ${most}
  input { name: "x" data_type: ${type} dims: [ -1 ] } output { name: "y" data_type: ${type} dims: [ -1 ] }
  instance_group { kind: KIND_CPU count: ${instances} } ${more}`;
const input = (data: string, { name = "x", type = "TYPE_INT32", dims = "2" } = {}) =>
  `inputs { key: "${name}" value { data_type: ${type} dims: [ ${dims} ] ${data} } }`;
const warmup = (batch: number, count: number, ...inputs: string[]) =>
  `model_warmup { name: "w" batch_size: ${batch} count: ${count} ${inputs.join(" ")} }`;
const ZERO = input("zero_data: true");
const [FAILS, SEES, TAKES_TURNS] = [
  "export default { execute() { throw new Error('cold'); } }",
  `export default { execute: (all, { name }) => all.map(({ inputs }) => {
    globalThis.seenInWarmUp[name] = [...inputs.values()];
    return { outputs: [] };
  }) }`,
  "export default { execute: (all) => all.map((_, at) => at === 1 ? { error: { message: 'the second' } } : { outputs: [] }) }",
] as const;

const seen: Record<string, readonly { name: string; shape: readonly number[]; data: Uint8Array }[]> = {};
Object.assign(globalThis, { seenInWarmUp: seen });

type Folder = readonly [config: string, code?: string];
const GOOD: Readonly<Record<string, Folder>> = {
  instances: [`${model(0, 3)} ${warmup(1, 2, ZERO)}`],
  batches: [`${model(4)} ${warmup(3, 2, ZERO)}`],
  skipped: [`${model(4)} ${warmup(0, 2, ZERO)}`, FAILS],
  once: [`${model(0)} ${warmup(1, 0, ZERO)}`],
  decoupled: [
    `${model(4, 2)} model_transaction_policy { decoupled: true } ${warmup(2, 2, ZERO)}`,
    `export default { async execute(all, { sleep }) {
      for (const one of all) void sleep(1).then(() => one.send({ outputs: [] }, true));
      return null;
    } }`,
  ],
  file: [`${model(4)} ${warmup(2, 1, input('input_data_file: "four"', { dims: "3" }))}`, SEES],
  texts: [
    `${model(0, 1, "", "TYPE_STRING")} ${warmup(1, 1, input('input_data_file: "text"', { type: "TYPE_STRING", dims: "1" }))}`,
    SEES,
  ],
  random: [`${model(0)} ${warmup(1, 1, input("random_data: true"))}`, SEES],
  controls: [
    `${model(4)} sequence_batching { control_input { name: "START" control { int32_false_true: [ 0, 1 ] } } }
      ${warmup(1, 1, ZERO, input("zero_data: true", { name: "START", dims: "1" }))}`,
    SEES,
  ],
};
const INVALID = "Invalid argument: ";
const LOGGED = `${INVALID}[request id: <id_unknown>] `;
const cold = (name: string, instance: string) =>
  `Failed to process the request(s) for model instance '${instance}', message: Error: cold\n\nAt:\n  ${base}/${name}/1/model.py(1): execute\n; `;
/** A file that is not in the folder `warmup`. Whether it exists and how large it is does not change the error. */
const elsewhere = (name: string, file: string) => ({
  [name]: [
    `${model(4)} ${warmup(1, 1, input(`input_data_file: "${file}"`))}`,
    SEES,
    `Internal: failed to open text file for read ${base}/${name}/warmup/${file}: No such file or directory`,
  ] as const,
});
const BAD: Readonly<Record<string, readonly [...folder: Folder, said: string]>> = {
  raises: [
    `${model(4, 2)} ${warmup(2, 1, ZERO)}`,
    FAILS,
    `${INVALID}failed to run warmup sample 'w': ${cold("raises", "raises_0_0").repeat(2)};`,
  ],
  errors: [
    `${model(4)} ${warmup(2, 1, ZERO)}`,
    TAKES_TURNS,
    `${INVALID}failed to run warmup sample 'w': the second; ;`,
  ],
  "too-many": [
    `${model(0)} ${warmup(2, 1, ZERO)}`,
    SEES,
    `${INVALID}failed to run warmup sample 'w': ${"batch size 2 for 'too-many_0_0', max allowed is 0; ".repeat(2)};`,
  ],
  shape: [
    `${model(4)} ${warmup(1, 1, input("zero_data: true", { dims: "2, 2" }))}`,
    SEES,
    `${LOGGED}unexpected shape for input 'x' for model 'shape'. Expected [-1,-1], got [1,2,2].`,
  ],
  type: [
    `${model(4)} ${warmup(1, 1, input("zero_data: true", { type: "TYPE_FP32" }))}`,
    SEES,
    `${LOGGED}inference input 'x' data-type is 'FP32', but model 'type' expects 'INT32'`,
  ],
  missing: [`${model(4)} ${warmup(1, 1)}`, SEES, `${LOGGED}expected 1 inputs but got 0 inputs for model 'missing'.`],
  open: [
    `${model(4)} ${warmup(1, 1, input("zero_data: true", { dims: "-1" }))}`,
    SEES,
    `${INVALID}warmup setting expects all variable-size dimensions are specified for input 'x'`,
  ],
  negative: [
    `${model(4)} ${warmup(1, 1, input("zero_data: true", { dims: "-2" }))}`,
    SEES,
    `${INVALID}tensor 'x' contains an invalid dimension [-2]`,
  ],
  dataless: [
    `${model(4)} ${warmup(1, 1, input(""))}`,
    SEES,
    `${LOGGED}warmup setting expects input 'x' to have input_data_type set`,
  ],
  short: [
    `${model(4)} ${warmup(1, 1, input('input_data_file: "four"', { dims: "5" }))}`,
    SEES,
    `${LOGGED}warmup setting expects 20 bytes, but the data provided from fouronly has 16 bytes`,
  ],
  absent: [
    `${model(4)} ${warmup(1, 1, input('input_data_file: "none"'))}`,
    SEES,
    `Internal: failed to open text file for read ${base}/absent/warmup/none: No such file or directory`,
  ],
  ...elsewhere("escapes", "../../four"),
  ...elsewhere("escapes-in-vain", "../../no-such-file"),
  ...elsewhere("beside-warmup", "../config.pbtxt"),
  ...elsewhere("absolute", "/../../../../../../../../etc/hostname"),
  ...elsewhere("linked", "link"),
  ...elsewhere("linked-within", "folder/hostname"),
  "cut-text": [
    `${model(0, 1, "", "TYPE_STRING")} ${warmup(1, 1, input('input_data_file: "text"', { type: "TYPE_STRING", dims: "9" }))}`,
    SEES,
    `${LOGGED}expected 9 string elements for inference input 'x' for model 'cut-text', got 1`,
  ],
};

const clock = new VirtualClock();
let server: TritonServer;
let failures: readonly string[] | null = null;

/** Advances the clock until `isDone`. Each turn waits for the event loop, because a `model.ts` is read in real time. */
async function pass(isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    if (clock.nextUs() !== Infinity) clock.advanceTo(Math.max(clock.nextUs(), clock.now()));
    await new Promise(setImmediate);
  }
}

beforeAll(async () => {
  for (const [name, [config, code]] of Object.entries({ ...GOOD, ...BAD })) {
    for (const folder of ["1", "warmup"]) mkdirSync(join(base, name, folder), { recursive: true });
    writeFileSync(join(base, name, "config.pbtxt"), config);
    if (code !== undefined) writeFileSync(join(base, name, "model.ts"), code);
    writeFileSync(join(base, name, "warmup", "four"), new Uint8Array(Int32Array.of(1, 2, 3, 4).buffer));
    symlinkSync("/etc/hostname", join(base, name, "warmup", "link"));
    symlinkSync("/etc", join(base, name, "warmup", "folder"));
    writeFileSync(join(base, name, "warmup", "text"), "\u0002\0\0\0hi");
  }
  server = pureServer([`--model-repository=${base}`, "--exit-on-error=false"], clock, { random: () => 0.5 });
  void server.start().then((found) => (failures = found));
  await pass(() => failures !== null);
});

test.each([
  // Two requests for each of 3 instances.
  ["instances", 6, { 1: 6 }],
  ["batches", 6, { 3: 2 }],
  ["skipped", 0, {}],
  ["once", 1, { 1: 1 }],
  ["decoupled", 8, { 2: 4 }],
] as const)("%s: %d requests succeed", (name, requests, batches) => {
  const model = server.find(name, -1);
  const { success, fail, reporter, batches: all } = model.statistics;
  expect([success.count, fail.count, reporter.pending, model.live]).toEqual([requests, 0, 0, 0]);
  expect(Object.fromEntries([...all].map(([size, { count }]) => [size, count]))).toEqual(batches);
});

test("the data of a warm-up may be a file, texts of a file, drawn bytes or controls of a sequence", () => {
  const ints = (data: Uint8Array) => [...new Int32Array(new Uint8Array(data).buffer)];
  const told = (name: string) => seen[name]!.map((one) => [one.name, one.shape, ints(one.data)] as const);
  expect(told("file")).toEqual([["x", [1, 3], [1, 2, 3]]]);
  expect(seen.texts!.map(({ data }) => Buffer.from(data).toString())).toEqual(["\u0002\0\0\0hi"]);
  expect(told("random")).toEqual([["x", [2], [0x80808080 | 0, 0x80808080 | 0]]]);
  expect(told("controls")).toEqual([
    ["x", [1, 2], [0, 0]],
    ["START", [1, 1], [0]],
  ]);
});

test("after the warm-up all instances serve", async () => {
  const x = { name: "x", datatype: "INT32" as const, shape: [1], data: new Uint8Array(4) };
  const fields = { id: "", inputs: [x], outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
  const endsUs: number[] = [];
  const fromUs = clock.now();
  for (let at = 0; at < 4; at++)
    server.infer("instances", -1, fields, { respond: (_, final) => final && endsUs.push(clock.now() - fromUs) });
  await pass(() => endsUs.length === 4);
  expect(endsUs).toEqual([1000, 1000, 1000, 2000]);
});

test.each(Object.entries(BAD))("a load fails: %s", (name, [, , said]) => {
  const [reason = ""] = (failures ?? []).filter((one) => one.startsWith(`${name}: `));
  expect(reason).toStartWith(`${name}: version 1 is at UNAVAILABLE state: ${said}`);
});
