/**
 * Recognises the LLM models: models of the backends `vllm` and `tensorrtllm`, and Python models with the tensors of
 * TensorRT-LLM's repository. A real server runs their `model.py`; here the code of this folder replaces it.
 */
import type { FoundBehaviour } from "../behaviours/table.ts";
import { isLlmApi, type ModelConfig, type TensorConfig } from "../model-config/model-config.ts";
import type { LlmDeps } from "./around.ts";
import { tensorrtLlmBls } from "./bls.ts";
import type { LlmCounts } from "./counts.ts";
import { llmApi } from "./llm-api.ts";
import { postprocessing, preprocessing } from "./processing.ts";
import { tensorrtLlm } from "./tensorrt-llm.ts";
import { vllmBehaviour } from "./vllm.ts";

/** Returns a function that finds a model's behaviour. It returns undefined for all other models. */
export function llmModels(deps: LlmDeps, counts: LlmCounts): (config: ModelConfig) => FoundBehaviour | undefined {
  const ofEngine = true;
  const models = {
    vllm: { behaviour: vllmBehaviour(deps, counts), from: "the engine, as the vLLM backend", ofEngine },
    trtllm: { behaviour: tensorrtLlm(deps, counts), from: "the engine, as the TensorRT-LLM backend", ofEngine },
    llmApi: { behaviour: llmApi(deps), from: "the engine, as TensorRT-LLM's LLM API", ofEngine },
    before: { behaviour: preprocessing(deps), from: "texts to ids" },
    after: { behaviour: postprocessing(deps), from: "ids to texts" },
    bls: { behaviour: tensorrtLlmBls, from: "the three steps of TensorRT-LLM, one after the other" },
  };
  return (config) => {
    const { backend, input, output } = config;
    if (backend === "vllm") return models.vllm;
    if (backend === "tensorrtllm") return models.trtllm;
    if (backend !== "python") return undefined;
    if (has(input, "input_ids", "request_output_len") && has(output, "output_ids", "sequence_length"))
      return models.trtllm;
    if (has(input, "QUERY", "REQUEST_OUTPUT_LEN") && has(output, "INPUT_ID", "REQUEST_INPUT_LEN")) return models.before;
    if (has(input, "TOKENS_BATCH", "SEQUENCE_LENGTH") && has(output, "OUTPUT")) return models.after;
    if (isLlmApi(config)) return models.llmApi;
    const asks = config.name === "tensorrt_llm_bls" || config.parameters?.tensorrt_llm_model_name !== undefined;
    return asks && has(input, "text_input", "max_tokens") && has(output, "text_output") ? models.bls : undefined;
  };
}

const has = (tensors: readonly TensorConfig[] = [], ...names: readonly string[]): boolean =>
  names.every((name) => tensors.some((tensor) => tensor.name === name));
