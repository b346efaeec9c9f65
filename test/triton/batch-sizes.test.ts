/** Tests the sizes of batches for several configurations of the dynamic batcher. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { pureServer } from "./pure-server.ts";

const base = mkdtempSync(join(tmpdir(), "batch-sizes-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const config = (input: string, more = "") => `backend: "python" max_batch_size: 8
  input { name: "x" data_type: TYPE_FP32 ${input} } output { name: "y" data_type: TYPE_FP32 dims: 1 }
  dynamic_batching { preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 400000 ${more} }
  instance_group { kind: KIND_CPU rate_limiter { resources { name: "R" count: 1 } } }
  parameters { key: "understudy_us" value { string_value: "base=300000" } }`;
const MODELS = {
  fixed: config("dims: 1"),
  varying: config("dims: -1"),
  ragged: config("dims: -1 allow_ragged_batch: true"),
  levels: config("dims: 1", "priority_levels: 2 default_priority_level: 1"),
};
for (const [name, text] of Object.entries(MODELS)) {
  mkdirSync(join(base, name, "1"), { recursive: true });
  writeFileSync(join(base, name, "config.pbtxt"), text);
}

/** Sends five requests, 10 ms apart. Returns the size and the start (in milliseconds) of each batch, in order. */
async function batchesOf(model: keyof typeof MODELS, ...flags: readonly string[]) {
  const clock = new VirtualClock();
  const server = pureServer([`--model-repository=${base}`, ...flags], clock);
  const pass = async (until: () => boolean) => {
    for (; !until(); clock.next()) for (let turn = 0; turn < 3; turn++) await new Promise((done) => setImmediate(done));
  };
  let started = false;
  void server.start().then(() => (started = true));
  await pass(() => started);
  const x = { name: "x", datatype: "FP32" as const, shape: [1, 1], data: new Uint8Array(4) };
  const fields = { id: "", inputs: [x], outputs: [], parameters: [], priority: 0, timeoutUs: 0 };
  const fromUs = clock.now();
  const endsMs: number[] = [];
  for (let at = 0; at < 5; at++)
    clock.at(fromUs + at * 10_000, () => {
      server.infer(model, -1, fields, { respond: (_, final) => final && endsMs.push((clock.now() - fromUs) / 1000) });
    });
  await pass(() => endsMs.length === 5);
  const starts = [...new Set(endsMs)].map((ms) => [endsMs.filter((one) => one === ms).length, ms - 300]);
  return starts;
}

test("a request that does not trigger the batcher does not join the waiting batch: 2, 2, 1", async () => {
  const alone = [
    [2, 10],
    [2, 310],
    [1, 610],
  ];
  expect(await batchesOf("fixed")).toEqual(alone);
  expect(await batchesOf("ragged")).toEqual(alone);
});

test("with an input of variable size each arrival triggers the batcher: 2, 3", async () => {
  expect(await batchesOf("varying")).toEqual([
    [2, 10],
    [3, 310],
  ]);
});

test("with priorities no batch is formed ahead, so the three waiting requests are considered together: 2, 2, 1", async () => {
  expect(await batchesOf("levels")).toEqual([
    [2, 10],
    [2, 310],
    [1, 610],
  ]);
});

test("with the rate limiter the batcher runs when a batch gets its resources", async () => {
  expect(await batchesOf("fixed", "--rate-limit=execution_count")).toEqual([
    [2, 10],
    [2, 310],
    [1, 610],
  ]);
});
