/** Makes the limits for readers of requests, and the traits for writers of answers, from the server's options. */
import { UserError } from "../../../base/start-errors.ts";
import { flatEngineConfig, type StepPacing } from "../../../engine/config/engine-config.ts";
import type { Accounting } from "../../../kernel/accounting.ts";
import { connectionLimitsOf } from "../../../wire/http/front-limits.ts";
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

/** Returns the limits that readers check requests against. */
export function limitsOf({ config, live, text }: OpenAiKernel, adapters: LoraAdapters): Limits {
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
    get transfersKv() {
      return live.values.kvTransferTime.get() !== undefined;
    },
  };
}

/** Traits to use instead of those that follow from the kernel. */
interface TraitOverrides {
  readonly tools?: ServerTraits["tools"];
  readonly logprobs?: LogprobSource | undefined;
}

/** Returns the properties of the server that answers depend on. Throws a `UserError` like `reasoningOf`. */
export function serverOf(
  kernel: OpenAiKernel,
  { tools = toolsOf(kernel), logprobs }: TraitOverrides = {},
): ServerTraits {
  const { backend, config, live, log } = kernel;
  const { vocabulary } = kernel.text.model;
  const { logsRequests } = live.values;
  return {
    answers: config.openai.answers,
    backend,
    alive: kernel.engines.alive,
    vocabulary,
    logprobs: logprobs ?? seededLogprobs(vocabulary.size),
    fingerprint: fingerprintOf(config, live.values.pace.get()),
    cacheBlockTokens: config.engine.enablePrefixCaching ? config.engine.blockSize : 0,
    requestLog: { isOn: logsRequests, write: log },
    reasoning: reasoningOf(kernel),
    tools,
    timedOut: requestTimedOut(connectionLimitsOf(config).requestTimeoutS),
    waiting: kernel.metrics.accounting,
  };
}

/** Returns the reasoning parser, or null. Throws a `UserError` if the tokenizer lacks the tokens around reasoning. */
function reasoningOf({ config, text }: OpenAiKernel): ServerTraits["reasoning"] {
  const name = config.text.reasoningParser;
  if (name === undefined) return null;
  const setup = reasoningSetup(name, text.model.vocabulary);
  if (setup !== null) return setup;
  const why = `has no tokens <think> and </think>, which enclose reasoning in the format of ${name}`;
  throw new UserError(`--tokenizer ${config.text.tokenizer}`, why);
}

/** Returns the parser of tool calls, or null if none is configured. */
export function toolsOf({ config, text, metrics, chance }: OpenAiKernel): ServerTraits["tools"] {
  const { autoToolChoice = false, toolHabits: habits } = config.openai.answers;
  const name = config.text.toolCallParser;
  if (name === undefined) return null;
  const parsed: Accounting["parsed"] = (...call) => metrics.accounting.parsed?.(...call);
  return {
    kind: toolParserKind(name, text.model.vocabulary, chance.newId),
    autoEnabled: autoToolChoice,
    habits,
    parsed,
  };
}

/**
 * Returns the fingerprint of all answers, or null if they have none. By default it is a hash of the model and the engine's
 * configuration, so that equal servers have equal fingerprints, and the number of ranks. vLLM hashes its configuration too.
 */
function fingerprintOf(
  { models: { model }, engine, dataParallelSize, openai }: OpenAiServerConfig,
  pace: StepPacing,
): string | null {
  const { fingerprintMode, fingerprintValue } = openai.answers;
  if (fingerprintMode === "none") return null;
  if (fingerprintMode === "custom") return fingerprintValue ?? "";
  const ranks = dataParallelSize > 1 && fingerprintMode !== "hash" ? `-dp${dataParallelSize}` : "";
  let hash = 0x811c9dc5;
  for (const character of JSON.stringify([model, flatEngineConfig({ ...engine, ...pace })]))
    hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193);
  return `vllm-${VLLM_VERSION}${ranks}-${(hash >>> 0).toString(16).padStart(8, "0")}`;
}
