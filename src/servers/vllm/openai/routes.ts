/** Which routes does the OpenAI dialect of vLLM 0.33 have, and who answers them? */

import { Elysia } from "elysia";
import { logUnexpected } from "../../../base/unexpected.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { type Handler, routes } from "../../../wire/http/routes.ts";
import { HOT } from "../../../wire/http/sink.ts";
import { LoraAdapters } from "../../openai/front/adapters.ts";
import type { Desk } from "../../openai/front/checked.ts";
import type { OpenAiOptions } from "../../openai/front/front.ts";
import { type Context, Http } from "../../openai/front/http.ts";
import { loraRoutes } from "../../openai/front/lora-routes.ts";
import { modelList } from "../../openai/front/models.ts";
import { ReadingThread } from "../../openai/front/reading/thread.ts";
import { countedBy, SCALE_OUT, VLLM_VERSION } from "../../openai/front/served.ts";
import type { ApiDialect } from "../../openai/pipeline/dialect.ts";
import type { BodyReader } from "../../openai/pipeline/form.ts";
import { Generator } from "../../openai/pipeline/generate.ts";
import { dialectHost } from "../../openai/pipeline/host.ts";
import { internalError, scaleOutDisabled, scaleOutNotBuilt } from "../../openai/request/errors.ts";
import { withImages } from "../../openai/request/images.ts";
import { batchReader, invocationReader } from "./batch.ts";
import { Embeddings } from "./embeddings.ts";
import { chatReader, chatValuePieces, completionReader } from "./read.ts";
import { limitsOf, serverOf } from "./serving.ts";
import { Tokenizer } from "./tokenize.ts";

/** What the routes look like to a machine; loaded when somebody asks. */
export const openaiDescription = { operations: async () => (await import("./operations.ts")).openaiOperations };

/**
 * The routes, and the answer to everything that no route takes. Use it on an app with `strictPath: true` (a slash too
 * many is a redirect) and a `maxRequestBodySize` above `maxBodyBytes` (the 413 is made here). `reading`: the script of the
 * thread that reads the largest bodies.
 */
export function openai(given: OpenAiOptions, dialects: readonly ApiDialect[] = [], reading: URL | null = null) {
  const options = withImages(given);
  const { config, alive, epochSeconds, newId } = options;
  const http = new Http(options, countedBy(config));
  const adapters = new LoraAdapters(config.loraModules, config.servedModelNames, options.adaptersLoaded);
  const limits = limitsOf(options, adapters);
  const server = serverOf(options);
  const thread = threadOf(options, reading);
  const generator = new Generator(options, { http, server, limits, adapters, thread });
  const tokenizer = new Tokenizer({ options, http, limits, thread });
  const host = dialectHost(generator, (body, exact, changes) => chatValuePieces(body, limits, exact, changes));
  const health = (context: Context) => http.empty(context, alive() ? 200 : 503);
  const models = () => modelList(config, adapters.list, Math.floor(epochSeconds()), newId);
  const lora = config.runtimeLora ? loraRoutes(options, http, adapters) : new Elysia();
  const asked = routesAskedFor({ options, http, limits, thread });
  const scaleOut = config.wire?.scaleOut ? scaleOutNotBuilt : scaleOutDisabled;
  const switchedOff = Object.fromEntries(
    SCALE_OUT.map((path) => [`POST ${path}`, (context: Context) => http.error(context, scaleOut)]),
  );
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
  const answering = (reader: BodyReader) => (context: Context) => generator.answer(context, reader);
  return (
    new Elysia({ strictPath: true })
      // Looked at before anything else, for unknown paths as well.
      .onRequest(({ request, server }) => first({ request, server }))
      .onError({ as: "global" }, ({ code, error, request, server }) => {
        if (code === "NOT_FOUND") return http.fallback({ request, server });
        logUnexpected("a request failed and is answered with 500", error);
        return http.error({ request, server }, internalError);
      })
      .post("/v1/chat/completions", ({ request, server }) => generator.answer({ request, server }, chatReader), HOT)
      .post("/v1/completions", ({ request, server }) => generator.answer({ request, server }, completionReader), HOT)
      .use(
        routes({
          "POST /v1/chat/completions/batch": answering(batchReader),
          "POST /invocations": answering(invocationReader),
          "POST /tokenize": (context) => tokenizer.tokenize(context),
          "POST /detokenize": (context) => tokenizer.detokenize(context),
          "GET /v1/models": (context) => http.json(context, models()),
          "GET /health": health,
          "GET /ping": health,
          "POST /ping": health,
          "GET /version": (context) => http.json(context, `{"version":"${VLLM_VERSION}"}`),
          "GET /load": (context) => http.json(context, load()),
          "GET /kv_event_sources": (context) => http.json(context, "{}"),
          ...asked,
          ...switchedOff,
        }),
      )
      .use(lora)
      .use(dialects.reduce((all, dialect) => all.use(dialect.routes(host)), new Elysia()))
  );
}

/** Those of single options. */
function routesAskedFor(desk: Omit<Desk, "bodies">): Record<string, Handler> {
  const { alive, backend, config, tokenizerInfo = {} } = desk.options;
  const { http } = desk;
  const { readiness, wire = {} } = config;
  const found: Record<string, Handler> = {};
  if (readiness) {
    const isReady = () => alive() && backend.nowUs() >= readiness.afterUs;
    found["GET /health/ready"] = (context) => http.empty(context, isReady() ? 200 : 503);
  }
  if (wire.embeddingDimensions !== undefined) {
    const embeddings = new Embeddings(desk, wire.embeddingDimensions);
    found["POST /v1/embeddings"] = (context) => embeddings.answer(context);
  }
  if (wire.tokenizerInfo) {
    const body = JSON.stringify(tokenizerInfo);
    found["GET /tokenizer_info"] = (context) => http.json(context, body);
  }
  return found;
}

/** null: this thread alone can render prompts, or there is no script. */
function threadOf({ config, template, backend }: OpenAiOptions, script: URL | null): ReadingThread | null {
  if (template === undefined || script === null) return null;
  const start = {
    template,
    keepsTools: config.wire?.toolCallParser !== undefined,
  };
  return new ReadingThread(script, start, backend);
}

function isGeneration({ method, url }: HttpRequest): boolean {
  return (
    method === "POST" &&
    /^[^?]*\/(?:v1\/(?:chat\/)?completions(?:\/batch)?|v1\/responses|v1\/messages|invocations)(?:\?|$)/.test(url)
  );
}
