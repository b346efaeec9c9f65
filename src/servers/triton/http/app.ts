/** Serves Triton's HTTP API on sockets. The application has one route; the patterns of routes.ts divide it. */

import { application, type ElysiaApplication } from "../../../wire/http/elysia.ts";
import { routes } from "../../../wire/http/routes.ts";
import type { Context } from "../../../wire/http/sink.ts";
import type { ServerAround } from "../inference/around.ts";
import { errorText, type HandlerAnswer, HttpCall, LATER, plain } from "./call.ts";
import { match, NOT_FOUND, type RouteMatch, respondTo } from "./routes.ts";

/** Returns the path of a URL or a request target, without the query. */
function pathOf(target: string): string {
  const from = target.startsWith("/") ? 0 : Math.max(0, target.indexOf("/", target.indexOf("//") + 2));
  const query = target.indexOf("?", from);
  return target.slice(from, query < 0 ? undefined : query);
}

/** Results of recent path lookups, because clients repeat the same paths. */
const known = new Map<string, RouteMatch>();
const KNOWN_MOST = 256;

function matchedOf(url: string): RouteMatch | null {
  const before = known.get(url);
  if (before !== undefined) return before;
  const matched = match(pathOf(url));
  if (known.size >= KNOWN_MOST) known.clear();
  if (matched !== null) known.set(url, matched);
  return matched;
}

const BROKEN = plain(errorText("internal error"), 500);

function handler(around: ServerAround) {
  return (context: Context): Response | Promise<Response> => {
    const matched = matchedOf(context.request.url);
    const call = new HttpCall(context, matched?.found ?? [], around);
    if (matched === null) call.answer(NOT_FOUND);
    else give(matched, call);
    return call.response;
  };
}

function give(matched: RouteMatch, call: HttpCall): void {
  try {
    const answer = respondTo(matched, call);
    if (answer instanceof Promise) answerLater(answer, call);
    else if (answer !== LATER) call.answer(answer);
  } catch {
    call.answer(BROKEN);
  }
}

function answerLater(answer: Promise<HandlerAnswer>, call: HttpCall): void {
  answer.then(
    (made) => {
      if (made !== LATER) call.answer(made);
    },
    () => call.answer(BROKEN),
  );
}

/** Handles all paths and methods. A POST bypasses Elysia, whatever its path. */
export function tritonApp(around: ServerAround): ElysiaApplication {
  const handle = handler(around);
  const hot = { of: (method: string) => (method === "POST" || method === "GET" ? handle : undefined) };
  return { ...application({ routes: routes({ "ALL /*": handle }) }), hot };
}
