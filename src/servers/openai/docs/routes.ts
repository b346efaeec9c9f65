/**
 * Serves the pages that describe the API: `/openapi.json`, `/docs` and `/redoc`. FastAPI serves the same paths in vLLM, unless
 * `--disable-fastapi-docs` is set. FastAPI's pages load a viewer from a CDN. Our page is plain HTML.
 */

import type { Backend } from "../../../kernel/backend.ts";
import { routes } from "../../../wire/http/routes.ts";
import type { Http } from "../front/http.ts";
import { JsonParts } from "../front/send-parts.ts";
import type { OpenApiDocument } from "./document.ts";
import type { Operations } from "./operations.ts";

/** An API that can describe its routes. */
interface OperationsSource {
  /** Loads the descriptions. */
  operations(): Promise<Operations>;
}

/**
 * Returns the routes of `/openapi.json`, `/docs` and `/redoc`. Call it only without `--disable-fastapi-docs`. `served`: methods
 * of each path. `about`: text at the head of the document. If it is absent, the text says that the server stands in for vLLM.
 */
export function docsRoutes(
  http: Http,
  backend: Pick<Backend, "spare">,
  served: Readonly<Record<string, readonly string[]>>,
  dialects: readonly OperationsSource[],
  about?: string,
) {
  let document: ReturnType<typeof describe> | undefined;
  const json = async () => {
    document ??= describe(served, dialects, backend, about);
    return (await document).json;
  };
  let page: Promise<JsonParts> | undefined;
  const html = () => {
    page ??= json().then(async () => pageOf((await document!).document, backend));
    return page;
  };
  return routes({
    "GET /openapi.json": async (context) => http.json(context, await json()),
    "GET /docs": async (context) => http.html(context, await html()),
    "GET /redoc": async (context) => http.html(context, await html()),
  });
}

/**
 * Creates the document on the first request, because most servers never need it. Waits for idle time before each part. Without
 * these waits, the first request delayed other streams by 24 ms.
 */
async function describe(
  served: Readonly<Record<string, readonly string[]>>,
  dialects: readonly OperationsSource[],
  { spare }: Pick<Backend, "spare">,
  about?: string,
) {
  const operations: Operations[] = [];
  for (const dialect of dialects) {
    await spare();
    operations.push(await dialect.operations());
  }
  await spare();
  const { openApi, printed } = await import("./document.ts");
  await spare();
  const document = openApi(served, Object.assign({}, ...operations), about);
  await spare();
  return { document, json: JsonParts.of(printed(document)) };
}

async function pageOf(document: OpenApiDocument, { spare }: Pick<Backend, "spare">) {
  await spare();
  const { docsPage } = await import("./page.ts");
  return JsonParts.of(docsPage(document));
}
