/**
 * Reads a recorded trace of TensorRT-LLM's scheduler in the format `golden-trtllm/1`. FORMAT.md in this folder explains each
 * field.
 */
import { Config, FEED } from "../../../assembly/layout.ts";
import { CapacityPolicy, ChunkingPolicy, TrtConfig } from "../../../assembly/trtllm/layout.ts";
import type { CoreSetup } from "../../../src/engine/wasm/core.ts";
import { type Row, refuseOthers } from "../trace.ts";

/** Options under TensorRT-LLM's names. The last options belong to the recording's driver. */
export interface TrtTraceConfig {
  capacity_scheduler_policy: "GUARANTEED_NO_EVICT" | "MAX_UTILIZATION" | "STATIC_BATCH";
  max_batch_size: number;
  scheduler_capacity: number | null;
  max_num_active_requests: number;
  max_num_tokens: number;
  enable_chunked_prefill: boolean;
  context_chunking_policy: "FIRST_COME_FIRST_SERVED" | "EQUAL_PROGRESS" | null;
  chunk_unit_size: number | null;
  tokens_per_block: number;
  num_blocks: number;
  max_seq_len: number;
  max_input_len: number;
  enable_block_reuse: boolean;
  enable_partial_reuse: boolean;
  enable_prefix_aware_scheduling: boolean;
  two_step_lookahead: boolean;
  waiting_queue_policy: "fcfs" | "priority";
}

export interface TrtTraceRequest {
  id: number;
  at: number;
  prompt: [base: number, count: number][];
  max_new_tokens: number;
  stop_at?: number;
  priority?: number;
}

export interface TrtTrace {
  name: string;
  overlap: boolean;
  config: TrtTraceConfig;
  outputBase: number;
  requests: TrtTraceRequest[];
  /** Rows `it`, then `end`. */
  rows: Row[];
}

interface Header {
  format: string;
  name: string;
  source: { overlap: boolean };
  config: TrtTraceConfig;
  output_token_base: number;
  requests: number;
}

const HEADER_KEYS = "format name about source config output_token_base requests robust".split(" ");
const REQUEST_KEYS = "t id at prompt max_new_tokens stop_at priority".split(" ");
const CONFIG_KEYS = [
  ..."capacity_scheduler_policy max_batch_size scheduler_capacity max_num_active_requests max_num_tokens".split(" "),
  ..."enable_chunked_prefill context_chunking_policy chunk_unit_size tokens_per_block num_blocks max_seq_len".split(
    " ",
  ),
  ..."max_input_len enable_block_reuse enable_partial_reuse enable_prefix_aware_scheduling two_step_lookahead".split(
    " ",
  ),
  "waiting_queue_policy",
];

/** Reads a trace. `text` is the whole unpacked file; `path` is for messages. Throws with the line number for invalid text. */
export function readTrtTrace(text: string, path: string): TrtTrace {
  const lines = text.trimEnd().split("\n");
  const [first, ...others] = lines.map((line, i) => {
    try {
      return JSON.parse(line) as Row;
    } catch {
      throw new Error(`${path}:${i + 1}: not JSON`);
    }
  });
  const header = first as unknown as Header;
  if (header?.format !== "golden-trtllm/1") throw new Error(`${path}:1: expected format golden-trtllm/1`);
  refuseOthers(header, HEADER_KEYS, `${path}:1: the header`);
  refuseOthers(header.config, CONFIG_KEYS, `${path}:1: the configuration`);
  const lacks = CONFIG_KEYS.find((key) => !(key in header.config));
  if (lacks) throw new Error(`${path}:1: the configuration lacks ${lacks}`);
  for (const [i, row] of others.entries()) {
    if (row.t === "req") refuseOthers(row, REQUEST_KEYS, `${path}:${i + 2}: the request`);
  }
  const requests = others.filter((row) => row.t === "req") as unknown as TrtTraceRequest[];
  const rows = others.filter((row) => row.t !== "req");
  if (requests.length !== header.requests)
    throw new Error(`${path}: the header counts other requests than the file has`);
  if (rows.at(-1)?.t !== "end") throw new Error(`${path}: the last row is not the end`);
  return {
    name: header.name,
    overlap: header.source.overlap,
    config: header.config,
    outputBase: header.output_token_base,
    requests,
    rows,
  };
}

export const promptOf = ({ prompt }: TrtTraceRequest): number[] =>
  prompt.flatMap(([base, count]) => Array.from({ length: count }, (_, i) => base + i));

const POLICIES = {
  GUARANTEED_NO_EVICT: CapacityPolicy.GuaranteedNoEvict,
  MAX_UTILIZATION: CapacityPolicy.MaxUtilization,
  STATIC_BATCH: CapacityPolicy.StaticBatch,
};
const CHUNKING = {
  FIRST_COME_FIRST_SERVED: ChunkingPolicy.FirstComeFirstServed,
  EQUAL_PROGRESS: ChunkingPolicy.EqualProgress,
};

/** Returns the configuration of a core for a trace. `longest`: tokens of the longest prompt. */
export function trtSetup(config: TrtTraceConfig, overlap: boolean, longest: number): CoreSetup {
  const policy = POLICIES[config.capacity_scheduler_policy];
  if (policy === undefined) throw new Error(`unknown policy: ${config.capacity_scheduler_policy}`);
  return {
    config: {
      [Config.MaxModelLen]: config.max_seq_len,
      [Config.MaxNumSeqs]: config.max_num_active_requests,
      [Config.MaxNumActiveSeqs]: config.max_num_active_requests,
      [Config.MaxNumBatchedTokens]: config.max_num_tokens,
      [Config.BlockSize]: config.tokens_per_block,
      [Config.NumGpuBlocks]: config.num_blocks + 1,
      [Config.EnablePrefixCaching]: Number(config.enable_block_reuse),
      [Config.EnableChunkedPrefill]: Number(config.enable_chunked_prefill),
      [Config.AsyncScheduling]: Number(overlap),
      [Config.PriorityPolicy]: Number(config.waiting_queue_policy === "priority"),
      [Config.EosId]: EOS,
      [Config.InputLength]: Math.max(longest, FEED) + 64,
      [Config.Scale]: 1,
    },
    trt: {
      [TrtConfig.CapacityPolicy]: policy,
      [TrtConfig.ChunkingPolicy]: CHUNKING[config.context_chunking_policy ?? "FIRST_COME_FIRST_SERVED"],
      [TrtConfig.MaxBatchSize]: config.max_batch_size,
      [TrtConfig.MaxNumRequests]: config.scheduler_capacity ?? config.max_batch_size,
      [TrtConfig.MaxContextLength]: config.max_num_tokens,
      [TrtConfig.ChunkUnit]: config.chunk_unit_size ?? config.tokens_per_block,
      [TrtConfig.MaxInputLen]: config.max_input_len,
      [TrtConfig.PartialReuse]: Number(config.enable_partial_reuse),
      [TrtConfig.CopyOnPartialReuse]: 1,
      [TrtConfig.PrefixAwareScheduling]: Number(config.enable_prefix_aware_scheduling),
      [TrtConfig.TwoStepLookahead]: Number(config.two_step_lookahead),
      [TrtConfig.CppExecutor]: 0,
      [TrtConfig.PeftPages]: 0,
      [TrtConfig.PeftMaxPages]: 0,
    },
  };
}

/** An id that no prompt or output has. */
export const EOS = 49_999_999;
