/**
 * Which pages describe the API? `/openapi.json`, `/docs` and `/redoc`, as FastAPI serves them beside vLLM's routes unless
 * `--disable-fastapi-docs` says no. FastAPI's pages load a viewer from a CDN; ours is text and needs nothing.
 */

import type { Backend } from "../../../kernel/backend.ts";
import { routes } from "../../../wire/http/routes.ts";
import { Http } from "../front/http.ts";
import { JsonParts } from "../front/send-parts.ts";
import { servedBy } from "../front/served.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import type { OpenApiDocument } from "./document.ts";
import type { Operations } from "./operations.ts";

/** Says what its routes look like; loaded when somebody asks. */
interface Describing {
  operations(): Promise<Operations>;
}

/** Use it beside `openai`, without `disableFastapiDocs`. */
export function docsRoutes(kernel: OpenAiKernel, dialects: readonly Describing[]) {
  const http = new Http(kernel, {});
  const served = { ...servedBy(kernel.config), "/metrics": ["GET"] };
  let document: ReturnType<typeof describe> | undefined;
  const json = async () => {
    document ??= describe(served, dialects, kernel.backend);
    return (await document).json;
  };
  let page: Promise<JsonParts> | undefined;
  const html = () => {
    page ??= json().then(async () => pageOf((await document!).document, kernel.backend));
    return page;
  };
  return routes({
    "GET /openapi.json": async (context) => http.json(context, await json()),
    "GET /docs": async (context) => http.html(context, await html()),
    "GET /redoc": async (context) => http.html(context, await html()),
  });
}

/**
 * Loaded and made when somebody asks: most servers never describe themselves. Each part waits for a gap between steps: all of
 * it in one go made streams beside the first request 24 ms late.
 */
async function describe(
  served: Readonly<Record<string, readonly string[]>>,
  dialects: readonly Describing[],
  { spare }: Pick<Backend, "spare">,
) {
  const operations: Operations[] = [];
  for (const dialect of dialects) {
    await spare();
    operations.push(await dialect.operations());
  }
  await spare();
  const { openApi, printed } = await import("./document.ts");
  await spare();
  const document = openApi(served, Object.assign({}, ...operations));
  await spare();
  return { document, json: JsonParts.of(printed(document)) };
}

async function pageOf(document: OpenApiDocument, { spare }: Pick<Backend, "spare">) {
  await spare();
  const { docsPage } = await import("./page.ts");
  return JsonParts.of(docsPage(document));
}
