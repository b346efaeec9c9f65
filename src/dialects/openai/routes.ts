/** Which routes does the OpenAI dialect of vLLM 0.33 have, and who answers them? */
import { Elysia } from "elysia";
import type { ApiDialect } from "../../answer/dialect.ts";
import type { BodyReader } from "../../answer/form.ts";
import { Generator } from "../../answer/generate.ts";
import { dialectHost } from "../../answer/host.ts";
import { frontLimitsOf } from "../../config/front-limits.ts";
import { samplingDefaults } from "../../config/sampling-defaults.ts";
import type { ServeConfig } from "../../config/types.ts";
import { UnusableFolder } from "../../content/text-model.ts";
import { LoraAdapters } from "../../front/adapters.ts";
import type { Desk } from "../../front/checked.ts";
import type { Accounting, OpenAiOptions } from "../../front/front.ts";
import { type Context, Http } from "../../front/http.ts";
import { loraRoutes } from "../../front/lora-routes.ts";
import { modelList } from "../../front/models.ts";
import { ReadingThread } from "../../front/reading/thread.ts";
import {
  EMBEDDING_METHODS,
  LORA_METHODS,
  METHODS,
  READY_METHODS,
  SCALE_OUT,
  SCALE_OUT_METHODS,
  TOKENIZER_INFO_METHODS,
  VLLM_VERSION,
} from "../../front/served.ts";
import { withImages } from "../../generation/images.ts";
import { seededLogprobs } from "../../generation/logprobs.ts";
import type { ServerTraits } from "../../generation/server-traits.ts";
import { HOT } from "../../http/sink.ts";
import { reasoningSetup } from "../../parsers/reasoning.ts";
import { toolParserKind } from "../../parsers/tool-parsers.ts";
import { internalError, requestTimedOut, scaleOutDisabled, scaleOutNotBuilt } from "../../python/errors.ts";
import type { Limits } from "../../python/request.ts";
import { batchReader, invocationReader } from "./batch.ts";
import { Embeddings } from "./embeddings.ts";
import { chatReader, chatValuePieces, completionReader } from "./read.ts";
import { Tokenizer } from "./tokenize.ts";

/** What the routes look like to a machine; loaded when somebody asks. */
export const openaiDescription = { operations: async () => (await import("./operations.ts")).openaiOperations };

/** Bodies are read and checked here, by vLLM's rules. */
const NO_PARSING = { parse: "none" } as const;

/**
 * The routes, and the answer to everything that no route takes. Use it on an app with `strictPath: true` (a slash too
 * many is a redirect) and a `maxRequestBodySize` above `maxBodyBytes` (the 413 is made here).
 */
