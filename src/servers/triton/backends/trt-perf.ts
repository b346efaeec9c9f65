/**
 * Creates the output tensors of `return_perf_metrics`: KV blocks of a sequence, and times in nanoseconds of a monotonic clock.
 */
import type { Submission } from "../../../engine/interface/types.ts";
import { numberTensor } from "../behaviours/values.ts";
import type { Tensor } from "../tensors/datatypes.ts";
import type { LlmDeps } from "./around.ts";

export interface TimedSequence {
  readonly submission: Submission | null;
  readonly firstUs: number;
  readonly lastUs: number;
}

export function perfFacts(sequence: TimedSequence, promptTokens: number, deps: LlmDeps, arrivalUs: number) {
  const { cachedTokens = 0, scheduledUs = arrivalUs } = sequence.submission ?? {};
  const reusedBlocks = Math.ceil(cachedTokens / deps.blockSize);
  const ns = (us: number) => BigInt(Math.round(us * 1000));
  return {
    reusedBlocks,
    /** KV blocks of the prompt that the prefix cache did not contain. */
    newBlocks: Math.ceil(promptTokens / deps.blockSize) - reusedBlocks,
    arrivalNs: ns(arrivalUs),
    scheduledNs: ns(scheduledUs),
    firstNs: ns(sequence.firstUs),
    lastNs: ns(sequence.lastUs),
  };
}

/** Returns the tensors in the order of the C++ backend. Draft model values are 0. */
export function perfTensors(
  sequence: TimedSequence,
  promptTokens: number,
  deps: LlmDeps,
  arrivalUs: number,
): readonly Tensor[] {
  const facts = perfFacts(sequence, promptTokens, deps, arrivalUs);
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

export function timeTensors(facts: ReturnType<typeof perfFacts>, shape: readonly number[]): readonly Tensor[] {
  const times = {
    arrival_time_ns: facts.arrivalNs,
    first_scheduled_time_ns: facts.scheduledNs,
    first_token_time_ns: facts.firstNs,
    last_token_time_ns: facts.lastNs,
  };
  return Object.entries(times).map(([name, value]) => numberTensor(name, "INT64", shape, [value]));
}
