/** Tests that a table of routes answers in the same way over a socket (hot, and through Elysia) and by `handle`. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { WallClock } from "../../../src/base/clock.ts";
import { application } from "../../../src/wire/http/elysia.ts";
import { type Handler, type RouteEntry, routes } from "../../../src/wire/http/routes.ts";
import type { Context } from "../../../src/wire/http/sink.ts";
import { HttpServer } from "../../../src/wire/http1/server.ts";
import { LOCAL } from "../http1/local-options.ts";

const TEXT = { "content-type": "text/plain" };
const text = (context: Context, status: number, body: string) =>
  context.front.answer(context.request, status, TEXT, body);
const echo: Handler = async (context, params) =>
  text(context, 200, JSON.stringify([params, await context.request.json()]));
const HANDLERS: Readonly<Record<string, Handler>> = {
  "POST /echo": echo,
  "POST /items/:id/act": echo,
  "GET /under/*": (context) => text(context, 200, new URL(context.request.url).pathname),
  "GET /both": (context) => text(context, 200, "get"),
  "POST /both": (context) => text(context, 200, "post"),
  "GET /slash/": (context) => text(context, 200, "with a slash"),
};
const fails: Handler = () => Promise.reject(new Error("failed on purpose"));

let before = 0;
const tableOf = (all: readonly RouteEntry[]) => ({
  routes: all,
  before(context: Context) {
    before++;
    return context.request.headers.has("x-refuse") ? text(context, 401, "refused") : undefined;
  },
  unmatched: (context: Context) => text(context, 404, `no ${context.request.method}`),
  failed: (context: Context, error: unknown) => text(context, 500, (error as Error).message),
});

const clock = new WallClock();
const listen = (isHot: boolean) => {
  const app = application(tableOf([...routes(HANDLERS, isHot), ...routes({ "GET /fails": fails })]));
  const server = new HttpServer(app, { ...LOCAL, clock });
  return { app, server };
};
let cold: ReturnType<typeof listen>;
let hot: ReturnType<typeof listen>;
beforeAll(() => {
  cold = listen(false);
  hot = listen(true);
});
afterAll(async () => {
  await Promise.all([cold.server.stop(true), hot.server.stop(true)]);
  clock.close();
});

const post = { method: "POST", body: '{"a":1}' };
const CASES: readonly (readonly [name: string, path: string, init: RequestInit, status: number, body: string])[] = [
  ["a body", "/echo", post, 200, '[{},{"a":1}]'],
  ["a query", "/echo?b=2", post, 200, '[{},{"a":1}]'],
  ["a parameter", "/items/a%20b/act", post, 200, '[{"id":"a b"},{"a":1}]'],
  ["the rest of a path", "/under/a/b", {}, 200, "/under/a/b"],
  ["one path, two methods: GET", "/both", {}, 200, "get"],
  ["one path, two methods: POST", "/both", post, 200, "post"],
  ["another method", "/both", { method: "DELETE" }, 404, "no DELETE"],
  ["OPTIONS", "/both", { method: "OPTIONS" }, 404, "no OPTIONS"],
  ["a slash too many", "/both/", {}, 404, "no GET"],
  ["a slash too few", "/slash", {}, 404, "no GET"],
  ["a slash of the path's own", "/slash/", {}, 200, "with a slash"],
  ["an unknown path", "/nothing", {}, 404, "no GET"],
  ["a handler that throws", "/fails", {}, 500, "failed on purpose"],
  ["a refusal before the route", "/echo", { ...post, headers: { "x-refuse": "1" } }, 401, "refused"],
  ["a refusal of an unknown path", "/nothing", { headers: { "x-refuse": "1" } }, 401, "refused"],
];

test.each(CASES)("%s", async (_, path, init, status, body) => {
  const ways = {
    cold: () => fetch(`http://127.0.0.1:${cold.server.port}${path}`, init),
    hot: () => fetch(`http://127.0.0.1:${hot.server.port}${path}`, init),
    handle: () => cold.app.handle(new Request(`http://localhost${path}`, init)),
  };
  for (const [way, ask] of Object.entries(ways)) {
    const count = before;
    const answer = await ask();
    expect([way, answer.status, await answer.text(), before - count]).toEqual([way, status, body, 1]);
  }
});

test("only hot routes without parameters are called without Elysia", () => {
  const found = (method: string, target: string) => hot.app.hot.of(method, target) !== undefined;
  expect([found("POST", "/echo"), found("GET", "/both"), found("POST", "/both")]).toEqual([true, true, true]);
  expect([found("POST", "/echo?b=2"), found("POST", "/items/1/act"), found("GET", "/fails")]).toEqual([
    false,
    false,
    false,
  ]);
  expect(cold.app.hot.of("POST", "/echo")).toBeUndefined();
});
