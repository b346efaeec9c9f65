/**
 * Which pages describe the API? `/openapi.json`, `/docs` and `/redoc`, as FastAPI serves them beside vLLM's routes unless
 * `--disable-fastapi-docs` says no. FastAPI's pages load a viewer from a CDN; ours is text and needs nothing.
 */
import { Elysia } from "elysia";
import type { OpenAiOptions } from "../front/front.ts";
import { Http } from "../front/http.ts";
import { servedBy } from "../front/served.ts";
import type { Operations } from "./operations.ts";

/** Says what its routes look like; loaded when somebody asks. */
interface Describing {
  operations(): Promise<Operations>;
}

/** Use it beside `openai`, whose `otherRoutes` must have `DOCS_METHODS`. */
export function docsRoutes(options: OpenAiOptions, dialects: readonly Describing[]) {
  const http = new Http(options, {});
  let made: Promise<{ readonly json: string; readonly html: string }> | undefined;
  const texts = () => {
    made ??= describe({ ...servedBy(options.config), "/metrics": ["GET"] }, dialects);
    return made;
  };
  return new Elysia({ strictPath: true })
    .get("/openapi.json", async ({ request, server }) => http.json({ request, server }, (await texts()).json))
    .get("/docs", async ({ request, server }) => http.html({ request, server }, (await texts()).html))
    .get("/redoc", async ({ request, server }) => http.html({ request, server }, (await texts()).html));
}

/** Loaded when somebody asks: most servers never describe themselves. */
async function describe(served: Readonly<Record<string, readonly string[]>>, dialects: readonly Describing[]) {
  const [{ openApi, printed }, { docsPage }] = await Promise.all([import("./document.ts"), import("./page.ts")]);
  const operations = await Promise.all(dialects.map((dialect) => dialect.operations()));
  const document = openApi(served, Object.assign({}, ...operations));
  return { json: printed(document), html: docsPage(document) };
}
