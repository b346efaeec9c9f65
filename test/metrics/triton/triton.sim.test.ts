/** Tests the dialects of Triton and TensorRT-LLM on virtual time: scripted generations exactly, random load by the laws. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Finish } from "../../../src/engine/interface/types.ts";
import { checkScrapes } from "../../../src/tools/check/index.ts";
import { configOf, promptOf } from "../../engine/simulated-engine.ts";
import { times } from "../../size.ts";
import { EPOCH_US, SimulatedPage } from "./simulated-page.ts";

const MODELS = ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing"] as const;
/** success, exec_count, then failures BACKEND and OTHER of the four models. */
async function counts(house: SimulatedPage): Promise<Record<string, readonly number[]>> {
  const value = await house.values();
  const each = (name: (model: string) => string) => MODELS.map((model) => value(name(model)));
  for (const model of MODELS) expect(value(`count{${model}}`)).toBe(value(`request_success{${model}}`));
  for (const reason of ["REJECTED", "CANCELED"])
    expect(each((model) => `request_failure{${model},${reason}}`)).toEqual([0, 0, 0, 0]);
  return {
    success: each((model) => `request_success{${model}}`),
    executed: each((model) => `exec_count{${model}}`),
    backend: each((model) => `request_failure{${model},BACKEND}`),
    other: each((model) => `request_failure{${model},OTHER}`),
    responded: each((model) => `first_response_histogram_ms_count{${model}}`),
  };
}

const none = [0, 0, 0, 0];

describe("each kind of end is counted like the ensemble's four models", () => {
  test("postprocessing runs five times for a stream of five tokens", async () => {
    const house = new SimulatedPage();
    house.submit({ maxTokens: 5 });
    house.clock.drain();
    const all = [1, 1, 1, 5];
    expect(await counts(house)).toEqual({ success: all, executed: all, backend: none, other: none, responded: all });
  });

  test("each model runs once for an answer in one piece", async () => {
    const house = new SimulatedPage();
    house.submit({ maxTokens: 5 }, false);
    house.clock.drain();
    const all = [1, 1, 1, 1];
    expect(await counts(house)).toEqual({ success: all, executed: all, backend: none, other: none, responded: all });
  });

  test("an end by a stop string of the front end counts as a success", async () => {
    const house = new SimulatedPage();
    const receiver = house.submit({ maxTokens: 50 })!;
    receiver.afterwards = () => receiver.ids.length === 3 && receiver.stopAfter(3);
    house.clock.drain();
    const all = [1, 1, 1, 3];
    expect(await counts(house)).toEqual({ success: all, executed: all, backend: none, other: none, responded: all });
    const value = await house.values();
    expect(value("llm_output_token_len_sum{tensorrt_llm,total_output_tokens}")).toBe(3);
  });

  test("a disconnected client counts as a success with its tokens and a last response without tokens", async () => {
    const house = new SimulatedPage(configOf({ maxNumSeqs: 1, maxNumActiveSeqs: 1 }));
    const running = house.submit({ maxTokens: 50 })!;
    const queued = house.submit({ maxTokens: 50 })!;
    house.advance(20_000);
    expect(running.ids.length).toBeGreaterThan(3);
    const made = running.ids.length;
    queued.cancel();
    running.cancel();
    house.clock.drain();
    const all = [2, 2, 2, made + 1 + 1];
    expect(await counts(house)).toEqual({ success: all, executed: all, backend: none, other: none, responded: all });
    const value = await house.values();
    expect(value("llm_output_token_len_sum{tensorrt_llm,total_output_tokens}")).toBe(made);
    expect(value("llm_output_token_len_count{tensorrt_llm,total_output_tokens}")).toBe(2);
    expect(value("llm_input_token_len_sum{tensorrt_llm,total_input_tokens}")).toBe(40);
  });

  test("a request that the engine ends for all counts as a success, too", async () => {
    const house = new SimulatedPage();
    house.submit({ maxTokens: 50 }, false);
    house.advance(5000);
    house.engine.abortAll();
    house.clock.drain();
    const all = [1, 1, 1, 1];
    expect(await counts(house)).toEqual({ success: all, executed: all, backend: none, other: none, responded: all });
  });

  test("an error counts three times: once with the backend's reason and twice on the ensemble", async () => {
    const house = new SimulatedPage();
    const receiver = house.submit({ maxTokens: 50 })!;
    receiver.afterwards = () => {
      if (receiver.ids.length !== 2) return;
      receiver.ended = true;
      receiver.submission.finish(Finish.Error, 2);
    };
    house.clock.drain();
    expect(await counts(house)).toEqual({
      success: [0, 1, 0, 2],
      executed: [0, 1, 1, 2],
      backend: [0, 0, 1, 0],
      other: [2, 0, 0, 0],
      responded: [1, 1, 1, 2],
    });
  });

  test("a request that the engine refuses fails the ensemble, and TensorRT-LLM reports nothing", async () => {
    const house = new SimulatedPage();
    house.engine.pause("abort");
    expect(house.submit()).toBeNull();
    expect(await counts(house)).toEqual({
      success: [0, 1, 0, 0],
      executed: [0, 1, 0, 0],
      backend: none,
      other: [2, 0, 0, 0],
      responded: [1, 1, 1, 0],
    });
  });
});

