/**
 * Writes non-streamed answers to chats and completions: all fields of vLLM 0.33's `ChatCompletionResponse` and
 * `CompletionResponse` in their order, also those that are null.
 */

import { Finish } from "../../../engine/interface/types.ts";
import type { ReasoningField } from "../../../text/grammar/parsers.ts";
import { CACHE_THRESHOLD } from "../../openai/pipeline/cache-threshold.ts";
import { type AnswerContext, cacheUse, FINISH_NAMES, type Prompt, promptOf } from "../../openai/pipeline/context.ts";
import type { ChoiceSoFar, WholeChoice } from "../../openai/pipeline/form.ts";
import type { LongTexts } from "../../openai/pipeline/long-body.ts";
import { REMOTE_DECODE, REMOTE_PARAMS } from "../../openai/request/kv-transfer.ts";
import { Logprobs, type TextParts } from "../../openai/request/logprobs.ts";
import { hidesTokens, type OutputOptions } from "../../openai/request/output-options.ts";
import type { ToolCall } from "../../openai/tool-calls/output.ts";
import { idParts, weightOfIds } from "./prompt-ids.ts";

/** Returns `finish_reason`, which is `tool_calls` if the choice called a tool of its own choice (`tool_calls_utils.py`). */
export function finishName({ namedTool }: Pick<OutputOptions, "namedTool">, finish: Finish, called: boolean): string {
  return called && finish === Finish.Stop && !namedTool ? "tool_calls" : FINISH_NAMES[finish];
}

/** Returns the JSON of `stop_reason`. */
export function stopReason(finish: Finish | null, stop: ChoiceSoFar["stop"]): string {
  if (finish === Finish.Repetition && typeof stop !== "string") return '"repetition_detected"';
  return stop === null ? "null" : JSON.stringify(stop);
}

/** Returns the JSON of `weight_versions` of a choice that has ended. The weights never change. */
export function weightVersions({ weightVersions: shown }: OutputOptions, tokens: number): string {
  return shown ? `[{"version":"default","start":0,"end":${tokens}}]` : "null";
}

/** Returns the JSON of `completion_tokens_details`. */
export function completionDetails(reasoningTokens: number | null): string {
  return reasoningTokens === null ? "null" : `{"reasoning_tokens":${reasoningTokens}}`;
}

/** Constant parts of most answers. Each is one text, because joining texts costs by their number. */
const NO_USAGE_DETAILS = ',"prompt_tokens_details":null,"completion_tokens_details":null}';
const NO_PROMPT_FIELDS = ',"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null';
const NO_MORE = ',"refusal":null,"annotations":null,"audio":null,"function_call":null';
const NO_MORE_MESSAGE = `${NO_MORE},"reasoning":null}`;
const NO_TRANSFER = ',"kv_transfer_params":null,"ec_transfer_params":null,"metrics":';
const TRANSFER = NO_TRANSFER.replace("null", REMOTE_PARAMS);

/** Returns the body of a chat completion. Its long texts are added to `long`, and marks represent them in the body. */
export function chatBody(context: AnswerContext, choices: readonly WholeChoice[], long: LongTexts): string {
  return bodyOf(context, choices, "chat.completion", chatChoice, promptFields(context, long), long);
}

/** Like `chatBody`, for a completion. */
export function completionBody(context: AnswerContext, choices: readonly WholeChoice[], long: LongTexts): string {
  return bodyOf(context, choices, "text_completion", completionChoice, "", long);
}

function bodyOf(
  context: AnswerContext,
  choices: readonly WholeChoice[],
  object: string,
  choiceText: (context: AnswerContext, choice: WholeChoice, long: LongTexts) => string,
  promptPart: string,
  long: LongTexts,
): string {
  const { id, created, model, output, server, prompts } = context;
  let list = "";
  let promptTokens = 0;
  let completionTokens = 0;
  for (const prompt of prompts) promptTokens += prompt.tokens;
  for (const choice of choices) {
    const text = choiceText(context, choice, long);
    list = list === "" ? text : `${list},${text}`;
    completionTokens += choice.tokens;
  }
  const fingerprint = server.fingerprint === null ? "null" : JSON.stringify(server.fingerprint);
  const thoughts = output.parser?.reasoning
    ? choices.reduce((sum, { reasoningTokens }) => sum + (reasoningTokens ?? 0), 0)
    : null;
  const details =
    thoughts === null && !server.answers.enablePromptTokensDetails
      ? NO_USAGE_DETAILS
      : usageDetails(context, choices, thoughts);
  const { times: outputTimes, submission } = choices[0]!;
  const times = outputTimes?.text(context.queuedUs, completionTokens, submission, true) ?? "null";
  return (
    `{"id":${JSON.stringify(id)},"object":"${object}","created":${created},"model":${JSON.stringify(model)},"choices":[${list}]` +
    `,"service_tier":null,"system_fingerprint":${fingerprint},"usage":{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens + completionTokens},"completion_tokens":${completionTokens}${details}` +
    `${promptPart}${context.remoteDecode ? TRANSFER : NO_TRANSFER}${times}}`
  );
}

