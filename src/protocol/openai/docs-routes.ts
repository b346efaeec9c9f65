/**
 * Which pages describe the API? `/openapi.json`, `/docs` and `/redoc`, as FastAPI serves them beside vLLM's routes unless
 * `--disable-fastapi-docs` says no. FastAPI's pages load a viewer from a CDN; ours is text and needs nothing.
 */
import { Elysia } from "elysia";
import { docsPage } from "./docs-page.ts";
import type { OpenAiOptions } from "./front.ts";
import { Http } from "./http.ts";
import { openApi, printed } from "./openapi.ts";
import { servedBy } from "./served.ts";

/** Use it beside `openai`, whose `otherRoutes` must have `DOCS_METHODS`. */
export function docsRoutes(options: OpenAiOptions) {
  const http = new Http(options, {});
  let json = "";
  let page = "";
  const document = () => openApi({ ...servedBy(options.config), "/metrics": ["GET"] });
  const html = () => {
    page ||= docsPage(document());
    return page;
  };
  return new Elysia({ strictPath: true })
    .get("/openapi.json", ({ request, server }) => {
      json ||= printed(document());
      return http.json({ request, server }, json);
    })
    .get("/docs", ({ request, server }) => http.html({ request, server }, html()))
    .get("/redoc", ({ request, server }) => http.html({ request, server }, html()));
}
