/** Prints the OpenAPI document as an HTML page, without scripts or other files. */

import type { JsonSchema } from "../../pydantic/types.ts";
import type { OpenApiDocument } from "./document.ts";
import type { Operation } from "./operations.ts";

/** Returns the page as HTML. */
export function docsPage(document: OpenApiDocument): string {
  const { title, version, description } = document.info;
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [method.toUpperCase(), path, operation] as const),
  );
  const routes = entries.map(([method, path, { summary }]) =>
    row([method, `<a href="#${safe(method + path)}"><code>${safe(path)}</code></a>`, prose(summary)]),
  );
  const operations = entries.map(([method, path, operation]) => section(method, path, operation, document));
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) => `<h3 id="${safe(name)}">${safe(name)}</h3>\n${properties(schema)}`,
  );
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1.0">
<title>${safe(`${title} ${version}`)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${safe(title)} <small>${safe(version)}</small></h1>
<p>${prose(description)} As a document: <a href="openapi.json">openapi.json</a>.</p>
<h2>Routes</h2>
<table>${routes.join("")}</table>
${operations.join("\n")}
<h2>Schemas</h2>
${schemas.join("\n")}
</body>
</html>
`;
}

const STYLE =
  "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}" +
  "table{border-collapse:collapse;width:100%}td,th{border-top:1px solid #ccc;padding:.3em .6em;text-align:left;vertical-align:top}" +
  "code,h2{font-family:ui-monospace,monospace}small{color:#666;font-weight:normal}";

/** Returns the section of an operation. */
function section(
  method: string,
  path: string,
  { summary, requestBody, responses }: Operation,
  document: OpenApiDocument,
): string {
  const body = requestBody?.content["application/json"]?.schema;
  const answers = Object.entries(responses).map(([status, { description, content }]) =>
    row([
      status,
      prose(description),
      Object.values(content ?? {})
        .map(({ schema }) => typeOf(schema))
        .join(" or "),
    ]),
  );
  return [
    `<h2 id="${safe(method + path)}">${method} ${safe(path)} <small>${prose(summary)}</small></h2>`,
    body === undefined
      ? ""
      : typeof body.$ref === "string"
        ? properties(resolve(body, document))
        : `<p>${typeOf(body)}</p>`,
    `<table>${answers.join("")}</table>`,
  ].join("\n");
}

/** Returns the table of an object's properties. Required properties have an asterisk. */
function properties(schema: JsonSchema): string {
  const required = (schema.required ?? []) as readonly string[];
  const lines = Object.entries((schema.properties ?? {}) as Readonly<Record<string, JsonSchema>>).map(
    ([name, property]) => {
      const value = property.default === undefined ? "" : `<code>${safe(JSON.stringify(property.default))}</code>`;
      return row([
        `<code>${safe(name)}</code>${required.includes(name) ? " *" : ""}`,
        typeOf(property),
        value,
        prose(String(property.description ?? "")),
      ]);
    },
  );
  return `<table>${lines.join("")}</table>`;
}

function resolve(schema: JsonSchema, document: OpenApiDocument): JsonSchema {
  return document.components.schemas[nameOf(schema.$ref as string)] as JsonSchema;
}
const nameOf = (ref: string) => ref.slice(ref.lastIndexOf("/") + 1);

/** Returns a schema's type as HTML. */
function typeOf(schema: JsonSchema): string {
  if (typeof schema.$ref === "string")
    return `<a href="#${safe(nameOf(schema.$ref))}">${safe(nameOf(schema.$ref))}</a>`;
  if (Array.isArray(schema.anyOf)) return schema.anyOf.map(typeOf).join(" or ");
  if (Array.isArray(schema.enum))
    return schema.enum.map((value) => `<code>${safe(JSON.stringify(value))}</code>`).join(" or ");
  if (schema.const !== undefined) return `<code>${safe(JSON.stringify(schema.const))}</code>`;
  if (schema.type === "array") return `list of ${typeOf(schema.items as JsonSchema)}`;
  const bounds = [
    schema.minimum === undefined ? "" : ` ≥ ${schema.minimum}`,
    schema.maximum === undefined ? "" : ` ≤ ${schema.maximum}`,
  ].join("");
  return safe(`${schema.type ?? "any"}${bounds}`);
}

const row = (cells: readonly string[]) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>\n`;

/** Converts Markdown to HTML. Our descriptions only use `code`. */
const prose = (text: string): string => safe(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");

/** Escapes text for HTML. */
function safe(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