export function openai(given: OpenAiOptions, dialects: readonly ApiDialect[] = []) {
  const options = withImages(given);
  const { config, alive, epochSeconds, newId } = options;
  const http = new Http(options, {
    ...METHODS,
    ...SCALE_OUT_METHODS,
    ...(config.runtimeLora ? LORA_METHODS : {}),
    ...(config.readiness ? READY_METHODS : {}),
    ...(config.wire?.embeddingDimensions ? EMBEDDING_METHODS : {}),
    ...(config.wire?.tokenizerInfo ? TOKENIZER_INFO_METHODS : {}),
  });
  const adapters = new LoraAdapters(config.loraModules, config.servedModelNames, options.adaptersLoaded);
  const limits = limitsOf(options, adapters);
  const server = serverOf(options);
  const thread = threadOf(options);
  const generator = new Generator(options, { http, server, limits, adapters, thread });
  const tokenizer = new Tokenizer({ options, http, limits, thread });
  const host = dialectHost(generator, (body, exact, changes) => chatValuePieces(body, limits, exact, changes));
  const health = (context: Context) => http.empty(context, alive() ? 200 : 503);
  const models = () => modelList(config, adapters.list, Math.floor(epochSeconds()), newId);
  const lora = config.runtimeLora ? loraRoutes(options, http, adapters) : new Elysia();
  const ready = config.readiness ? readyRoute(options, http, config.readiness.afterUs) : new Elysia();
  const load = () => `{"server_load":${options.trackServerLoad === true ? generator.open : 0}}`;
  /** What comes before every route; undefined: go on. */
  const first = (context: Context): Response | undefined => {
    const refused = http.guard(context);
    if (refused === undefined) http.came(context);
    // Elysia answers HEAD where there is GET; FastAPI does not.
    if (refused === undefined && context.request.method === "HEAD") return http.fallback(context);
    if (refused !== undefined && isGeneration(context.request)) {
      options.accounting.opened();
      options.accounting.settled("refused");
    }
    return refused;
  };
  // Elysia makes of the context what a handler names.
  const answering =
    (reader: BodyReader) =>
    ({ request, server }: Context) =>
      generator.answer({ request, server }, reader);
  return (
    new Elysia({ strictPath: true })
      // Looked at before anything else, for unknown paths as well.
      .onRequest(({ request, server }) => first({ request, server }))
      .onError({ as: "global" }, ({ code, request, server }) =>
        code === "NOT_FOUND" ? http.fallback({ request, server }) : http.error({ request, server }, internalError),
      )
      .post("/v1/chat/completions", answering(chatReader), HOT)
      .post("/v1/chat/completions/batch", answering(batchReader), NO_PARSING)
      .post("/invocations", answering(invocationReader), NO_PARSING)
      .post("/v1/completions", answering(completionReader), HOT)
      .post("/tokenize", ({ request, server }) => tokenizer.tokenize({ request, server }), NO_PARSING)
      .post("/detokenize", ({ request, server }) => tokenizer.detokenize({ request, server }), NO_PARSING)
      .get("/v1/models", ({ request, server }) => http.json({ request, server }, models()))
      .get("/health", ({ request, server }) => health({ request, server }))
      .get("/ping", ({ request, server }) => health({ request, server }))
      .post("/ping", ({ request, server }) => health({ request, server }), NO_PARSING)
      .get("/version", ({ request, server }) => http.json({ request, server }, `{"version":"${VLLM_VERSION}"}`))
      .get("/load", ({ request, server }) => http.json({ request, server }, load()))
      .use(lora)
      .use(ready)
      .use(embeddingRoute({ options, http, limits, thread }))
      .use(tokenizerInfoRoute(options, http))
      .use(switchedOff(http, config.wire?.scaleOut ? scaleOutNotBuilt : scaleOutDisabled))
      .use(dialects.reduce((all, dialect) => all.use(dialect.routes(host)), new Elysia()))
      .get("/kv_event_sources", ({ request, server }) => http.json({ request, server }, "{}"))
  );
}

/** null: this thread alone can render prompts. */
function threadOf({ config, template, backend }: OpenAiOptions): ReadingThread | null {
  if (template === undefined) return null;
  const start = {
    template,
    keepsTools: config.wire?.toolCallParser !== undefined,
  };
  return new ReadingThread(new URL("./reading-worker.ts", import.meta.url), start, backend);
}

function readyRoute({ alive, backend }: OpenAiOptions, http: Http, afterUs: number): Elysia {
  const isReady = () => alive() && backend.nowUs() >= afterUs;
  const routes = new Elysia();
  routes.get("/health/ready", ({ request, server }) => http.empty({ request, server }, isReady() ? 200 : 503));
  return routes;
}

function embeddingRoute(desk: Omit<Desk, "bodies">): Elysia {
  const dimensions = desk.options.config.wire?.embeddingDimensions;
  const routes = new Elysia();
  if (dimensions === undefined) return routes;
  const embeddings = new Embeddings(desk, dimensions);
  routes.post("/v1/embeddings", ({ request, server }) => embeddings.answer({ request, server }), NO_PARSING);
  return routes;
}

function tokenizerInfoRoute({ config, tokenizerInfo = {} }: OpenAiOptions, http: Http): Elysia {
  const routes = new Elysia();
  if (!config.wire?.tokenizerInfo) return routes;
  const body = JSON.stringify(tokenizerInfo);
  routes.get("/tokenizer_info", ({ request, server }) => http.json({ request, server }, body));
  return routes;
}

function switchedOff(http: Http, answer: typeof scaleOutDisabled): Elysia {
  const routes = new Elysia();
  for (const path of SCALE_OUT)
    routes.post(path, ({ request, server }) => http.error({ request, server }, answer), NO_PARSING);
  return routes;
}

