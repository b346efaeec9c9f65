/**
 * Serves the routes that VLLM_SERVER_DEV_MODE=1 adds: pause, sleep and cache resets. They need no API key. Without the variable
 * their paths are unknown. Answers as in vLLM 0.33 (`entrypoints/rl/online/api_router.py`,
 * `entrypoints/serve/dev/{cache,sleep,server_info}/api_router.py`).
 */

import { flatEngineConfig } from "../../../engine/config/engine-config.ts";
import type { EngineControl } from "../../../kernel/engine-control.ts";
import { routes } from "../../../wire/http/routes.ts";
import { bool, int, literal } from "../../pydantic/types.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { type Context, Http } from "./http.ts";
import { Query } from "./query.ts";

const mode = literal("abort", "wait", "keep");
/** Parts of the engine that sleep. `/wake_up` can wake each of them alone. */
const TAGS = ["weights", "kv_cache"] as const;

/** Returns the routes, to be served in addition to those of the API. They ignore the bodies of requests. */
export function devRoutes(kernel: OpenAiKernel, engines: EngineControl) {
  const http = new Http(kernel, {});
  const json = (context: Context, body: object) => http.json(context, JSON.stringify(body));
  /** Makes a handler. `read` reads the query. `act` does the work and returns the answer. It is not called for a wrong query. */
  const queried =
    <V>(read: (query: Query) => V, act: (values: V) => object | Promise<object>) =>
    async (context: Context) => {
      const query = new Query(context.request.url);
      const values = read(query);
      const wrong = query.wrong();
      return wrong === null ? json(context, await act(values)) : http.error(context, wrong);
    };
  return routes({
    "POST /pause": queried(
      (query) => ({ how: query.read("mode", mode, "abort"), clearCache: query.read("clear_cache", bool, true) }),
      async ({ how, clearCache }) => {
        await engines.pause(how, clearCache);
        return { status: "paused" };
      },
    ),
    "POST /resume": async (context) => {
      await engines.resume();
      return json(context, { status: "resumed" });
    },
    "GET /is_paused": (context) => json(context, { is_paused: engines.paused }),
    "POST /sleep": queried(
      (query) => ({
        level: query.read("level", int({ ge: 0, le: 2 }), 1),
        how: query.read("mode", mode, "abort"),
      }),
      async ({ level, how }) => {
        await engines.pause(how, level > 0);
        await engines.sleeps(Number(level) + 1, TAGS);
        return { status: "sleeping", level };
      },
    ),
    "POST /wake_up": async (context) => {
      const named = new URL(context.request.url).searchParams.getAll("tags");
      const woken: readonly string[] = named.length > 0 ? named : TAGS;
      const asleep = engines.asleep.filter((tag) => !woken.includes(tag));
      if (asleep.length === 0) await engines.resume();
      // The metrics report an awake engine as soon as one tag is awake, as in vLLM (`AsyncLLM.wake_up`).
      await engines.sleeps(0, asleep);
      const tags = named.length > 0 ? named : null;
      return json(context, { status: asleep.length > 0 ? "sleeping" : "awake", tags });
    },
    "GET /is_sleeping": (context) => json(context, { is_sleeping: engines.asleep.length > 0 }),
    "POST /reset_prefix_cache": queried(
      (query) => {
        const running = query.read("reset_running_requests", bool, false);
        query.read("reset_external", bool, false); // only checked: without a connector vLLM ignores it
        return running;
      },
      async (running) => ({ success: await engines.resetPrefixCache(running) }),
    ),
    "POST /reset_mm_cache": (context) => http.empty(context, 200),
    "POST /reset_encoder_cache": (context) => http.empty(context, 200),
    "GET /server_info": queried(
      (query) => query.read("config_format", literal("text", "json"), "text"),
      (format) => {
        const { config, live } = kernel;
        const engine = flatEngineConfig({ ...config.engine, ...live.values.pace.get() });
        const info = { model: config.models.model, ...engine };
        return { vllm_config: format === "json" ? info : JSON.stringify(info), vllm_env: {}, system_env: {} };
      },
    ),
  });
}
