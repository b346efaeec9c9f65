/**
 * Which routes does a server with VLLM_SERVER_DEV_MODE=1 have besides? Pause, sleep and cache resets, as vLLM 0.33
 * answers them (`entrypoints/rl/online/api_router.py`, `entrypoints/serve/dev/{cache,sleep,server_info}/api_router.py`). Without the variable
 * they are unknown paths. They need no API key.
 */

import { flatEngineConfig } from "../../../engine/config/engine-config.ts";
import type { EngineControl } from "../../../kernel/engine-control.ts";
import { routes } from "../../../wire/http/routes.ts";
import { bool, int, literal } from "../../pydantic/types.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { type Context, Http } from "./http.ts";
import { Query } from "./query.ts";

const mode = literal("abort", "wait", "keep");
/** What sleeps, and wakes one by one. */
const TAGS = ["weights", "kv_cache"] as const;

/** Use it beside `openai`, in `devMode`. Bodies are not looked at. */
export function devRoutes(kernel: OpenAiKernel, engines: EngineControl) {
  const http = new Http(kernel, {});
  const json = (context: Context, body: object) => http.json(context, JSON.stringify(body));
  /** What depends on the query: `read` reads it, `act` acts and says what is answered, unless a parameter is wrong. */
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
      const given = new URL(context.request.url).searchParams.getAll("tags");
      const woken: readonly string[] = given.length > 0 ? given : TAGS;
      const left = engines.asleep.filter((tag) => !woken.includes(tag));
      if (left.length === 0) await engines.resume();
      // Metrics say awake from the first tag on (`AsyncLLM.wake_up`).
      await engines.sleeps(0, left);
      const tags = given.length > 0 ? given : null;
      return json(context, { status: left.length > 0 ? "sleeping" : "awake", tags });
    },
    "GET /is_sleeping": (context) => json(context, { is_sleeping: engines.asleep.length > 0 }),
    "POST /reset_prefix_cache": queried(
      (query) => {
        const running = query.read("reset_running_requests", bool, false);
        query.read("reset_external", bool, false); // there is no external cache: vLLM without a connector ignores it
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