function isGeneration({ method, url }: Request): boolean {
  return (
    method === "POST" &&
    /^[^?]*\/(?:v1\/(?:chat\/)?completions(?:\/batch)?|v1\/responses|v1\/messages|invocations)(?:\?|$)/.test(url)
  );
}

function limitsOf({ config, vocabulary, generation }: OpenAiOptions, adapters: LoraAdapters): Limits {
  return {
    ...samplingDefaults(generation, config.wire?.generation),
    maxModelLen: config.engine.maxModelLen,
    maxLogprobs: config.maxLogprobs,
    vocabularySize: vocabulary.size,
    maxTokenCharacters: vocabulary.maxTokenBytes,
    servedModelNames: config.servedModelNames,
    loraNames: adapters.names,
    reasons: config.wire?.reasoningParser !== undefined,
    takesImages: config.wire?.imageTokens !== undefined,
    parsesTools: config.wire?.toolCallParser !== undefined,
    judgesCache: config.wire?.cacheHitThreshold !== undefined,
    transfersKv: config.wire?.kvTransferTime !== undefined,
  };
}

function serverOf(options: OpenAiOptions): ServerTraits {
  const { config, vocabulary } = options;
  const { after } = options.backend;
  return {
    vocabulary,
    logprobs: options.logprobs ?? seededLogprobs(vocabulary.size),
    fingerprint: options.fingerprint === undefined ? fingerprintOf(config) : options.fingerprint,
    responseRole: options.responseRole ?? "assistant",
    tokensAsIds: config.wire?.tokensAsIds === true,
    streamInterval: config.streamInterval,
    forceIncludeUsage: config.enableForceIncludeUsage,
    promptTokensDetails: config.enablePromptTokensDetails,
    cacheBlockTokens: config.engine.enablePrefixCaching ? config.engine.blockSize : 0,
    get requestLog() {
      return options.requestLog ?? null;
    },
    dead: () => !options.alive(),
    ...(after && { turn: (act) => void after(0, act) }),
    clockUs: config.wire?.perRequestMetrics ? () => options.backend.nowUs() : null,
    keepAlive: keepAliveOf(options),
    reasoning: reasoningOf(options),
    tools: toolsOf(options),
    timedOut: requestTimedOut(frontLimitsOf(config).requestTimeoutS),
    waiting: options.accounting,
  };
}

/** Throws `UnusableFolder` where the tokenizer lacks what the parser looks for. */
function reasoningOf({ config, vocabulary }: OpenAiOptions): ServerTraits["reasoning"] {
  const name = config.wire?.reasoningParser;
  if (name === undefined) return null;
  const setup = reasoningSetup(name, vocabulary);
  if (setup !== null) return setup;
  throw new UnusableFolder(`no tokens <think> and </think>, which --reasoning-parser ${name} looks for`);
}

function toolsOf({ config, vocabulary, accounting, newId }: OpenAiOptions): ServerTraits["tools"] {
  const { toolCallParser: name, autoToolChoice = false, toolHabits: habits } = config.wire ?? {};
  if (name === undefined) return null;
  const parsed: Accounting["parsed"] = (...of) => accounting.parsed?.(...of);
  return { kind: toolParserKind(name, vocabulary, newId), autoEnabled: autoToolChoice, habits, parsed };
}

function keepAliveOf({ config, backend }: OpenAiOptions): ServerTraits["keepAlive"] {
  const us = (config.wire?.keepAliveS ?? 0) * 1e6;
  return us > 0 && backend.after ? { us, after: backend.after } : null;
}

/** As vLLM's, a hash of what the server runs with: the same in all answers of equal servers; by default with its ranks. */
function fingerprintOf({ model, engine, dataParallelSize, wire }: ServeConfig): string {
  const ranks = dataParallelSize > 1 && wire?.fingerprintMode !== "hash" ? `-dp${dataParallelSize}` : "";
  let hash = 0x811c9dc5;
  for (const character of JSON.stringify([model, engine])) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193);
  return `vllm-${VLLM_VERSION}${ranks}-${(hash >>> 0).toString(16).padStart(8, "0")}`;
}
