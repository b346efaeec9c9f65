/**
 * Adds the tensors of the `vllm` backend that a configuration omits, disables batching and makes the model decoupled. Source:
 * `auto_complete_config` in the backend's `model.py` (vllm_backend, January 2026).
 */
import type { ModelConfig, TensorConfig } from "./model-config.ts";

const wish = (name: string): TensorConfig => ({ name, data_type: "TYPE_BOOL", dims: [1], optional: true });
const text = (name: string, dim = 1): TensorConfig => ({ name, data_type: "TYPE_STRING", dims: [dim], optional: true });

const INPUTS: readonly TensorConfig[] = [
  { name: "text_input", data_type: "TYPE_STRING", dims: [1] },
  text("image", -1),
  wish("stream"),
  text("sampling_parameters"),
  wish("exclude_input_in_output"),
  wish("return_finish_reason"),
  wish("return_cumulative_logprob"),
  wish("return_logprobs"),
  wish("return_num_input_tokens"),
  wish("return_num_output_tokens"),
  text("embedding_request"),
];

const OUTPUTS: readonly TensorConfig[] = [
  { name: "text_output", data_type: "TYPE_STRING", dims: [-1] },
  { name: "finish_reason", data_type: "TYPE_STRING", dims: [-1] },
  { name: "cumulative_logprob", data_type: "TYPE_FP32", dims: [-1] },
  { name: "logprobs", data_type: "TYPE_STRING", dims: [-1] },
  { name: "num_input_tokens", data_type: "TYPE_UINT32", dims: [1] },
  { name: "num_output_tokens", data_type: "TYPE_UINT32", dims: [-1] },
];

export function withVllmTensors(config: Partial<ModelConfig>): Partial<ModelConfig> {
  return {
    ...config,
    max_batch_size: 0,
    input: completed(config.input, INPUTS),
    output: completed(config.output, OUTPUTS),
    model_transaction_policy: { decoupled: true },
  };
}

const completed = (configured: readonly TensorConfig[] = [], all: readonly TensorConfig[]): readonly TensorConfig[] => [
  ...configured,
  ...all.filter(({ name }) => !configured.some((tensor) => tensor.name === name)),
];
