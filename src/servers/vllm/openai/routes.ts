/** The routes of OpenAI's API as vLLM 0.33 has them, and their handlers. */

import { logUnexpected } from "../../../base/unexpected.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { type Handler, type RouteTable, routes } from "../../../wire/http/routes.ts";
import { LoraAdapters } from "../../openai/front/adapters.ts";
import { Bodies } from "../../openai/front/admission.ts";
import type { RouteDeps } from "../../openai/front/checked.ts";
import { type Context, Http } from "../../openai/front/http.ts";
import { loraRoutes } from "../../openai/front/lora-routes.ts";
import { modelList } from "../../openai/front/models.ts";
import { ourMethods } from "../../openai/front/our-routes.ts";
import { ReadingThread } from "../../openai/front/reading/thread.ts";
import { countedBy, SCALE_OUT, VLLM_VERSION } from "../../openai/front/served.ts";
import type { ApiDialect } from "../../openai/pipeline/dialect.ts";
import { Generator } from "../../openai/pipeline/generate.ts";
import { dialectHost } from "../../openai/pipeline/host.ts";
import { internalError, scaleOutDisabled, scaleOutNotBuilt } from "../../openai/request/errors.ts";
import { withImages } from "../../openai/request/images.ts";
import type { LogprobSource } from "../../openai/request/logprob-source.ts";
import type { OpenAiKernel } from "../../openai/request/openai-config.ts";
import { batchReader, invocationReader } from "./batch.ts";
import { Embeddings } from "./embeddings.ts";
import { chatReader, chatValuePieces, completionReader } from "./read.ts";
import { limitsOf, serverOf } from "./serving.ts";
import { Tokenizer } from "./tokenize.ts";

/** Descriptions of the routes for `/openapi.json`, loaded at the first request for it. */
export const openaiDescription = { operations: async () => (await import("./operations.ts")).openaiOperations };

/**
 * Returns the table of routes. `reading`: script of the thread that reads large bodies, or null for no thread. `logprobs`: source
 * of log probabilities for tests. By default they follow from the seeds of requests.
 */
export function openai(
  plainKernel: OpenAiKernel,
  dialects: readonly ApiDialect[] = [],
  reading: URL | null = null,
  logprobs?: LogprobSource,
): RouteTable {
  const kernel = withImages(plainKernel);
  const { config, engines, time, chance, metrics } = kernel;
  const keptOut = (request: HttpRequest) => {
    if (!isGeneration(request)) return;
    metrics.accounting.opened();
    metrics.accounting.settled("refused");
  };
  const http = new Http(kernel, { ...countedBy(config), ...ourMethods(kernel) }, { keptOut });
  const adapters = new LoraAdapters(config.models.loraModules, config.models.servedModelNames, (names) =>
    metrics.renderer.name(names),
  );
  engines.adapters.byNumber = (number) => adapters.byNumber(number);
  const limits = limitsOf(kernel, adapters);
  const server = serverOf(kernel, { logprobs });
  const thread = reading && threadOf(kernel, reading);
  const deps = { kernel, http, limits, thread, bodies: new Bodies(kernel) };
  const generator = new Generator(deps, server, adapters);
  const tokenizer = new Tokenizer(deps);
  const host = dialectHost(generator, (body, exact, changes) => chatValuePieces(body, limits, exact, changes));
  const health = (context: Context) => http.empty(context, engines.alive.get() ? 200 : 503);
  const models = () => modelList(config, adapters.list, Math.floor(time.epochSeconds()), chance.newId);
  const lora = config.models.runtimeLora ? loraRoutes(deps, adapters) : [];
  const optionalRoutes = routesOfOptions(deps);
  const scaleOut = config.openai.front.scaleOut ? scaleOutNotBuilt : scaleOutDisabled;
  const switchedOff = Object.fromEntries(
    SCALE_OUT.map((path) => [`POST ${path}`, (context: Context) => http.error(context, scaleOut)]),
  );
  const load = () => `{"server_load":${config.openai.front.trackServerLoad === true ? generator.open : 0}}`;
  return {
    before: http.before,
    routes: [
      ...routes(
        {
          "POST /v1/chat/completions": generator.answering(chatReader),
          "POST /v1/completions": generator.answering(completionReader),
          "GET /v1/models": (context) => http.json(context, models()),
          "GET /health": health,
          "GET /ping": health,
          "GET /version": (context) => http.json(context, `{"version":"${VLLM_VERSION}"}`),
        },
        true,
      ),
      ...routes({
        "POST /v1/chat/completions/batch": generator.answering(batchReader),
        "POST /invocations": generator.answering(invocationReader),
        "POST /tokenize": (context) => tokenizer.tokenize(context),
        "POST /detokenize": (context) => tokenizer.detokenize(context),
        "POST /ping": health,
        "GET /load": (context) => http.json(context, load()),
        "GET /kv_event_sources": (context) => http.json(context, JSON.stringify(engines.kvEvents?.sources ?? {})),
        ...optionalRoutes,
        ...switchedOff,
      }),
      ...lora,
      ...dialects.flatMap((dialect) => dialect.routes(host)),
    ],
    unmatched: (context) => http.fallback(context),
    failed(context, error) {
      logUnexpected("a request failed and is answered with 500", error);
      return http.error(context, internalError);
    },
  };
}

/** Returns the routes that exist only with an option. */
function routesOfOptions(deps: RouteDeps): Record<string, Handler> {
  const { http, kernel } = deps;
  const { backend, config, engines, text } = kernel;
  const { readiness, tokenizerInfo: hasTokenizerInfo } = config.openai.front;
  const { embeddingDimensions } = config.openai.requests;
  const handlers: Record<string, Handler> = {};
  if (readiness) {
    const isReady = () => engines.alive.get() && backend.nowUs() >= readiness.afterUs;
    handlers["GET /health/ready"] = (context) => http.empty(context, isReady() ? 200 : 503);
  }
  if (embeddingDimensions !== undefined) {
    const embeddings = new Embeddings(deps, embeddingDimensions);
    handlers["POST /v1/embeddings"] = (context) => embeddings.answer(context);
  }
  if (hasTokenizerInfo) {
    const body = JSON.stringify(text.model.tokenizerInfo);
    handlers["GET /tokenizer_info"] = (context) => http.json(context, body);
  }
  return handlers;
}

function threadOf({ config, text, backend }: OpenAiKernel, script: URL): ReadingThread {
  const { template } = text.model;
  return new ReadingThread(script, { template, keepsTools: config.text.toolCallParser !== undefined }, backend);
}

/** Reports whether a request is a POST to a route that generates. */
function isGeneration({ method, url }: HttpRequest): boolean {
  return (
    method === "POST" &&
    /^[^?]*\/(?:v1\/(?:chat\/)?completions(?:\/batch)?|v1\/responses|v1\/messages|invocations)(?:\?|$)/.test(url)
  );
}