test("the encoder's time counts for preprocessing, the engine's for TensorRT-LLM, and the ensemble has all", async () => {
  const house = new SimulatedPage(configOf({ timing: { kind: "linear", baseUs: 1000, prefillUs: 0, decodeUs: 0 } }));
  house.advance(10_000);
  // Arrived at 1 ms, sent to the encoder at 3 ms, submitted to the engine at 10 ms. Two tokens; each step is planned
  // one ahead.
  house.submit({ arrivalUs: 1000, encodedFromUs: 3000, maxTokens: 2 });
  house.clock.drain();
  const value = await house.values();
  const of = (model: string) =>
    ["request", "queue", "compute_input", "compute_infer", "compute_output"].map((span) =>
      value(`${span}_duration_us{${model}}`),
    );
  const decodedUs = house.receivers[0]!.tokenUs.at(-1)! - 10_000;
  expect(of("preprocessing")).toEqual([9000, 2000, 0, 7000, 0]);
  expect(of("tensorrt_llm")).toEqual([decodedUs, 0, 0, decodedUs, 0]);
  expect(of("postprocessing")).toEqual([0, 0, 0, 0, 0]);
  expect(of("ensemble")).toEqual([9000 + decodedUs, 0, 0, 9000 + decodedUs, 0]);
  const firstMs = Math.floor((house.receivers[0]!.tokenUs[0]! - 1000) / 1000);
  expect(value("first_response_histogram_ms_sum{ensemble}")).toBe(firstMs);
  expect(value("request_summary_us{tensorrt_llm,0.99}")).toBe(decodedUs);
});

test("the executor's gauges show the last planned step and change every 100 ms", async () => {
  const house = new SimulatedPage(configOf({ maxNumSeqs: 2, maxNumActiveSeqs: 2, numGpuBlocks: 65 }));
  const request = async (...types: string[]) => {
    const value = await house.values();
    return types.map((type) => value(`request_metrics{tensorrt_llm,${type}}`));
  };
  expect(await request("active", "max", "scheduled", "context", "waiting")).toEqual([0, 0, 0, 0, 0]);
  for (let i = 0; i < 5; i++) house.submit({ promptIds: promptOf(40, i), maxTokens: 300 });
  house.advance(99_000);
  expect(await request("active")).toEqual([0]);
  house.advance(2000);
  // Five requests arrived and two may be active. The others are also in the executor.
  expect(await request("active", "max", "scheduled", "context", "waiting")).toEqual([2, 2, 2, 0, 0]);
  const value = await house.values();
  expect(value("inflight_batcher_metrics{generation_requests,tensorrt_llm}")).toBe(2);
  const blocks = (type: string) => value(`kv_cache_block_metrics{${type},tensorrt_llm}`);
  expect(blocks("used")).toBeGreaterThan(4);
  expect(blocks("used") + blocks("free")).toBe(64);
  expect([blocks("max"), blocks("tokens_per")]).toEqual([64, 16]);
  expect(blocks("fraction")).toBe(Number((blocks("used") / 64).toFixed(6)));
  expect(value("general_metrics{timestamp,tensorrt_llm}")).toBeGreaterThan(EPOCH_US);
});

