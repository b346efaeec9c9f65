/**
 * Creates the OpenAPI 3.1 document of the server. Fields, types, defaults and limits come from the tables that check requests, so
 * that they cannot differ from the server's behaviour. In vLLM 0.33, FastAPI creates the document from vLLM's models.
 */

import { version } from "../../../../package.json";
import type { JsonSchema } from "../../pydantic/types.ts";
import { VLLM_VERSION } from "../front/served.ts";
import type { Operation, Operations } from "./operations.ts";

export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

const VLLM = `Stands in for vLLM ${VLLM_VERSION}: its API, without a model. Fields that are not listed are ignored.`;

/** Creates the document of the paths in both `served` and `operations`. `served`: the methods of each path of this server. */
export function openApi(
  served: Readonly<Record<string, readonly string[]>>,
  operations: Operations,
  about = VLLM,
): OpenApiDocument {
  const schemas: Record<string, JsonSchema> = {};
  const paths: Record<string, Record<string, Operation>> = {};
  for (const [path, methods] of Object.entries(served)) {
    for (const method of methods) {
      const operation = operations[path];
      if (operation === undefined) continue;
      paths[path] ??= {};
      paths[path][method.toLowerCase()] = named(operation, schemas) as Operation;
    }
  }
  return {
    openapi: "3.1.0",
    info: { title: "Understudy", version, description: about },
    paths,
    components: { schemas },
  };
}

/** Returns the document as JSON. 64-bit integers keep all their digits. */
export function printed(document: OpenApiDocument): string {
  const marked = (_: string, value: unknown) => (typeof value === "bigint" ? `#${value}#` : value);
  return JSON.stringify(document, marked).replaceAll(/"#(-?\d+)#"/g, "$1");
}

/** Moves schemas of objects with a title to `schemas`. A different schema with a title already in use stays in its place. */
function named(value: unknown, schemas: Record<string, JsonSchema>): unknown {
  if (Array.isArray(value)) return value.map((item) => named(item, schemas));
  if (typeof value !== "object" || value === null) return value;
  const { title } = value as JsonSchema;
  const inner = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, named(item, schemas)]));
  if (typeof title !== "string" || inner.type !== "object") return inner;
  const before = schemas[title];
  if (before !== undefined && text(before) !== text(inner)) return inner;
  schemas[title] = inner;
  return { $ref: `#/components/schemas/${title}` };
}
const text = (schema: unknown) =>
  JSON.stringify(schema, (_, value) => (typeof value === "bigint" ? `${value}` : value));
