/**
 * What answers on Triton's metrics port? `GET /metrics`, with or without a slash; 200 and nothing on any other path, 405
 * for any other method, as tritonserver 2.51 (`http_server.cc`, `HTTPMetricsServer`).
 */
import { Elysia } from "elysia";
import { contentTypeOf } from "../dialects.ts";
import type { Identity } from "../identity.ts";
import { type Renderer, TooManyScrapes } from "../renderer.ts";

const NOT_ALLOWED = '{"error":"Method Not Allowed"}';

/** Not listening yet. Pages are the renderer's. */
export function tritonListener(renderer: Renderer, identity: Identity, reusePort: boolean) {
  const answer = async ({ request }: { request: Request }): Promise<Response> => {
    const headers = { "content-type": contentTypeOf("tritonserver", identity) };
    if (request.method !== "GET") return new Response(NOT_ALLOWED, { status: 405, headers: PLAIN });
    if (!/^[^?]*[^/:]\/metrics\/?(\?|$)/.test(request.url)) return new Response("", { headers });
    try {
      return new Response(await renderer.page("tritonserver"), { headers });
    } catch (reason) {
      if (!(reason instanceof TooManyScrapes)) throw reason;
      return new Response("too many scrapes at once\n", { status: 503, headers: { ...PLAIN, "retry-after": "1" } });
    }
  };
  return new Elysia({ serve: { reusePort } }).onRequest(answer);
}

const PLAIN = { "content-type": "text/plain" };