function usageDetails(context: AnswerContext, choices: readonly WholeChoice[], thoughts: number | null): string {
  const { server, output } = context;
  let details = "null";
  if (server.answers.enablePromptTokensDetails) {
    const { cached, made } = cacheUse(context, choices.at(-output.n)!.submission);
    details = `{"cached_tokens":${cached},"created_cache_tokens":${output.chat ? made : null},"multimodal_tokens":null}`;
  }
  return `,"prompt_tokens_details":${details},"completion_tokens_details":${completionDetails(thoughts)}}`;
}

function promptFields(context: AnswerContext, long: LongTexts): string {
  const { promptText, prompts, output } = context;
  if (promptText === null && output.promptLogprobs === null && !output.returnTokenIds) return NO_PROMPT_FIELDS;
  const prompt = prompts[0]!;
  const ids = output.returnTokenIds && !context.batch ? promptIds(prompt, long) : "null";
  const text = promptText === null ? "null" : JSON.stringify(promptText);
  return `,"prompt_logprobs":${promptLogprobs(context, prompt, long)},"prompt_token_ids":${ids},"prompt_text":${text}`;
}

/** Returns the end of a choice, from `logprobs` on. */
function ending(
  context: AnswerContext,
  choice: WholeChoice,
  logprobs: string,
  tokenIds: string,
  prompt: string,
  called = false,
): string {
  const reason =
    choice.named ?? (context.remoteDecode ? REMOTE_DECODE : finishName(context.output, choice.finish!, called));
  const stop = stopReason(choice.finish, choice.stop);
  const plain = logprobs === "null" && tokenIds === "null" && prompt === "" && stop === "null";
  if (plain && !context.output.weightVersions) return PLAIN_ENDINGS.get(reason)!;
  return `,"logprobs":${logprobs},"finish_reason":"${reason}","stop_reason":${stop},"token_ids":${tokenIds}${prompt},"routed_experts":null,"weight_versions":${weightVersions(context.output, choice.tokens)}}`;
}

/** Ends of choices without anything optional, by `finish_reason`. */
const PLAIN_ENDINGS: ReadonlyMap<string, string> = new Map(
  [...FINISH_NAMES, "tool_calls", CACHE_THRESHOLD, REMOTE_DECODE].map((reason) => [
    reason,
    `,"logprobs":null,"finish_reason":"${reason}","stop_reason":null,"token_ids":null,"routed_experts":null,"weight_versions":null}`,
  ]),
);

function chatChoice(context: AnswerContext, choice: WholeChoice, long: LongTexts): string {
  const { role, lastMessage, returnTokenIds, chatEcho: echo } = context.output;
  const hidden = hidesTokens(context.output);
  const ids = !hidden && needsIds(context.output) ? choice.ids : NO_IDS;
  const { content, reasoning, calls } = choice.message();
  const logprobs = logprobsText(context, ids.length, long, () => choice.logprobs()?.chatParts(ids, 0));
  const shown = content === null && !echo ? "null" : JSON.stringify(lastMessage + (content ?? ""));
  const field = context.server.answers.reasoningField ?? "reasoning";
  const isPlain = calls.length === 0 && reasoning === null && field === "reasoning";
  const more = isPlain ? NO_MORE_MESSAGE : moreOf(calls, reasoning, field);
  const tokenIds = returnTokenIds && !hidden ? JSON.stringify(ids) : "null";
  const end = ending(context, choice, logprobs, tokenIds, "", calls.length > 0);
  return `{"index":${choice.index},"message":{"role":${JSON.stringify(role)},"content":${shown}${more}${end}`;
}

