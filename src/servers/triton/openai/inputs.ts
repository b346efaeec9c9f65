/** Converts a request to tensors, for vLLM's backend or for other backends. Source: `engine/utils/triton.py` (2026). */
import { numberTensor, textTensor } from "../behaviours/values.ts";
import type { InferInput } from "../inference/request.ts";
import { hasInput, maxBatchSize } from "../model-config/model-config.ts";
import { type Tensor, toBytesText } from "../tensors/datatypes.ts";
import type { OpenAiBody } from "./fields.ts";
import type { OpenAiModel } from "./models.ts";

export interface QueryInputs {
  readonly prompt: string;
  readonly body: OpenAiBody;
  readonly adapter: string | null;
  readonly maxTokens: number;
  /** Number of candidates per token, or null for no log probabilities. */
  readonly logprobs: number | null;
  /** JSON schema of the answer, or null for any text. */
  readonly schema: string | null;
}

/** Fields that are not passed on as sampling parameters of vLLM. */
const OWN = new Set(
  (
    "model stream messages prompt echo response_format stream_options tools tool_choice user function_call functions " +
    "suffix max_completion_tokens max_tokens logprobs top_logprobs best_of logit_bias"
  ).split(" "),
);

const flagTensor = (name: string, shape: readonly number[], value: boolean): Tensor =>
  numberTensor(name, "BOOL", shape, [Number(value)]);

/** Returns the input tensors. Throws an Error with the front end's message. */
export function inputsOf(model: OpenAiModel, wish: QueryInputs): InferInput[] {
  if (model.format === "vllm") return vllmInputs(wish);
  if (wish.adapter !== null) throw new Error("LoRA selection is currently not supported for TRT-LLM backend");
  return trtllmInputs(model, wish);
}

function vllmInputs({ prompt, body, adapter, maxTokens, logprobs, schema }: QueryInputs): InferInput[] {
  const sampling = {
    ...Object.fromEntries(Object.entries(body).filter(([name, value]) => !OWN.has(name) && value !== null)),
    max_tokens: maxTokens,
    ...(logprobs === null ? {} : { logprobs }),
    ...(adapter === null ? {} : { lora_name: adapter }),
    ...(schema === null ? {} : { structured_outputs: JSON.stringify({ json: schema }) }),
  };
  const printed = JSON.stringify(sampling, (_, value) => (typeof value === "bigint" ? Number(value) : value));
  const flag = (name: string, value: boolean) => flagTensor(name, [1], value);
  return [
    textTensor("text_input", [1], [toBytesText(prompt)]),
    flag("stream", body.stream === true),
    flag("exclude_input_in_output", body.echo !== true),
    textTensor("sampling_parameters", [1], [toBytesText(printed)]),
    flag("return_num_input_tokens", true),
    flag("return_num_output_tokens", true),
    ...(logprobs === null ? [] : [flag("return_logprobs", true)]),
  ];
}

/** Omits unset options, so that the model's defaults apply. */
function trtllmInputs({ served: { config }, format }: OpenAiModel, wish: QueryInputs): InferInput[] {
  const { prompt, body, maxTokens, schema } = wish;
  const api = format === "llmapi";
  const batch = maxBatchSize(config) > 0 ? [1] : [];
  const named = (name: string) => (api ? `sampling_param_${name}` : name);
  const texts = (name: string, values: readonly string[]) =>
    textTensor(name, [...batch, values.length], values.map(toBytesText));
  const floats = ["top_p", "frequency_penalty", "presence_penalty", "temperature"] as const;
  const stop = typeof body.stop === "string" ? [body.stop] : ((body.stop as readonly string[] | null) ?? []);
  const echo = api ? "sampling_param_exclude_input_from_output" : "exclude_input_in_output";
  return [
    texts("text_input", [prompt]),
    flagTensor(api ? "streaming" : "stream", [...batch, 1], body.stream === true),
    numberTensor(named("max_tokens"), "INT32", [...batch, 1], [maxTokens]),
    ...(stop.length === 0 ? [] : [texts(api ? named("stop") : "stop_words", stop)]),
    ...floats.flatMap((name) =>
      typeof body[name] === "number" ? [numberTensor(named(name), "FP32", [...batch, 1], [body[name]])] : [],
    ),
    ...((body.seed ?? null) === null ? [] : [seedTensor(named("seed"), [...batch, 1], body.seed as number | bigint)]),
    ...(schema === null
      ? []
      : [texts("guided_decoding_guide_type", ["json_schema"]), texts("guided_decoding_guide", [schema])]),
    ...(hasInput(config, echo) ? [flagTensor(echo, [...batch, 1], body.echo !== true)] : []),
  ];
}

const seedTensor = (name: string, shape: readonly number[], seed: number | bigint): Tensor =>
  numberTensor(name, "UINT64", shape, [BigInt.asUintN(64, BigInt(seed))]);

export const embeddingInputs = ({ input, dimensions }: OpenAiBody): InferInput[] => {
  const pooling = (dimensions ?? null) === null ? {} : { pooling_params: { dimensions: [Number(dimensions)] } };
  const printed = JSON.stringify({ input, ...pooling });
  return [
    textTensor("text_input", [1], [""]),
    textTensor("embedding_request", [1], [toBytesText(printed)]),
    flagTensor("return_num_input_tokens", [1], true),
    flagTensor("return_num_output_tokens", [1], true),
  ];
};
