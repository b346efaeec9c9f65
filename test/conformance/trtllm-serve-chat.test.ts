/** Tests chats of the role trtllm-serve where it differs from vLLM's server: tools, and the validators of the schema. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createRenewableApp, type RenewableApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";

setDefaultTimeout(20_000);

async function start(line: string): Promise<RenewableApp> {
  const resolved = resolveServeConfig(`--role trtllm-serve --port 0 --timing none ${line}`.split(" "), {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return createRenewableApp(resolved.config, { log: () => {} });
}

let plain: RenewableApp;
let parsing: RenewableApp;
beforeAll(async () => {
  plain = await start("--max-seq-len 2048");
  parsing = await start("--max-seq-len 2048 --tool-call-parser hermes");
});
afterAll(() => Promise.all([plain.close(0), parsing.close(0)]));

/** A result of `JSON.parse` of any shape. */
type Json = ReturnType<typeof JSON.parse>;
const MESSAGES = [{ role: "user", content: "Say something." }];
const chat = (more: object, app = plain) =>
  fetch(`${app.url}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "m", messages: MESSAGES, max_tokens: 6, ignore_eos: true, ...more }),
    headers: { "content-type": "application/json" },
  });
const json = async (response: Promise<Response>): Promise<Json> => (await response).json();
const chunks = async (response: Promise<Response>): Promise<Json[]> =>
  (await (await response).text())
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)));

const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
const NAMED = { type: "function", function: { name: "weather" } };

test.each([
  { tools },
  { tools, tool_choice: "auto" },
  { tools, tool_choice: "required" },
  { tools, tool_choice: null },
  { tools: [] },
  { tool_choice: "auto" },
  { tools: [], tool_choice: "auto" },
])("without a parser of tool calls the text is the content: %j", async (more) => {
  const [{ message, finish_reason }] = (await json(chat(more))).choices;
  expect([message.tool_calls, finish_reason]).toEqual([[], "length"]);
  expect(message.content.length).toBeGreaterThan(0);
});

test("a parser finds calls without further options, also if the choice is null", async () => {
  for (const more of [{ tool_choice: "auto" }, { tool_choice: null }, {}]) {
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, seed) =>
        json(chat({ seed, tools, max_tokens: 200, ignore_eos: false, ...more }, parsing)),
      ),
    );
    const called = answers.filter(({ choices: [choice] }) => choice.message.tool_calls.length > 0);
    expect(called.length).toBeGreaterThan(0);
    expect(called[0].choices[0].finish_reason).toBe("tool_calls");
  }
});

test("--no-enable-auto-tool-choice: calls are not parsed, with or without a parser", async () => {
  const app = await start("--max-seq-len 2048 --tool-call-parser hermes --no-enable-auto-tool-choice");
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, seed) => json(chat({ seed, tools, max_tokens: 200, ignore_eos: false }, app))),
  );
  for (const { choices } of answers) expect(choices[0].message.tool_calls).toEqual([]);
  await app.close(0);
});

test("a named tool gets the text as its arguments, with any parser", async () => {
  for (const app of [plain, parsing]) {
    const { choices } = await json(chat({ tools, tool_choice: NAMED, seed: 1, n: 2 }, app));
    for (const { message, finish_reason } of choices) {
      expect(message).toEqual({
        ...{ role: "assistant", content: "", reasoning_content: null, reasoning: null },
        tool_calls: [
          {
            id: expect.stringMatching(/^chatcmpl-tool-[0-9a-f]{32}$/),
            type: "function",
            function: { name: "weather", arguments: expect.any(String) },
          },
        ],
      });
      expect(finish_reason).toBe("length");
    }
    const whole = choices.map(({ message }: Json) => message.tool_calls[0].function.arguments);
    expect(whole[0].length).toBeGreaterThan(0);
    const streamed = await chunks(chat({ tools, tool_choice: NAMED, seed: 1, n: 2, stream: true }, app));
    const contents = ["", ""];
    for (const { choices } of streamed.slice(2)) {
      const [{ index, delta }] = choices;
      expect(delta).toEqual({
        tool_calls: [{ type: "function", index, function: { name: "weather", arguments: expect.any(String) } }],
      });
      contents[index] += delta.tool_calls[0].function.arguments;
    }
    expect(contents).toEqual(whole);
  }
});

test("a named tool need not exist, and may be combined with a format", async () => {
  const more = { tools, tool_choice: { type: "function", function: { name: "other" } } };
  const called = async (fields: object, app?: RenewableApp) =>
    (await json(chat({ ...more, ...fields }, app))).choices[0].message.tool_calls[0].function;
  const response_format = { type: "regex", regex: "[ab]{3}" };
  for (const [app, tool_choice, name] of [
    [plain, more.tool_choice, "other"],
    [parsing, NAMED, "weather"],
  ] as const)
    expect(await called({ tool_choice, response_format, max_tokens: 100, ignore_eos: false }, app)).toEqual({
      name,
      arguments: expect.stringMatching(/^[ab]{3}$/),
    });
  expect((await called({ ignore_eos: false }, parsing)).arguments.length).toBeGreaterThan(0);
});

test("in /v1/responses a named tool gives a call, also with a format", async () => {
  const schema = { type: "object", properties: { a: { const: 1 } }, required: ["a"] };
  const text = { format: { type: "json_schema", name: "s", schema } };
  const named = { tools: [{ type: "function", name: "weather", parameters: { type: "object", properties: {} } }] };
  const asked = { ...named, tool_choice: { type: "function", name: "weather" }, model: "m", input: "Hello" };
  for (const more of [{}, { text }]) {
    const response = await fetch(`${parsing.url}/v1/responses`, {
      method: "POST",
      body: JSON.stringify({ ...asked, ...more, max_output_tokens: 300 }),
      headers: { "content-type": "application/json" },
    });
    const { output } = (await response.json()) as Json;
    expect(output).toMatchObject([{ type: "function_call", name: "weather" }]);
  }
});

const SALT = "Parameter 'cache_salt' must be a non-empty string if provided.";

test.each([
  [{ suffix: "x" }, "suffix is not supported"],
  [{ top_logprobs: 2 }, "logprobs must be true when using top_logprobs"],
  [{ top_logprobs: 0 }, "logprobs must be true when using top_logprobs"],
  [{ suffix: "x", top_logprobs: 0 }, "suffix is not supported"],
  [{ tool_choice: "required" }, "When using `tool_choice`, `tools` must be set."],
  [{ tool_choice: null }, "When using `tool_choice`, `tools` must be set."],
  [{ tool_choice: NAMED, tools: [] }, "When using `tool_choice`, `tools` must be set."],
])("validators of the whole body refuse %j", async (more, message) => {
  const response = await chat(more);
  const { error } = (await response.json()) as Json;
  expect(response.status).toBe(400);
  expect(error).toStartWith(
    `[{'type': 'value_error', 'loc': ('body',), 'msg': 'Value error, ${message}', 'input': {'model': 'm', `,
  );
  expect(error).toEndWith(`'ctx': {'error': ValueError('${message}')}}]`);
});

test("cache_salt: the schema refuses blank texts and accepts all others", async () => {
  for (const cache_salt of ["", " \t"])
    expect((await json(chat({ cache_salt }))).error).toBe(
      `[{'type': 'value_error', 'loc': ('body', 'cache_salt'), 'msg': "Value error, ${SALT}", ` +
        `'input': ${cache_salt === "" ? "''" : "' \\t'"}, 'ctx': {'error': ValueError("${SALT}")}}]`,
    );
  for (const cache_salt of ["a/b", "@\\", "s".repeat(200), null]) expect((await chat({ cache_salt })).status).toBe(200);
});

test.each([
  ["regex", "regex"],
  ["ebnf", "ebnf"],
  ["json", "schema"],
  ["json_schema", "json_schema"],
])("response_format %s without its %s", async (type, member) => {
  const response = await chat({ response_format: { type, [member]: null } });
  const message = `response_format.${member} is required for response_format.type == '${type}', but got None.`;
  const body = { object: "error", message, type: "BadRequestError", param: null, code: 400 };
  expect([response.status, await response.json()]).toEqual([400, body]);
});

test("a JSON schema may be plain or wrapped", async () => {
  const schema = { type: "object", properties: { a: { const: 1 } }, required: ["a"] };
  for (const json_schema of [schema, { schema }, { name: "s", schema }]) {
    const format = { response_format: { type: "json_schema", json_schema }, max_tokens: 300, ignore_eos: false };
    expect(JSON.parse((await json(chat(format))).choices[0].message.content)).toMatchObject({ a: 1 });
  }
});

test("type json has no wrapper, so a schema with a key of that name is unchanged", async () => {
  const schema = { type: "object", properties: { a: { const: 1 } }, required: ["a"], schema: { const: 2 } };
  const format = { response_format: { type: "json", schema }, max_tokens: 300, ignore_eos: false };
  expect(JSON.parse((await json(chat(format))).choices[0].message.content)).toMatchObject({ a: 1 });
});

test.each([
  ["json", "schema", "abc", "'abc'"],
  ["json_schema", "json_schema", "abc", "'abc'"],
  ["json_schema", "json_schema", [1], "[1]"],
])("response_format %s whose %s is not a dictionary is refused: %j", async (type, member, value, shown) => {
  const response = await chat({ response_format: { type, [member]: value } });
  expect([response.status, (await response.json()) as Json]).toEqual([
    400,
    {
      error:
        `[{'type': 'dict_type', 'loc': ('body', 'response_format', '${member}'), ` +
        `'msg': 'Input should be a valid dictionary', 'input': ${shown}}]`,
    },
  ]);
});