/** Possible events: an arrival, a client that disconnects, time. */
const acts = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("submit" as const),
        prompt: fc.integer({ min: 1, max: 300 }),
        stream: fc.nat(3),
        tokens: fc.integer({ min: 1, max: 80 }),
        streams: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("cancel" as const), pick: fc.nat(1000) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("fail" as const), pick: fc.nat(1000) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("wait" as const), us: fc.nat(60_000) }) },
  ),
  { minLength: 1, maxLength: 60 },
);

test(
  "under random load every scrape obeys the laws, and at rest all gauges are 0",
  () =>
    fc.assert(
      fc.asyncProperty(acts, fc.boolean(), async (all, asyncScheduling) => {
        // A small pool, so that requests are preempted.
        const house = new SimulatedPage(
          configOf({ numGpuBlocks: 33, maxNumSeqs: 4, maxNumActiveSeqs: 4, asyncScheduling }),
        );
        const scrapes: { text: string; atS: number; rest?: boolean }[] = [];
        const scrape = async (rest = false) =>
          void scrapes.push({ text: await house.text(), atS: house.clock.now() / 1e6, rest });
        const open = () => house.receivers.filter(({ finish, ended }) => finish === null && !ended);
        for (const act of all) {
          if (act.kind === "submit")
            house.submit(
              { promptIds: promptOf(act.prompt, act.stream), maxTokens: act.tokens, seed: act.prompt },
              act.streams,
            );
          else if (act.kind === "wait") house.advance(act.us);
          else {
            const generation = open()[act.pick % Math.max(1, open().length)];
            if (generation && act.kind === "cancel") generation.cancel();
            else if (generation) {
              generation.ended = true;
              generation.submission.finish(Finish.Error, generation.ids.length);
            }
          }
          await scrape();
        }
        house.clock.drain();
        house.advance(200_000);
        await scrape();
        house.advance(200_000);
        await scrape(true);
        const { violated, unreadable } = checkScrapes(scrapes);
        expect(unreadable).toEqual([]);
        expect(violated.map(({ id, violations }) => [id, violations[0]])).toEqual([]);
        // Nothing is lost: each generation is one success or one failure of the engine's model.
        const value = await house.values();
        const failed = house.receivers.filter(
          (receiver) => receiver.ended && receiver.finish === null && !receiver.stopped,
        );
        expect(value("request_success{tensorrt_llm}") + value("request_failure{tensorrt_llm,BACKEND}")).toBe(
          house.receivers.length,
        );
        expect(value("request_failure{tensorrt_llm,BACKEND}")).toBeLessThanOrEqual(failed.length);
        const tokens = house.receivers.reduce((sum, { ids }) => sum + ids.length, 0);
        expect(value("llm_output_token_len_sum{tensorrt_llm,total_output_tokens}")).toBe(tokens);
        for (const type of ["active", "scheduled", "context", "waiting"])
          expect(value(`request_metrics{tensorrt_llm,${type}}`)).toBe(0);
        expect(value("kv_cache_block_metrics{fraction,tensorrt_llm}")).toBe(0);
      }),
      { numRuns: times(25) },
    ),
  60_000,
);
