/** Checks that /openapi.json is valid, and describes all routes and the request validation. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import Ajv from "ajv/dist/2020.js";
import { version } from "../../package.json";
import { FIELDS, namesOf } from "../../scripts/docs/parameters.ts";
import { openApi, printed } from "../../src/servers/openai/docs/document.ts";
import { LORA_METHODS, servedBy } from "../../src/servers/openai/front/served.ts";
import type { OpenAiServerConfig } from "../../src/servers/openai/request/openai-config.ts";
import { FAIL, type JsonSchema, State } from "../../src/servers/pydantic/types.ts";
import { anthropicOperations as anthropic } from "../../src/servers/vllm/messages/operations.ts";
import { openaiOperations as openai } from "../../src/servers/vllm/openai/operations.ts";
import { type ChatKind, parameterOf } from "../../src/servers/vllm/openai/parameters.ts";
import { responsesOperations as responses } from "../../src/servers/vllm/responses/operations.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { exampleOf } from "./parameter-examples.ts";

setDefaultTimeout(30_000);

let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--timing", "none", "--embedding-dimensions", "8"], { VLLM_SERVER_DEV_MODE: "1" });
});
afterAll(() => server.stop());

const get = async (path: string) => {
  const response = await fetch(server.url + path);
  return { status: response.status, type: response.headers.get("content-type"), text: await response.text() };
};
const operations = { ...openai, ...anthropic, ...responses };
const everything = servedBy({
  openai: { front: { devMode: true, disableFastapiDocs: false }, requests: { embeddingDimensions: 8 } },
  models: { runtimeLora: true },
} as OpenAiServerConfig);

test("the document is valid OpenAPI 3.1, and every reference in it resolves", async () => {
  const { status, type, text } = await get("/openapi.json");
  expect([status, type]).toEqual([200, "application/json"]);
  for (const document of [text, printed(openApi(everything, operations))]) {
    const { valid, errors } = await new Validator().validate(JSON.parse(document));
    expect([errors, valid]).toEqual([undefined, true]);
    const { schemas } = JSON.parse(document).components;
    const wanted = new Set([...document.matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name!));
    expect([...wanted].toSorted()).toEqual(Object.keys(schemas).toSorted());
  }
});

test("the document has exactly the served paths and methods", async () => {
  const named = Object.entries(openApi(everything, operations).paths).map(([path, methods]) => [
    path,
    Object.keys(methods).map((method) => method.toUpperCase()),
  ]);
  expect(Object.fromEntries(named)).toEqual(everything);
  const { paths } = JSON.parse((await get("/openapi.json")).text) as { paths: object };
  expect(Object.keys(paths)).toContain("/metrics");
  expect(Object.keys(paths)).toContain("/pause");
  expect(Object.keys(paths)).not.toContain(Object.keys(LORA_METHODS)[0]!);
});

const ajv = new Ajv({ strict: false, formats: { binary: true } });
/** 64-bit bounds become doubles, which is precise enough here. */
const validates = (schema: JsonSchema, value: unknown): boolean =>
  ajv.validate(
    JSON.parse(JSON.stringify(schema, (_, item) => (typeof item === "bigint" ? Number(item) : item))),
    value,
  );

test("each field's schema accepts the values that the validator accepts", () => {
  for (const kind of ["chat", "completions"] as const satisfies ChatKind[]) {
    for (const name of namesOf(kind)) {
      const { bounds } = parameterOf(kind, name);
      const { refused, accepted } = exampleOf(kind, name);
      const { type, default: value } = FIELDS[kind][name]!;
      const schema = { ...type.schema, ...bounds };
      expect([name, validates(schema, accepted)]).toEqual([name, true]);
      if (bounds !== undefined && name !== "logprob_token_ids")
        expect([name, validates(schema, refused)]).toEqual([name, false]);
      expect(type.check(accepted as never, new State(true))).not.toBe(FAIL);
      if (value !== undefined && name !== "request_id") expect([name, validates(schema, value)]).toEqual([name, true]);
    }
  }
});

test("limits of 64 bits keep their digits", async () => {
  const { text } = await get("/openapi.json");
  expect(text).toContain('"minimum":-9223372036854775808,"maximum":9223372036854775807');
});

test("/docs and /redoc are one page that loads nothing", async () => {
  const { status, type, text } = await get("/docs");
  expect([status, type]).toEqual([200, "text/html; charset=utf-8"]);
  expect((await get("/redoc")).text).toBe(text);
  expect((await fetch(`${server.url}/docs`, { method: "HEAD" })).status).toBe(405);
  expect(text).not.toMatch(/<script|<link|<img|src=|https?:/);
  for (const path of Object.keys(everything)) {
    if (path in LORA_METHODS) continue;
    expect(text).toContain(` ${path} <small>`);
  }
  for (const kind of ["chat", "completions"] as const)
    for (const name of namesOf(kind)) expect(text).toContain(`<code>${name}</code>`);
});

test("the page names Understudy and the server it stands in for, lists all routes, and shows no raw Markdown", async () => {
  const { text } = await get("/docs");
  const { info, paths } = JSON.parse((await get("/openapi.json")).text);
  expect(info).toMatchObject({ title: "Understudy", version, description: expect.stringContaining("vLLM 0.33.0:") });
  expect(text).toContain(`<h1>Understudy <small>${version}</small></h1>\n<p>Stands in for vLLM 0.33.0: `);
  const [, routes = ""] = /<h2>Routes<\/h2>\n<table>([\s\S]*?)<\/table>/.exec(text) ?? [];
  const links = [...routes.matchAll(/<td>([A-Z]+)<\/td><td><a href="#([^"]+)"><code>([^<]+)<\/code>/g)];
  const all = Object.entries(paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => [method.toUpperCase(), path]),
  );
  expect(links.map(([, method, , path]) => [method!, path!])).toEqual(all);
  for (const [, , id] of links) expect(text).toContain(`<h2 id="${id}">`);
  expect(text).not.toContain("`");
  expect(text).toContain("<code>--max-logprobs</code>");
});

test("--disable-fastapi-docs removes all of these pages", async () => {
  const without = await hosted(["--timing", "none", "--disable-fastapi-docs"]);
  try {
    for (const path of ["/openapi.json", "/docs", "/redoc"]) {
      const response = await fetch(without.url + path);
      expect([path, response.status, await response.text()]).toEqual([path, 404, '{"detail":"Not Found"}']);
    }
  } finally {
    await without.stop();
  }
});
