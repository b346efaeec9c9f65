/** What does `return_perf_metrics` give? Blocks and times of one sequence, the times in nanoseconds of a steady clock. */
import type { Submission } from "../../../engine/interface/types.ts";
import { numberTensor } from "../behaviours/values.ts";
import { bytesOf, type Tensor } from "../tensors/datatypes.ts";
import type { LlmAround } from "./around.ts";

export interface TimedSequence {
  readonly submission: Submission | null;
  readonly firstUs: number;
  readonly lastUs: number;
}

export interface PerfFacts {
  readonly reusedBlocks: number;
  /** Those that were not found. */
  readonly newBlocks: number;
  readonly arrivalNs: bigint;
  readonly scheduledNs: bigint;
  readonly firstNs: bigint;
  readonly lastNs: bigint;
}

export function perfFacts(one: TimedSequence, promptTokens: number, around: LlmAround, arrivalUs: number): PerfFacts {
  const { cachedTokens = 0, scheduledUs = arrivalUs } = one.submission ?? {};
  const reusedBlocks = Math.ceil(cachedTokens / around.blockSize);
  const ns = (us: number) => BigInt(Math.round(us * 1000));
  return {
    reusedBlocks,
    newBlocks: Math.ceil(promptTokens / around.blockSize) - reusedBlocks,
    arrivalNs: ns(arrivalUs),
    scheduledNs: ns(scheduledUs),
    firstNs: ns(one.firstUs),
    lastNs: ns(one.lastUs),
  };
}

/** In the order of the C++ backend; there is no draft model. */
export function perfTensors(
  one: TimedSequence,
  promptTokens: number,
  around: LlmAround,
  arrivalUs: number,
): readonly Tensor[] {
  const facts = perfFacts(one, promptTokens, around, arrivalUs);
  const whole = (name: string, value: number) => numberTensor(name, "INT32", [1, 1], [value]);
  return [
    whole("kv_cache_alloc_new_blocks", facts.newBlocks),
    whole("kv_cache_reused_blocks", facts.reusedBlocks),
    whole("kv_cache_alloc_total_blocks", facts.newBlocks),
    ...timeTensors(facts, [1, 1]),
    numberTensor("acceptance_rate", "FP32", [1, 1], [0]),
    whole("total_accepted_draft_tokens", 0),
    whole("total_draft_tokens", 0),
  ];
}

export function timeTensors(facts: PerfFacts, shape: readonly number[]): readonly Tensor[] {
  const times = {
    arrival_time_ns: facts.arrivalNs,
    first_scheduled_time_ns: facts.scheduledNs,
    first_token_time_ns: facts.firstNs,
    last_token_time_ns: facts.lastNs,
  };
  return Object.entries(times).map(([name, value]) => ({
    name,
    datatype: "INT64",
    shape,
    data: bytesOf(BigInt64Array.of(value)),
  }));
}
