/**
 * Writes what an engine sends to front ends in every step. The bytes equal those of vLLM's encoder: every field of a list is
 * written, also at its default. Source: `EngineCoreOutputs` in `vllm/v1/engine/__init__.py`, vLLM 0.33.0.
 */
import { MsgpackWriter } from "../../../wire/msgpack/writer.ts";
import { COPIED_BYTES_MOST } from "../../../wire/zmtp/frames.ts";
import { type ArrayOfNumbers, numberArray } from "./arrays.ts";
import type { MessageLayout } from "./layouts.ts";
import { type SchedulerStats, schedulerStats } from "./stats.ts";
import {
  encodedBytes,
  type MessageWriter,
  type WriteValue,
  writeBoolean,
  writeCount,
  writeFloat,
  writeIntegerOf,
  writeJson,
  writeJsonObject,
  writeListOf,
  writeNull,
  writeNullable,
  writeString,
  writeStruct,
  writeStructList,
} from "./write.ts";

export enum OutputFinish {
  Stop = 0,
  Length = 1,
  Abort = 2,
  Error = 3,
  Repetition = 4,
}

export enum EventType {
  Queued = 1,
  Scheduled = 2,
  Preempted = 3,
}

export interface EngineCoreEvent {
  readonly type: EventType;
  /** Seconds on the engine's clock. */
  readonly timestamp: number;
}

/** Log probabilities of tokens: a row per token, whose first column is the token itself. */
export interface LogprobsArrays {
  readonly token_ids: ArrayOfNumbers;
  readonly logprobs: ArrayOfNumbers;
  /** Rank of each row's token, from 1. */
  readonly ranks: ArrayOfNumbers;
}

/** Counts of prompt tokens. */
export interface PrefillStats {
  readonly num_prompt_tokens: number;
  readonly num_computed_tokens: number;
  readonly num_cached_tokens: number;
  readonly num_local_cached_tokens: number;
  readonly num_external_cached_tokens: number;
  readonly num_cache_creation_tokens: number;
}

