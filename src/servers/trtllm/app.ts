/**
 * Defines the routes of trtllm-serve and their handlers, as in `tensorrt_llm/serve/openai_server.py` of version 1.3. Each
 * record of `/metrics`, `/perf_metrics` or `/kv_cache_events` is returned only once. So each of two polling clients receives
 * only some of the records.
 */

import { logUnexpected } from "../../base/unexpected.ts";
import { type Handler, type RouteTable, routes } from "../../wire/http/routes.ts";
import { docsRoutes } from "../openai/docs/routes.ts";
import { LoraAdapters } from "../openai/front/adapters.ts";
import { Bodies } from "../openai/front/admission.ts";
import { Http } from "../openai/front/http.ts";
import type { DialectHost } from "../openai/pipeline/dialect.ts";
import type { BodyReader } from "../openai/pipeline/form.ts";
import { Generator } from "../openai/pipeline/generate.ts";
import { dialectHost } from "../openai/pipeline/host.ts";
import { internalError } from "../openai/request/errors.ts";
import { withImages } from "../openai/request/images.ts";
import type { OpenAiKernel } from "../openai/request/openai-config.ts";
import { chatValuePieces } from "../vllm/openai/read.ts";
import { limitsOf, serverOf, toolsOf } from "../vllm/openai/serving.ts";
import { responses } from "../vllm/responses/dialect.ts";
import { ServeCounts } from "./counts.ts";
import { asTrtllm, flatError } from "./errors.ts";
import { type PageFacts, prometheusPage } from "./families.ts";
import { lingering } from "./lingering.ts";
import { modelName, ownHandlers, TRTLLM_VERSION } from "./own-routes.ts";
import { byFastApi, trtllmReaders } from "./read.ts";
import { responsesHabits, useResponse } from "./responses.ts";

const METHODS: Readonly<Record<string, readonly string[]>> = {
  "/health": ["GET"],
  "/health_generate": ["GET"],
  "/version": ["GET"],
  "/v1/models": ["GET"],
  "/metrics": ["GET"],
  "/perf_metrics": ["GET"],
  "/steady_clock_offset": ["GET", "POST"],
  "/kv_cache_events": ["POST"],
  "/v1/kv_cache_hints": ["POST"],
  "/v1/completions": ["POST"],
  "/v1/chat/completions": ["POST"],
  "/v1/responses": ["POST"],
  "/v1/responses/{response_id}": ["GET", "DELETE"],
  "/release_memory": ["POST"],
  "/resume_memory": ["POST"],
  "/update_weights": ["POST"],
  "/server_info": ["GET"],
};
const DOCS = { "/docs": ["GET"], "/redoc": ["GET"], "/openapi.json": ["GET"] };

/** Returns an entry of `/openapi.json` for each path. The entries have no schemas of requests and answers. */
const operations = async () =>
  Object.fromEntries(
    Object.keys(METHODS).map((path) => [
      path,
      { summary: path, responses: { 200: { description: "Successful Response" } } },
    ]),
  );
const ABOUT = `Stands in for trtllm-serve ${TRTLLM_VERSION}: its API, without a model.`;

const PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8";
/** Most responses that are stored for `/v1/responses` at once. */
const RESPONSES_KEPT = 1000;

/** Routes that bypass Elysia: those that carry load, and those that clients call before Elysia is loaded. */
const HOT = ["POST /v1/chat/completions", "POST /v1/completions", "GET /health", "GET /version", "GET /v1/models"];

