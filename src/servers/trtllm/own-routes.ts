/**
 * Handles the routes outside OpenAI's API: health, version, statistics, clock offset, and the control of memory, weights and
 * cache.
 */

import { jsonObjectIn } from "../../base/json-object.ts";
import type { Backlog, Iterations } from "../../engine/iterations.ts";
import { asResponses } from "../../wire/http/as-response.ts";
import type { Handler } from "../../wire/http/routes.ts";
import type { Context, Http } from "../openai/front/http.ts";
import type { DialectHost } from "../openai/pipeline/dialect.ts";
import type { OpenAiKernel } from "../openai/request/openai-config.ts";
import { flatError, schemaErrors } from "./errors.ts";
import type { PageFacts } from "./families.ts";
import { eventJson, iterationJson, perfJson } from "./reports.ts";

/** The release of TensorRT-LLM that this server stands in for. */
export const TRTLLM_VERSION = "1.3.0";
const UNAVAILABLE = "LLM is unavailable. Please check the server logs for more details.";
/** Longest time in microseconds that `/metrics` and `/kv_cache_events` wait for a record. */
const DRAIN_US = 2_000_000;
/** Microseconds between the two clock readings of `/steady_clock_offset`. */
const OFFSET_US = 200_000;

interface OwnRouteParts {
  readonly kernel: OpenAiKernel;
  readonly http: Http;
  readonly host: DialectHost;
  readonly iterations: Iterations;
  readonly facts: PageFacts;
  /** The handler of `/v1/chat/completions`. */
  readonly chat: Handler;
}

/** Returns the handlers of the routes outside OpenAI's API, by method and path. */
export function ownHandlers(parts: OwnRouteParts): Record<string, Handler> {
  const { http, facts } = parts;
  const { config, engines, time } = parts.kernel;
  const model = modelName(config.models.servedModelNames[0]!);
  return {
    "GET /health": (context) => (engines.alive.get() ? http.empty(context, 200) : http.text(context, UNAVAILABLE, 503)),
    "GET /health_generate": (context) => healthGenerate(parts, context, model),
    "GET /version": (context) => http.json(context, `{"version":"${TRTLLM_VERSION}"}`),
    "GET /v1/models": (context) => http.json(context, modelsJson(model, Math.floor(time.epochSeconds()))),
    "GET /server_info": (context) => http.json(context, '{"disaggregated_params":{}}'),
    ...drains(parts),
    "POST /v1/kv_cache_hints": async (context) => {
      const { action } = await fieldsOf(parts, context);
      if (action === undefined) return http.error(context, missing("action"));
      if (action === "truncate") return http.empty(context, 200);
      return http.error(context, flatError(`Invalid action: ${action}`, "InvalidRequestError"));
    },
    ...Object.fromEntries(
      ["release_memory", "resume_memory", "update_weights"].map((name) => [
        `POST /${name}`,
        async (context: Context) => {
          await fieldsOf(parts, context);
          return http.json(context, '{"status":"success"}');
        },
      ]),
    ),
  };

  /** Returns handlers that return each record only once, so each of two polling clients receives only some of the records. */
  function drains({ iterations, kernel: { backend } }: OwnRouteParts): Record<string, Handler> {
    let offsetS = 0;
    const all = <T>(context: Context, from: Backlog<T> | null, text: (one: T) => string) =>
      http.json(context, `[${(from?.take() ?? []).map(text)}]`);
    const drained = async <T>(context: Context, from: Backlog<T> | null, text: (one: T) => string) => {
      if (from?.isEmpty)
        await new Promise<void>((done) => {
          from.whenSome(done);
          backend.after!(DRAIN_US, done);
        });
      return all(context, from, text);
    };
    return {
      "GET /metrics": (context) => drained(context, iterations.records, (one) => iterationJson(one, facts)),
      "GET /perf_metrics": (context) => all(context, iterations.requests, (one) => perfJson(one, facts, offsetS)),
      "POST /kv_cache_events": (context) => drained(context, iterations.events, (one) => eventJson(one, facts)),
      "GET /steady_clock_offset": async (context) => {
        const received = backend.nowUs() / 1e6;
        await new Promise<void>((passed) => backend.after!(OFFSET_US, passed));
        return http.json(context, JSON.stringify({ receive_ts: received, transmit_ts: backend.nowUs() / 1e6 }));
      },
      "POST /steady_clock_offset": async (context) => {
        const { offset } = await fieldsOf(parts, context);
        if (typeof offset !== "number") return http.error(context, missing("offset"));
        offsetS = offset;
        return http.empty(context, 200);
      },
    };
  }
}

async function healthGenerate({ http, chat }: OwnRouteParts, context: Context, model: string): Promise<Response> {
  const messages = [{ role: "user", content: "hi" }];
  const body = JSON.stringify({ messages, model, max_completion_tokens: 1, temperature: 0 });
  const headers = { "content-type": "application/json" };
  const request = new Request("http://localhost/v1/chat/completions", { method: "POST", headers, body });
  const { status } = await chat({ request, front: asResponses }, {});
  const failed = "Generation health check failed";
  return status === 200 ? http.text(context, "Generation health check OK") : http.text(context, failed, 500);
}

/** Returns the members of the JSON object in the body. Empty if the body is not a JSON object. */
async function fieldsOf({ host }: OwnRouteParts, context: Context): Promise<Readonly<Record<string, unknown>>> {
  const body = await host.body(context);
  return (body instanceof Uint8Array && jsonObjectIn(new TextDecoder().decode(body))) || {};
}

const missing = (name: string) =>
  schemaErrors([{ type: "missing", loc: ["body", name], message: "Field required", input: null }]);

/** Returns the served name of a model. A path is shortened to its last part. */
export const modelName = (model: string) =>
  /^[./]/.test(model) ? model.replace(/\/+$/, "").split("/").at(-1)! : model;

const modelsJson = (id: string, created: number) =>
  `{"object":"list","data":[{"id":${JSON.stringify(id)},"object":"model","created":${created},"owned_by":"tensorrt_llm"}]}`;
