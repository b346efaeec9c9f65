/**
 * Which models are LLM models? Those of the backends `vllm` and `tensorrtllm`, and Python models with the tensors of
 * TensorRT-LLM's repository: what the real ones compute stands in a `model.py` that nobody runs here.
 */
import type { FoundBehaviour } from "../behaviours/table.ts";
import { isLlmApi, type ModelConfig, type TensorConfig } from "../model-config/model-config.ts";
import type { LlmAround } from "./around.ts";
import { tensorrtLlmBls } from "./bls.ts";
import type { LlmCounts } from "./counts.ts";
import { llmApi } from "./llm-api.ts";
import { postprocessing, preprocessing } from "./processing.ts";
import { tensorrtLlm } from "./tensorrt-llm.ts";
import { vllmBehaviour } from "./vllm.ts";

/** Gives undefined for all other models. */
export function llmModels(around: LlmAround, counts: LlmCounts): (config: ModelConfig) => FoundBehaviour | undefined {
  const ofEngine = true;
  const of = {
    vllm: { behaviour: vllmBehaviour(around, counts), from: "the engine, as the vLLM backend", ofEngine },
    trtllm: { behaviour: tensorrtLlm(around, counts), from: "the engine, as the TensorRT-LLM backend", ofEngine },
    llmApi: { behaviour: llmApi(around), from: "the engine, as TensorRT-LLM's LLM API", ofEngine },
    before: { behaviour: preprocessing(around), from: "texts to ids" },
    after: { behaviour: postprocessing(around), from: "ids to texts" },
    bls: { behaviour: tensorrtLlmBls, from: "the three steps of TensorRT-LLM, one after the other" },
  };
  return (config) => {
    const { backend, input, output } = config;
    if (backend === "vllm") return of.vllm;
    if (backend === "tensorrtllm") return of.trtllm;
    if (backend !== "python") return undefined;
    if (has(input, "input_ids", "request_output_len") && has(output, "output_ids", "sequence_length")) return of.trtllm;
    if (has(input, "QUERY", "REQUEST_OUTPUT_LEN") && has(output, "INPUT_ID", "REQUEST_INPUT_LEN")) return of.before;
    if (has(input, "TOKENS_BATCH", "SEQUENCE_LENGTH") && has(output, "OUTPUT")) return of.after;
    if (isLlmApi(config)) return of.llmApi;
    const asks = config.name === "tensorrt_llm_bls" || config.parameters?.tensorrt_llm_model_name !== undefined;
    return asks && has(input, "text_input", "max_tokens") && has(output, "text_output") ? of.bls : undefined;
  };
}

const has = (tensors: readonly TensorConfig[] = [], ...names: readonly string[]): boolean =>
  names.every((name) => tensors.some((one) => one.name === name));