/** Returns the members of a message after `content`. */
function moreOf(calls: readonly ToolCall[], reasoning: string | null, field: ReasoningField): string {
  const called = calls.length === 0 ? "" : `,"tool_calls":[${calls.map(wholeCall)}]`;
  const names = field === "both" ? ["reasoning", "reasoning_content"] : [field];
  return `${NO_MORE}${called}${names.map((name) => `,"${name}":${JSON.stringify(reasoning)}`).join("")}}`;
}

const NO_IDS: readonly number[] = [];
/** UTF-16 units of the longest text that is written at once, which takes some hundredths of a millisecond. */
const LONG_TEXT = 16_384;
/** UTF-16 units that are written in the time of one candidate of log probabilities. */
const CHARACTERS_OF_A_CANDIDATE = 64;
/** Reports whether an answer shows its token IDs. Most answers do not, and need no copy of them. */
const needsIds = ({ returnTokenIds, logprobs }: OutputOptions) => returnTokenIds || logprobs !== null;

/** Returns the JSON of a complete tool call, as in `tool_calls` of an answer that is not a stream. */
export function wholeCall({ id, name, arguments: json }: ToolCall): string {
  return `{"id":${JSON.stringify(id)},"type":"function","function":{"name":${JSON.stringify(name)},"arguments":${JSON.stringify(json)}}}`;
}

function completionChoice(context: AnswerContext, choice: WholeChoice, long: LongTexts): string {
  const { echo, onlyEcho, returnTokenIds } = context.output;
  const prompt = promptOf(context, choice.index);
  const ids = !onlyEcho && needsIds(context.output) ? choice.ids : NO_IDS;
  const { content } = choice.message();
  let text = onlyEcho ? "" : (content ?? "");
  if (echo && !returnTokenIds) text = (prompt.echo ?? "") + text;
  const echoed = echo ? (prompt.ids ?? []) : [];
  const count = context.output.promptLogprobs;
  const size = context.server.vocabulary.size;
  const promptCount = count === null ? undefined : count === -1 ? size : count;
  const parts = () => choice.logprobs()?.completionParts(ids, 0, echoed, promptCount);
  const logprobs = logprobsText(context, echoed.length + ids.length, long, parts);
  const tokenIds = returnTokenIds ? JSON.stringify(ids) : "null";
  const shownIds = returnTokenIds ? promptIds(prompt, long) : "null";
  const promptPart = `,"prompt_logprobs":${promptLogprobs(context, prompt, long)},"prompt_token_ids":${shownIds}`;
  return `{"index":${choice.index},"text":${textOf(text, long)}${ending(context, choice, logprobs, tokenIds, promptPart)}`;
}

/** Returns the number of candidates of a token, including the token itself. */
export const candidatesOf = (count: number, vocabularySize: number) => 1 + (count === -1 ? vocabularySize : count);

/** Returns the JSON of a choice's `logprobs`, or the mark that represents it. `tokens`: number of tokens that it shows. */
function logprobsText(
  { output, server }: AnswerContext,
  tokens: number,
  long: LongTexts,
  make: () => TextParts | undefined,
): string {
  if (output.logprobs === null) return "null";
  const each = candidatesOf(output.logprobIds?.length ?? output.logprobs, server.vocabulary.size);
  return long.text(tokens * each, make);
}

/** Returns the JSON of a completion's text, or the mark that represents it if the text is long. */
function textOf(text: string, long: LongTexts): string {
  if (text.length <= LONG_TEXT) return JSON.stringify(text);
  return long.text(Math.ceil(text.length / CHARACTERS_OF_A_CANDIDATE), () => [JSON.stringify(text)]);
}

/** Returns the JSON of `prompt_token_ids`, or the mark that represents it. It is null if the prompt's IDs are not kept. */
function promptIds({ ids }: Prompt, long: LongTexts): string {
  return ids === null ? "null" : long.text(weightOfIds(ids), () => idParts(ids));
}

/** Returns the JSON of `prompt_logprobs`, or the mark that represents it. It is null if the prompt's IDs are not kept. */
function promptLogprobs(context: AnswerContext, { ids, seed }: Prompt, long: LongTexts): string {
  const { server, output, logprobs } = context;
  const count = output.promptLogprobs;
  if (count === null || ids === null) return "null";
  const source = logprobs?.(0) ?? server.logprobs;
  const most = ids.length * candidatesOf(count, server.vocabulary.size);
  return long.text(most, () => new Logprobs(source, seed, server.vocabulary, count, false).promptParts(ids));
}