/** Makes the table of routes. `otherMethods`: the methods of further routes on the port, by path. */
export function trtllmApp(
  given: OpenAiKernel,
  facts: PageFacts,
  otherMethods: Readonly<Record<string, readonly string[]>>,
): RouteTable {
  const { config } = given;
  const iterations = given.engines.iterations!;
  const { returnPerfMetrics } = config.iterations!;
  const counts = new ServeCounts(iterations);
  if (returnPerfMetrics) counts.listen();
  const kernel = kernelOf(given);
  const methods = {
    ...METHODS,
    ...(returnPerfMetrics ? { "/prometheus/metrics": ["GET"] } : {}),
    ...(config.openai.front.disableFastapiDocs ? {} : DOCS),
    ...otherMethods,
  };
  const http = new Http(kernel, methods, {
    withoutCors: true,
    answered(status) {
      if (status >= 400) counts.failed(status);
    },
  });
  const served = modelName(config.models.servedModelNames[0]!);
  const adapters = new LoraAdapters([], config.models.servedModelNames);
  const limits = {
    ...limitsOf(kernel, adapters),
    takesAnyModel: true,
    refusesPrompt: refuserOf(kernel),
    // trtllm-serve accepts tools without a tool parser. The answer is then plain text.
    parsesTools: true,
  };
  const tools = toolsOf(kernel);
  const server = serverOf(kernel, { tools: tools && { ...tools, namedIsText: true } });
  const generator = new Generator({ kernel, http, limits, thread: null, bodies: new Bodies(kernel) }, server, adapters);
  const ofVllm = dialectHost(generator, (body, exact, changes) => {
    useResponse(body, limits);
    return chatValuePieces(body, limits, exact, changes);
  });
  const host: DialectHost = {
    ...ofVllm,
    answer: (context, reader) => generator.answer(context, withErrors(byFastApi(reader))),
    error: (context, error) => http.error(context, asTrtllm(error)),
  };
  let requests = 0;
  const { chat, completion } = trtllmReaders(served, () => ++requests);
  const handlers = ownHandlers({
    kernel,
    http,
    host,
    iterations,
    facts,
    chat: (context) => generator.answer(context, chat),
  });
  const page: Handler = (context) => http.typed(context, prometheusPage(counts, facts), PROMETHEUS);
  // The real server mounts an application at this path, and that application ignores the rest of the path.
  if (returnPerfMetrics) for (const rest of ["", "/*"]) handlers[`GET /prometheus/metrics${rest}`] = page;
  handlers["POST /v1/chat/completions"] = generator.answering(chat);
  handlers["POST /v1/completions"] = generator.answering(completion);
  return {
    before: http.before,
    routes: [
      ...routes(handlers, HOT),
      ...(config.openai.front.disableFastapiDocs
        ? []
        : docsRoutes(http, kernel.backend, METHODS, [{ operations }], ABOUT)),
      ...responses(RESPONSES_KEPT, responsesHabits(served)).routes(host),
    ],
    unmatched: (context) => http.fallback(context),
    failed(context, error) {
      logUnexpected("a request failed and is answered with 500", error);
      return http.error(context, asTrtllm(internalError));
    },
  };
}

/** Wraps a reader of bodies for another API so that its refusals have the form of trtllm-serve. */
function withErrors({ read, pieces }: BodyReader): BodyReader {
  const shown = (made: ReturnType<BodyReader["read"]>) => ("error" in made ? { error: asTrtllm(made.error) } : made);
  return {
    read: (...given) => shown(read(...given)),
    ...(pieces && {
      *pieces(...given: Parameters<typeof pieces>) {
        return shown(yield* pieces(...given));
      },
    }),
  };
}

/**
 * Changes the shared parts of the process for trtllm-serve. It notices once a second that clients have left, and ignores the
 * sampling defaults of the model.
 */
function kernelOf(given: OpenAiKernel): OpenAiKernel {
  const kernel = withImages(given);
  const model = { ...kernel.text.model, generation: {} };
  return { ...kernel, backend: lingering(given.backend), text: { ...kernel.text, model } };
}

/**
 * Returns a check of prompt lengths. Like the PyTorch backend, it refuses prompts that are longer than an iteration or a
 * sequence can be.
 */
function refuserOf({ config: { engine } }: OpenAiKernel) {
  const { enableChunkedPrefill, maxNumBatchedTokens, maxModelLen } = engine;
  const limits = [
    ...(enableChunkedPrefill ? [] : [["max_num_tokens", maxNumBatchedTokens] as const]),
    ["max_seq_len", maxModelLen] as const,
  ];
  return (tokens: number) => {
    const over = limits.find(([, most]) => tokens > most);
    if (over === undefined) return null;
    return flatError(
      `The sum of prompt length (${tokens}.0), query length (0) should not exceed ${over[0]} (${over[1]})`,
    );
  };
}
