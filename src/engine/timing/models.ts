/** Names and largest sequence lengths of the presets' models. Lengths: `max_position_embeddings` of each. */
export interface PresetModel {
  readonly hub: string;
  readonly maxModelLen: number;
  /** KV cache bytes of one token, over all ranks. */
  readonly kvBytesPerToken: number;
}

export const models: Readonly<Record<string, PresetModel>> = {
  "llama-3.1-8b": { hub: "meta-llama/Llama-3.1-8B-Instruct", maxModelLen: 131072, kvBytesPerToken: 131072 },
  "llama-3.1-70b": { hub: "meta-llama/Llama-3.1-70B-Instruct", maxModelLen: 131072, kvBytesPerToken: 327680 },
  "qwen3-32b": { hub: "Qwen/Qwen3-32B", maxModelLen: 40960, kvBytesPerToken: 262144 },
  "qwen3-30b-a3b": { hub: "Qwen/Qwen3-30B-A3B", maxModelLen: 40960, kvBytesPerToken: 98304 },
  "gpt-oss-120b": { hub: "openai/gpt-oss-120b", maxModelLen: 131072, kvBytesPerToken: 73728 },
};
