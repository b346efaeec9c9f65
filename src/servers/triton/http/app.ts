/** How do Triton's routes stand behind the server on sockets? One route of the application, which the patterns divide. */
import { Elysia } from "elysia";
import type { Context, HotRoutes } from "../../../wire/http/sink.ts";
import type { ServerAround } from "../inference/around.ts";
import { errorText, type HandlerAnswer, LATER, plain, SocketCall } from "./call.ts";
import { type Matched, match, NOT_FOUND, respondTo } from "./routes.ts";

/** The path without its query, of a URL or of what stands in a request's first line. */
function pathOf(target: string): string {
  const from = target.startsWith("/") ? 0 : Math.max(0, target.indexOf("/", target.indexOf("//") + 2));
  const query = target.indexOf("?", from);
  return target.slice(from, query < 0 ? undefined : query);
}

/** What was found of paths that came lately: a client asks the same one again and again. */
const known = new Map<string, Matched>();
const KNOWN_MOST = 256;

function matchedOf(url: string): Matched | null {
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
    const call = new SocketCall(context, matched?.found ?? [], around);
    if (matched === null) call.answer(NOT_FOUND);
    else give(matched, call);
    return call.response;
  };
}

function give(matched: Matched, call: SocketCall): void {
  try {
    const answer = respondTo(matched, call);
    if (answer instanceof Promise) answerLater(answer, call);
    else if (answer !== LATER) call.answer(answer);
  } catch {
    call.answer(BROKEN);
  }
}

function answerLater(answer: Promise<HandlerAnswer>, call: SocketCall): void {
  answer.then(
    (made) => {
      if (made !== LATER) call.answer(made);
    },
    () => call.answer(BROKEN),
  );
}

export function tritonApp(around: ServerAround) {
  const handle = handler(around);
  return appOf(handle);
}

/** All paths and methods; `hot` are those that need no application around them. */
function appOf(handle: (context: Context) => Response | Promise<Response>) {
  // Elysia reads in a handler's text what of the context it needs.
  const app = new Elysia({ strictPath: true }).all("/*", ({ request, server }) => handle({ request, server }), {
    parse: "none",
  });
  const hot: HotRoutes = { of: (method) => (method === "POST" ? handle : undefined) };
  return { app, hot };
}
