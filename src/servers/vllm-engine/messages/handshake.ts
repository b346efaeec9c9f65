/**
 * Writes what an engine sends when it joins a front end. Source: `EngineHandshakeMetadata` and `EngineCoreReadyResponse` in
 * `vllm/v1/engine`, vLLM 0.33.0.
 */
import {
  encodedBytes,
  type WriteValue,
  writeBoolean,
  writeCount,
  writeFloat,
  writeJsonObject,
  writeNullable,
  writeString,
  writeStruct,
} from "./write.ts";

type JsonObject = Readonly<Record<string, unknown>>;

/** Configuration that an engine sends when it joins a front end. */
export interface Registration {
  readonly max_model_len: number;
  readonly num_gpu_blocks: number;
  readonly block_size: number;
  readonly dp_stats_address: string | null;
  /** "float16", "bfloat16" or "float32"; others end `vllm-rs`. */
  readonly dtype: string;
  readonly vllm_version: string;
  readonly world_size: number;
  readonly data_parallel_size: number;
  readonly tensor_parallel_size: number;
  readonly pipeline_parallel_size: number;
  readonly decode_context_parallel_size: number;
  readonly data_parallel_rank: number;
  readonly max_num_seqs: number;
  readonly max_num_batched_tokens: number;
  readonly instance_id: string;
  readonly supports_lora: boolean;
  readonly max_loras: number;
  readonly mamba_block_size: number | null;
  readonly kv_cache_size_tokens: number;
  readonly kv_cache_max_concurrency: number;
  readonly kv_events_config: JsonObject | null;
  readonly weight_transfer_backend: string | null;
  readonly enable_sleep_mode: boolean;
  readonly supports_draft_weight_updates: boolean;
  readonly effective_attention_block_size: number;
  readonly coord_store_port: number;
  readonly coordinator_input_address: string | null;
  readonly coordinator_output_address: string | null;
}

const registration = writeStruct<Registration>({
  max_model_len: writeCount,
  num_gpu_blocks: writeCount,
  block_size: writeCount,
  dp_stats_address: writeNullable(writeString),
  dtype: writeString,
  vllm_version: writeString,
  world_size: writeCount,
  data_parallel_size: writeCount,
  tensor_parallel_size: writeCount,
  pipeline_parallel_size: writeCount,
  decode_context_parallel_size: writeCount,
  data_parallel_rank: writeCount,
  max_num_seqs: writeCount,
  max_num_batched_tokens: writeCount,
  instance_id: writeString,
  supports_lora: writeBoolean,
  max_loras: writeCount,
  mamba_block_size: writeNullable(writeCount),
  kv_cache_size_tokens: writeCount,
  kv_cache_max_concurrency: writeFloat,
  kv_events_config: writeNullable(writeJsonObject),
  weight_transfer_backend: writeNullable(writeString),
  enable_sleep_mode: writeBoolean,
  supports_draft_weight_updates: writeBoolean,
  effective_attention_block_size: writeCount,
  coord_store_port: writeCount,
  coordinator_input_address: writeNullable(writeString),
  coordinator_output_address: writeNullable(writeString),
});

interface HandshakeStatus {
  readonly status: "HELLO" | "READY";
  /** True if the front end started the engine. */
  readonly local: boolean;
  readonly headless: boolean;
}

const handshakeStatus = writeStruct<HandshakeStatus>({
  status: writeString as WriteValue<"HELLO" | "READY">,
  local: writeBoolean,
  headless: writeBoolean,
});

const once = <T>(write: WriteValue<T>, value: T): Buffer => encodedBytes((body) => write({ body, frames: [] }, value));

export const registrationMessage = (values: Registration): Buffer => once(registration, values);
/** Returns a message of the handshake of an engine that the front end did not start. */
export const statusMessage = (status: HandshakeStatus["status"]): Buffer =>
  once(handshakeStatus, { status, local: false, headless: true });
