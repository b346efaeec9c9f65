/**
 * Writes the log lines of `--enable-log-requests`, one per prompt, as vLLM 0.33 logs them at INFO (`entrypoints/logger.py`,
 * `v1/engine/async_llm.py`, `SamplingParams.__repr__`). `docs/reference/request-log.md` lists the differences.
 */
import type { LoraModule } from "../../../kernel/kernel-config.ts";
import { repr, reprFloat } from "../../pydantic/repr.ts";
import type { GenerationRequest } from "../request/request.ts";
import { isGreedy, usedTemperature } from "../request/sampling.ts";
import { type AnswerContext, promptId } from "./context.ts";

/** Returns the line of a prompt that the engine is about to get. `maxTokens`: its limit of output tokens. */
export function receivedLine(
  id: string,
  request: GenerationRequest,
  maxTokens: number,
  lora: (LoraModule & { readonly number: number }) | null,
): string {
  const params = `SamplingParams(${parameters(request, maxTokens)})`;
  return `Received request ${printable(id)}: params: ${params}, lora_request: ${lora === null ? "None" : loraRequest(lora)}.`;
}

function loraRequest({ name, number, path, baseModelName }: LoraModule & { readonly number: number }): string {
  const fields = `lora_name=${repr(name)}, lora_int_id=${number}, lora_path=${repr(path)}`;
  return `LoRARequest(${fields}, base_model_name=${repr(baseModelName)}, load_inplace=False, is_3d_lora_weight=False)`;
}

/** Logs a client's disconnect: two lines for each prompt for whose index `runs` returns true. */
export function logAborted(context: AnswerContext, runs: (prompt: number) => boolean): void {
  const { requestLog: log } = context.server;
  if (!log?.isOn.get()) return;
  for (let i = 0; i < context.prompts.length; i++) {
    if (!runs(i)) continue;
    const id = printable(promptId(context, i));
    log.write(`Aborted request(s) ${id}.`);
    log.write(`Request ${id} aborted.`);
  }
}

/** Characters of an id that a line shows. Clients choose the ids. */
const ID_CHARACTERS = 512;

/** Escapes line breaks and control characters of an id, and shortens it. vLLM does neither. */
function printable(id: string): string {
  const quoted = repr(id.slice(0, ID_CHARACTERS)).slice(1, -1);
  return id.length > ID_CHARACTERS ? `${quoted}...` : quoted;
}

/** Returns the parameters in the order of `SamplingParams.__repr__`. */
function parameters(request: GenerationRequest, maxTokens: number): string {
  const { sampling, stop, seed } = request;
  const temperature = usedTemperature(request.temperature);
  const greedy = isGreedy(request.temperature);
  const fields = {
    n: repr(sampling.n),
    presence_penalty: reprFloat(sampling.presencePenalty),
    frequency_penalty: reprFloat(sampling.frequencyPenalty),
    repetition_penalty: reprFloat(sampling.repetitionPenalty),
    temperature: reprFloat(temperature),
    top_p: reprFloat(greedy ? 1 : sampling.topP),
    top_k: repr(greedy ? 0 : sampling.topK),
    min_p: reprFloat(greedy ? 0 : sampling.minP),
    seed: repr(seed === -1 ? null : seed),
    stop: repr([...stop]),
    stop_token_ids: repr([...sampling.stopTokenIds]),
    bad_words: repr([...sampling.badWords.list]),
    thinking_token_budget: repr(sampling.thinkingTokenBudget),
    include_stop_str_in_output: repr(request.includeStopStrInOutput),
    ignore_eos: repr(request.ignoreEos),
    max_tokens: repr(maxTokens),
    min_tokens: repr(sampling.minTokens),
    logprobs: repr(sampling.logprobs),
    prompt_logprobs: repr(sampling.promptLogprobs),
    skip_special_tokens: repr(request.skipSpecialTokens),
  };
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}
