/**
 * Tests how the role trtllm-serve answers bodies that are not JSON, not an object or of another type, and how it prints
 * invalid values.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createRenewableApp, type RenewableApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";

setDefaultTimeout(20_000);

let app: RenewableApp;
beforeAll(async () => {
  const flags = "--role trtllm-serve --port 0 --max-seq-len 2048 --timing none".split(" ");
  const resolved = resolveServeConfig(flags, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  app = await createRenewableApp(resolved.config, { log: () => {} });
});
afterAll(() => app.close(0));

const send = async (path: string, text: string, type: string | null): Promise<[number, string | null, string]> => {
  // Bytes without a content type.
  const body = new TextEncoder().encode(text);
  const headers: Record<string, string> = type === null ? {} : { "content-type": type };
  const response = await fetch(app.url + path, { method: "POST", body, headers });
  return [response.status, response.headers.get("content-type"), await response.text()];
};
const PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses"];
const COMPLETION = '{"model":"m","prompt":"a","max_tokens":1}';
const refused = (error: string) => [400, "application/json", JSON.stringify({ error })];

test("bodies with any JSON type, or without a type, are read", async () => {
  for (const type of ["application/json; charset=utf-8", "application/x+json", null])
    expect((await send("/v1/completions", COMPLETION, type))[0]).toBe(200);
});

test("a body of another type, or that is not an object, is an uncaught error", async () => {
  const uncaught = [500, "text/plain; charset=utf-8", "Internal Server Error"];
  for (const path of PATHS) {
    for (const type of ["text/plain", "application/octet-stream", "application/x-www-form-urlencoded"])
      expect(await send(path, COMPLETION, type)).toEqual(uncaught as never);
    for (const text of ["[]", '"x"', "5"])
      expect(await send(path, text, "application/json")).toEqual(uncaught as never);
  }
});

test("a missing body, null and broken JSON are refused", async () => {
  const missing = refused("[{'type': 'missing', 'loc': ('body',), 'msg': 'Field required', 'input': None}]");
  const invalid = (position: number, message: string) =>
    refused(
      `[{'type': 'json_invalid', 'loc': ('body', ${position}), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': ${message}}}]`,
    );
  for (const path of PATHS) {
    expect(await send(path, "null", "application/json")).toEqual(missing as never);
    expect(await send(path, "", "text/plain")).toEqual(missing as never);
    expect(await send(path, "{", "application/json")).toEqual(
      invalid(1, "'Expecting property name enclosed in double quotes'") as never,
    );
    expect(await send(path, '{"a":1 "b"}', "application/json")).toEqual(
      invalid(7, `"Expecting ',' delimiter"`) as never,
    );
  }
});

test("inputs are printed like in Python, and long ones are shortened", async () => {
  const error = async (path: string, body: object): Promise<string> =>
    JSON.parse((await send(path, JSON.stringify(body), "application/json"))[2]).error;
  const field = (name: string, input: string) =>
    `{'type': 'string_type', 'loc': ('body', '${name}'), 'msg': 'Input should be a valid string', 'input': ${input}}`;
  for (const [input, shown] of [
    [{}, "{}"],
    [[], "[]"],
    [{ a: [1.5, null, "x"] }, "{'a': [1.5, None, 'x']}"],
    [Array.from({ length: 20_000 }, () => 1), "'<list of 20000 items>'"],
  ] as const) {
    expect(await error("/v1/completions", { model: input, prompt: "a" })).toBe(`[${field("model", shown)}]`);
    expect(await error("/v1/responses", { model: "m", input: "a", instructions: input })).toBe(
      `[${field("instructions", shown)}]`,
    );
  }
  expect(await error("/v1/completions", { model: "m", prompt: "a", n: "x", echo: {} })).toBe(
    "[{'type': 'bool_type', 'loc': ('body', 'echo'), 'msg': 'Input should be a valid boolean', 'input': {}}, " +
      "{'type': 'int_parsing', 'loc': ('body', 'n'), 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'x'}]",
  );
  expect(await error("/v1/chat/completions", {})).toBe(
    "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {}}, " +
      "{'type': 'missing', 'loc': ('body', 'model'), 'msg': 'Field required', 'input': {}}]",
  );
});

test("a completion without a prompt, and empty stream options, are handled", async () => {
  const answer = async (fields: object) => {
    const body = JSON.stringify({ model: "m", prompt: "a", max_tokens: 1, ...fields });
    const [status, , text] = await send("/v1/completions", body, "application/json");
    return [status, JSON.parse(text)];
  };
  const wrong = ["list", "list", "string", "list"].map(
    (type) =>
      `{'type': '${type}_type', 'loc': ('body', 'prompt'), 'msg': 'Input should be a valid ${type}', 'input': None}`,
  );
  expect(await answer({ prompt: null })).toEqual([400, { error: `[${wrong.join(", ")}]` }]);
  const flat = (message: string) => [
    400,
    { object: "error", message, type: "BadRequestError", param: null, code: 400 },
  ];
  expect(await answer({ prompt: [] })).toEqual(flat("list index out of range"));
  expect(await answer({ prompt: "" })).toEqual(await answer({ prompt: [""] }));
  const [status, whole] = await answer({ stream_options: {} });
  expect([status, whole.usage.completion_tokens]).toEqual([200, 1]);
});