export interface OutputError {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** New tokens of a request. */
export interface EngineCoreOutput {
  readonly request_id: string;
  readonly new_token_ids: readonly number[];
  readonly new_logprobs: LogprobsArrays | null;
  readonly new_prompt_logprobs_tensors: LogprobsArrays | null;
  readonly pooling_output: null;
  /** Null while the request runs. */
  readonly finish_reason: OutputFinish | null;
  /** The stop token, or a word such as "repetition_detected". Null after the end of the sequence. */
  readonly stop_reason: number | string | null;
  readonly events: readonly EngineCoreEvent[] | null;
  readonly kv_transfer_params: JsonObject | null;
  readonly ec_transfer_params: JsonObject | null;
  readonly trace_headers: JsonObject | null;
  /** Only in the first output of a request. */
  readonly prefill_stats: PrefillStats | null;
  readonly routed_experts: null;
  readonly num_nans_in_logits: number;
  readonly mm_cache_miss_hashes: null;
  readonly new_sampling_mask: null;
  readonly spec_decode_metrics: JsonObject | null;
  readonly prompt_token_id_logprobs: null;
  readonly error: OutputError | null;
}

/** Fields of an output at their defaults. */
export const PLAIN_OUTPUT: Omit<EngineCoreOutput, "request_id" | "new_token_ids"> = {
  new_logprobs: null,
  new_prompt_logprobs_tensors: null,
  pooling_output: null,
  finish_reason: null,
  stop_reason: null,
  events: null,
  kv_transfer_params: null,
  ec_transfer_params: null,
  trace_headers: null,
  prefill_stats: null,
  routed_experts: null,
  num_nans_in_logits: 0,
  mm_cache_miss_hashes: null,
  new_sampling_mask: null,
  spec_decode_metrics: null,
  prompt_token_id_logprobs: null,
  error: null,
};

/** The answer to a utility call. */
export interface UtilityOutput {
  /** Same as in the call. */
  readonly call_id: number | bigint;
  /** Null if the call succeeded. */
  readonly failure: string | null;
  /** The result as JSON. Not sent after a failure. */
  readonly result: unknown;
}

export interface EngineCoreOutputs {
  /** Rank of the engine. */
  readonly engine_index: number;
  readonly outputs: readonly EngineCoreOutput[];
  readonly scheduler_stats: SchedulerStats | null;
  /** Seconds on the engine's clock, at the step. */
  readonly timestamp: number;
  /** Must be alone in its message, because Python's front end skips everything else. */
  readonly utility_output: UtilityOutput | null;
  readonly finished_requests: readonly string[] | null;
  readonly wave_complete: number | null;
  readonly start_wave: number | null;
  readonly weight_version: string | null;
}

/** Fields of a message at their defaults. */
export const PLAIN_OUTPUTS: Omit<EngineCoreOutputs, "timestamp"> = {
  engine_index: 0,
  outputs: [],
  scheduler_stats: null,
  utility_output: null,
  finished_requests: null,
  wave_complete: null,
  start_wave: null,
  weight_version: null,
};

/** Writes the arrays, and `extra` nulls for what they do not have here. */
const logprobsArrays =
  (extra: number): WriteValue<LogprobsArrays> =>
  (into, { token_ids, logprobs, ranks }) => {
    into.body.array(3 + extra);
    for (const array of [token_ids, logprobs, ranks]) numberArray(into, array);
    for (let left = extra; left > 0; left--) into.body.nil();
  };

const writeTokenId = writeIntegerOf(0, 2 ** 32 - 1);

const stopReason: WriteValue<number | string> = (into, value) =>
  typeof value === "string" ? into.body.text(value) : writeTokenId(into, value);

const utilityOutput: WriteValue<UtilityOutput> = (into, { call_id, failure, result }) => {
  into.body.array(3);
  into.body.int(call_id);
  writeNullable(writeString)(into, failure);
  if (failure === null) {
    into.body.array(2);
    into.body.nil();
    writeJson(into, result);
  } else into.body.nil();
};

const OUTPUT_FIELDS: { readonly [K in keyof EngineCoreOutput]: WriteValue<EngineCoreOutput[K]> } = {
  request_id: writeString,
  new_token_ids: writeListOf(writeTokenId),
  new_logprobs: writeNullable(logprobsArrays(1)),
  new_prompt_logprobs_tensors: writeNullable(logprobsArrays(2)),
  pooling_output: writeNull,
  finish_reason: writeNullable<OutputFinish>(writeIntegerOf(OutputFinish.Stop, OutputFinish.Repetition)),
  stop_reason: writeNullable(stopReason),
  events: writeNullable(
    writeListOf(
      writeStruct<EngineCoreEvent>({
        type: writeIntegerOf(EventType.Queued, EventType.Preempted),
        timestamp: writeFloat,
      }),
    ),
  ),
  kv_transfer_params: writeNullable(writeJsonObject),
  ec_transfer_params: writeNullable(writeJsonObject),
  trace_headers: writeNullable(writeJsonObject),
  prefill_stats: writeNullable(
    writeStruct<PrefillStats>({
      num_prompt_tokens: writeCount,
      num_computed_tokens: writeCount,
      num_cached_tokens: writeCount,
      num_local_cached_tokens: writeCount,
      num_external_cached_tokens: writeCount,
      num_cache_creation_tokens: writeCount,
    }),
  ),
  routed_experts: writeNull,
  num_nans_in_logits: writeCount,
  mm_cache_miss_hashes: writeNull,
  new_sampling_mask: writeNull,
  spec_decode_metrics: writeNullable(writeJsonObject),
  prompt_token_id_logprobs: writeNull,
  error: writeNullable(writeStruct<OutputError>({ code: writeString, message: writeString, retryable: writeBoolean })),
};

const OUTPUTS_FIELDS = (
  output: WriteValue<EngineCoreOutput>,
): { readonly [K in keyof EngineCoreOutputs]: WriteValue<EngineCoreOutputs[K]> } => ({
  engine_index: writeCount,
  outputs: writeListOf(output),
  scheduler_stats: writeNullable(schedulerStats),
  timestamp: writeFloat,
  utility_output: writeNullable(utilityOutput),
  finished_requests: writeNullable(writeListOf(writeString)),
  wave_complete: writeNullable(writeCount),
  start_wave: writeNullable(writeCount),
  weight_version: writeNullable(writeString),
});

/** Reports whether an output has tokens alone, as almost all have. */
const isPlain = (output: EngineCoreOutput) =>
  output.finish_reason === null &&
  output.events === null &&
  output.prefill_stats === null &&
  output.new_logprobs === null &&
  output.new_prompt_logprobs_tensors === null &&
  output.stop_reason === null &&
  output.kv_transfer_params === null &&
  output.ec_transfer_params === null &&
  output.trace_headers === null &&
  output.spec_decode_metrics === null &&
  output.num_nans_in_logits === 0 &&
  output.error === null;

/** Writes an output. The fields after the tokens are always the same bytes in a plain one, so that they are copied. */
function writeOutput({ output: order }: MessageLayout): WriteValue<EngineCoreOutput> {
  const whole = writeStructList(order, OUTPUT_FIELDS);
  const rest = encodedBytes((body) => {
    const plain: EngineCoreOutput = { ...PLAIN_OUTPUT, request_id: "", new_token_ids: [] };
    for (const name of order.slice(2)) OUTPUT_FIELDS[name]({ body, frames: [] }, plain[name] as never);
  });
  if (order[0] !== "request_id" || order[1] !== "new_token_ids") return whole;
  return (into, output) => {
    if (!isPlain(output)) {
      whole(into, output);
      return;
    }
    into.body.array(order.length);
    into.body.text(output.request_id);
    OUTPUT_FIELDS.new_token_ids(into, output.new_token_ids);
    into.body.raw(rest);
  };
}

/** Writes messages of an engine to its front ends. Uses the same memory for each message. */
export class OutputsWriter {
  readonly #body = new MsgpackWriter();
  readonly #output: WriteValue<EngineCoreOutput>;
  readonly #outputs: WriteValue<EngineCoreOutputs>;

  constructor(layout: MessageLayout) {
    this.#output = writeOutput(layout);
    this.#outputs = writeStructList(layout.outputs, OUTPUTS_FIELDS(this.#output));
  }

  /** Returns the frames of a message. The next message overwrites the first one, unless it is so long that a socket may keep it. */
  frames(outputs: EngineCoreOutputs): Uint8Array[] {
    if (outputs.utility_output !== null && outputs.outputs.length > 0)
      throw new RangeError("a utility answer must be alone in its message");
    const into: MessageWriter = { body: this.#body, frames: [] };
    this.#body.reset();
    this.#outputs(into, outputs);
    const body = this.#body.view();
    return [body.length < COPIED_BYTES_MOST ? body : this.#body.copy(), ...into.frames];
  }
}

/** The last message of an engine that has failed. Not MessagePack. */
export const ENGINE_CORE_DEAD = Buffer.from("ENGINE_CORE_DEAD", "latin1");
