/**
 * Does the prompt fit the context, and how many tokens may the answer have? vLLM 0.33, `renderers/params.py`
 * (TokenizeParams), `entrypoints/serve/utils/api_utils.py` (get_max_tokens). All answers here are plain 400s, also for a
 * stream: they are known before its head.
 */

import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { codePoints, type Int } from "../../pydantic/value.ts";
import { badRequest, validationError } from "./errors.ts";
import type { ChatRequest, CompletionRequest, Limits, SamplingFields } from "./request.ts";
import { checkParameters } from "./sampling.ts";

/** Limits that need no prompt: output tokens and truncation against the context. `translate.ts` calls it. */
export function checkContext(sampling: SamplingFields, limits: Limits): ErrorAnswer | null {
  const { maxTokens, maxTokensParam, truncatePromptTokens } = sampling;
  const most = limits.maxModelLen;
  if (maxTokens !== null && maxTokens > most)
    return validationError(
      `${maxTokensParam}=${maxTokens} cannot be greater than max_model_len=${most}. Please request fewer output tokens.`,
      maxTokensParam,
      String(maxTokens),
    );
  if (truncatePromptTokens !== null && truncatePromptTokens > most)
    return validationError(
      `truncate_prompt_tokens=${truncatePromptTokens} cannot be greater than max_model_len = ${most}. Please request a smaller truncation size.`,
      "truncate_prompt_tokens",
      String(truncatePromptTokens),
    );
  return null;
}

/**
 * Before a prompt text (chat: the rendered template) is tokenized: more characters than the context can hold, or text
 * that no encoder takes. `truncated`: the request has `truncatePromptTokens`, then length is no reason.
 */
export function checkPromptText(text: string, limits: Limits, truncated = false): ErrorAnswer | null {
  const most = limits.maxModelLen * limits.maxTokenCharacters;
  if (!truncated && text.length > most) {
    const characters = codePoints(text);
    if (characters > most)
      return validationError(
        `This model's maximum context length is ${limits.maxModelLen} tokens. However, your prompt contains ${characters} characters ` +
          `(more than ${most} characters, which is the upper bound for ${limits.maxModelLen} input tokens). ` +
          "Please reduce the length of the input prompt.",
        "input_text",
        String(characters),
      );
  }
  if (text.isWellFormed()) return null;
  return badRequest("TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]");
}

/** How many tokens of the prompt `truncate_prompt_tokens` keeps; Infinity: all. -1 leaves room for one token of output. */
export function keptTokens(request: ChatRequest | CompletionRequest, limits: Limits): number {
  const keep = request.truncatePromptTokens;
  if (keep === null) return Number.POSITIVE_INFINITY;
  if (keep >= 0) return keep;
  const wantsOutput = request.kind === "chat" ? request.maxTokens !== 0 : (request.maxTokens ?? 0) !== 0;
  return wantsOutput ? limits.maxModelLen - 1 : limits.maxModelLen;
}

/**
 * The ids that `truncate_prompt_tokens` leaves; the left side goes unless the request says otherwise. May be a view.
 * `front`: how many tokens the tokenizer put before the text. Where no side is named it is the tokenizer that truncates
 * (`get_encode_kwargs`), and it puts them before what is left.
 */
export function truncatePrompt(
  ids: Uint32Array,
  request: ChatRequest | CompletionRequest,
  limits: Limits,
  front = 0,
): Uint32Array {
  const keep = keptTokens(request, limits);
  if (keep >= ids.length) return ids;
  if (request.truncationSide === "right") return ids.subarray(0, keep);
  const kept = request.addSpecialTokens && request.truncationSide === null ? Math.min(front, keep) : 0;
  const text = ids.subarray(ids.length - keep + kept);
  if (kept === 0) return text;
  const all = new Uint32Array(keep);
  all.set(ids.subarray(0, kept));
  all.set(text, kept);
  return all;
}

/**
 * After tokenizing: the prompt's length, then everything that vLLM checks when it makes the sampling parameters.
 * `promptTokens`: tokens of the prompt, before or after truncation. `fromText`: it was text, which vLLM stops counting at
 * one more than the context holds. The answer's limit is the rest of the context at most, cut without a word.
 */
export function checkPrompt(
  request: ChatRequest | CompletionRequest,
  promptTokens: number,
  fromText: boolean,
  limits: Limits,
): { readonly maxTokens: number } | { readonly error: ErrorAnswer } {
  const refused = limits.refusesPrompt?.(promptTokens) ?? null;
  if (refused !== null) return { error: refused };
  const most = limits.maxModelLen;
  const kept = Math.min(promptTokens, keptTokens(request, limits));
  const count = fromText ? Math.min(kept, most + 1) : kept;
  if (count > most) return { error: promptTooLong(count, most) };
  const given = request.sampling.maxTokens;
  const rest = Math.min(most - count, limits.maxNewTokens ?? most);
  let maxTokens: Int = given === null || given > rest ? rest : given;
  // One token is made and thrown away when only the prompt is wanted back.
  if (request.kind === "completion" && request.echo && given === 0) maxTokens = 1;
  const error = checkParameters(request, maxTokens);
  return error === null ? { maxTokens: Number(maxTokens) } : { error };
}

export function promptTooLong(count: number, most: number): ErrorAnswer {
  const qualifier = count === most + 1 ? "at least " : "";
  return validationError(
    `This model's maximum context length is ${most} tokens. However, your prompt contains ${qualifier}${count} input tokens, ` +
      "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
    "input_tokens",
    String(count),
  );
}
