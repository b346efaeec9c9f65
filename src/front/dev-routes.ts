/**
 * Which routes does a server with VLLM_SERVER_DEV_MODE=1 have besides? Pause, sleep and cache resets, as vLLM 0.33
 * answers them (`entrypoints/rl/online/api_router.py`, `entrypoints/serve/dev/{cache,sleep,server_info}/api_router.py`). Without the variable
 * they are unknown paths. They need no API key.
 */
import { Elysia } from "elysia";
import type { ErrorAnswer } from "../python/request.ts";
import { bool, FAIL, int, literal, State, type Type } from "../python/types.ts";
import { validationErrors } from "../python/validate.ts";
import type { OpenAiOptions } from "./front.ts";
import { type Context, Http } from "./http.ts";

/** The engines, as these routes see them. */
export interface EngineControl {
  /** Settles when nothing is left to do, and the caches are emptied if that was asked. */
  pause(mode: "abort" | "wait" | "keep", clearCache: boolean): Promise<unknown>;
  /** A promise where it takes a while. */
  resume(): unknown;
  readonly paused: boolean;
  /** Notes the tags that sleep; `sleep`: 0 where metrics say awake, else one more than the level. */
  sleeps(sleep: number, asleep: readonly string[]): unknown;
  readonly asleep: readonly string[];
  /** With `running`, requests that run lose their blocks first. False: blocks are in use. */
  resetPrefixCache(running: boolean): Promise<boolean>;
}

const mode = literal("abort", "wait", "keep");
/** What sleeps, and wakes one by one. */
const TAGS = ["weights", "kv_cache"] as const;

const NO_PARSING = { parse: "none" } as const;

/** Use it beside `openai`, whose `otherRoutes` must have `DEV_METHODS`. Bodies are not looked at. */
export function devRoutes(options: OpenAiOptions, engines: EngineControl) {
  const http = new Http(options, {});
  return new Elysia({ strictPath: true })
    .use(pauseRoutes(http, engines))
    .use(sleepRoutes(http, engines))
    .use(cacheRoutes(http, engines))
    .get("/server_info", ({ request, server }) => {
      const context = { request, server };
      const query = new Query(request.url);
      const format = query.read("config_format", literal("text", "json"), "text");
      const wrong = query.wrong();
      if (wrong !== null) return http.error(context, wrong);
      const { engine, model } = options.config;
      const shown = format === "json" ? { model, ...engine } : JSON.stringify({ model, ...engine });
      return json(http, context, { vllm_config: shown, vllm_env: {}, system_env: {} });
    });
}

const json = (http: Http, context: Context, body: object) => http.json(context, JSON.stringify(body));

function pauseRoutes(http: Http, engines: EngineControl) {
  return new Elysia({ strictPath: true })
    .post(
      "/pause",
      async ({ request, server }) => {
        const context = { request, server };
        const query = new Query(request.url);
        const how = query.read("mode", mode, "abort");
        const clearCache = query.read("clear_cache", bool, true);
        const wrong = query.wrong();
        if (wrong !== null) return http.error(context, wrong);
        await engines.pause(how, clearCache);
        return json(http, context, { status: "paused" });
      },
      NO_PARSING,
    )
    .post(
      "/resume",
      async ({ request, server }) => {
        await engines.resume();
        return json(http, { request, server }, { status: "resumed" });
      },
      NO_PARSING,
    )
    .get("/is_paused", ({ request, server }) => json(http, { request, server }, { is_paused: engines.paused }));
}

function sleepRoutes(http: Http, engines: EngineControl) {
  return new Elysia({ strictPath: true })
    .post(
      "/sleep",
      async ({ request, server }) => {
        const context = { request, server };
        const query = new Query(request.url);
        const level = query.read("level", int({ ge: 0, le: 2 }), 1);
        const how = query.read("mode", mode, "abort");
        const wrong = query.wrong();
        if (wrong !== null) return http.error(context, wrong);
        await engines.pause(how, level > 0);
        await engines.sleeps(Number(level) + 1, TAGS);
        return json(http, context, { status: "sleeping", level });
      },
      NO_PARSING,
    )
    .post(
      "/wake_up",
      async ({ request, server }) => {
        const given = new URL(request.url).searchParams.getAll("tags");
        const woken: readonly string[] = given.length > 0 ? given : TAGS;
        const left = engines.asleep.filter((tag) => !woken.includes(tag));
        if (left.length === 0) await engines.resume();
        // Metrics say awake from the first tag on (`AsyncLLM.wake_up`).
        await engines.sleeps(0, left);
        const tags = given.length > 0 ? given : null;
        return json(http, { request, server }, { status: left.length > 0 ? "sleeping" : "awake", tags });
      },
      NO_PARSING,
    )
    .get("/is_sleeping", ({ request, server }) =>
      json(http, { request, server }, { is_sleeping: engines.asleep.length > 0 }),
    );
}

function cacheRoutes(http: Http, engines: EngineControl) {
  return new Elysia({ strictPath: true })
    .post(
      "/reset_prefix_cache",
      async ({ request, server }) => {
        const context = { request, server };
        const query = new Query(request.url);
        const running = query.read("reset_running_requests", bool, false);
        query.read("reset_external", bool, false); // there is no external cache: vLLM without a connector ignores it
        const wrong = query.wrong();
        if (wrong !== null) return http.error(context, wrong);
        return json(http, context, { success: await engines.resetPrefixCache(running) });
      },
      NO_PARSING,
    )
    .post("/reset_mm_cache", ({ request, server }) => http.empty({ request, server }, 200), NO_PARSING)
    .post("/reset_encoder_cache", ({ request, server }) => http.empty({ request, server }, 200), NO_PARSING);
}

/** Query parameters as FastAPI reads them: the last one of a name counts, unknown names do not; all errors in one answer. */
class Query {
  readonly #given: URLSearchParams;
  readonly #state = new State(true);

  constructor(url: string) {
    this.#given = new URL(url).searchParams;
  }

  /** The parameter's value; `absent` where it is not given, or wrong. */
  read<V>(name: string, type: Type<V>, absent: V): V {
    const text = this.#given.getAll(name).at(-1);
    if (text === undefined) return absent;
    const before = this.#state.count;
    const value = type.check(text, this.#state);
    this.#state.prefix(before, name);
    this.#state.prefix(before, "query");
    return value === FAIL ? absent : value;
  }

  /** The 400 that names everything wrong so far. */
  wrong(): ErrorAnswer | null {
    const { errors } = this.#state;
    return errors === null || errors.length === 0 ? null : validationErrors(errors);
  }
}
