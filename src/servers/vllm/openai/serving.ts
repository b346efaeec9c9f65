/** What do readers and answers find of the server? Limits and traits from its options. */
import { UserError } from "../../../base/start-errors.ts";
import { flatEngineConfig } from "../../../engine/config/engine-config.ts";
import type { Accounting } from "../../../kernel/accounting.ts";
import { frontLimitsOf } from "../../../wire/http/front-limits.ts";
import type { LoraAdapters } from "../../openai/front/adapters.ts";
import { VLLM_VERSION } from "../../openai/front/served.ts";
import { requestTimedOut } from "../../openai/request/errors.ts";
import type { LogprobSource } from "../../openai/request/logprob-source.ts";
import { seededLogprobs } from "../../openai/request/logprobs.ts";
import type { OpenAiKernel, OpenAiServerConfig } from "../../openai/request/openai-config.ts";
import type { Limits } from "../../openai/request/request.ts";
import { samplingDefaults } from "../../openai/request/sampling-defaults.ts";
import type { ServerTraits } from "../../openai/request/server-traits.ts";
import { reasoningSetup } from "../../openai/tool-calls/reasoning.ts";
import { toolParserKind } from "../../openai/tool-calls/tool-parsers.ts";

export function limitsOf({ config, text }: OpenAiKernel, adapters: LoraAdapters): Limits {
  const { vocabulary, generation } = text.model;
  return {
    ...samplingDefaults(generation, config.openai.requests.generation),
    maxModelLen: config.engine.maxModelLen,
    maxLogprobs: config.openai.requests.maxLogprobs,
    vocabularySize: vocabulary.size,
    maxTokenCharacters: vocabulary.maxTokenBytes,
    servedModelNames: config.models.servedModelNames,
    loraNames: adapters.names,
    ...(config.text.reasoningParser === undefined ? {} : { reasoning: config.text.reasoningParser }),
    takesImages: config.openai.requests.imageTokens !== undefined,
    parsesTools: config.text.toolCallParser !== undefined,
    judgesCache: config.queue.cacheHitThreshold !== undefined,
    transfersKv: config.queue.kvTransferTime !== undefined,
  };
}

/** Replaces traits that follow from the kernel. */
interface OtherTraits {
  readonly tools?: ServerTraits["tools"];
  readonly logprobs?: LogprobSource | undefined;
}

export function serverOf(kernel: OpenAiKernel, { tools = toolsOf(kernel), logprobs }: OtherTraits = {}): ServerTraits {
  const { backend, config, live, log } = kernel;
  const { vocabulary } = kernel.text.model;
  const { logsRequests } = live.values;
  return {
    answers: config.openai.answers,
    backend,
    alive: kernel.engines.alive,
    vocabulary,
    logprobs: logprobs ?? seededLogprobs(vocabulary.size),
    fingerprint: fingerprintOf(config),
    cacheBlockTokens: config.engine.enablePrefixCaching ? config.engine.blockSize : 0,
    requestLog: { get: () => (logsRequests.get() ? log : null) },
    reasoning: reasoningOf(kernel),
    tools,
    timedOut: requestTimedOut(frontLimitsOf(config).requestTimeoutS),
    waiting: kernel.metrics.accounting,
  };
}

/** Throws a `UserError` if the tokenizer lacks the tokens that the parser looks for. */
function reasoningOf({ config, text }: OpenAiKernel): ServerTraits["reasoning"] {
  const name = config.text.reasoningParser;
  if (name === undefined) return null;
  const setup = reasoningSetup(name, text.model.vocabulary);
  if (setup !== null) return setup;
  const why = `no tokens <think> and </think>, which reasoning in the format of ${name} stands between`;
  throw new UserError(`--tokenizer ${config.text.tokenizer}`, why);
}

/** The parser of tool calls; null: there is none. */
export function toolsOf({ config, text, metrics, chance }: OpenAiKernel): ServerTraits["tools"] {
  const { autoToolChoice = false, toolHabits: habits } = config.openai.answers;
  const name = config.text.toolCallParser;
  if (name === undefined) return null;
  const parsed: Accounting["parsed"] = (...of) => metrics.accounting.parsed?.(...of);
  return {
    kind: toolParserKind(name, text.model.vocabulary, chance.newId),
    autoEnabled: autoToolChoice,
    habits,
    parsed,
  };
}

/**
 * The fingerprint of all answers. null: they carry none. By default a hash of what the server runs with, as vLLM's: equal
 * servers have equal ones. It ends with the number of ranks.
 */
function fingerprintOf({ models: { model }, engine, dataParallelSize, openai }: OpenAiServerConfig): string | null {
  const { fingerprintMode, fingerprintValue } = openai.answers;
  if (fingerprintMode === "none") return null;
  if (fingerprintMode === "custom") return fingerprintValue ?? "";
  const ranks = dataParallelSize > 1 && fingerprintMode !== "hash" ? `-dp${dataParallelSize}` : "";
  let hash = 0x811c9dc5;
  for (const character of JSON.stringify([model, flatEngineConfig(engine)]))
    hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193);
  return `vllm-${VLLM_VERSION}${ranks}-${(hash >>> 0).toString(16).padStart(8, "0")}`;
}
