/**
 * Tests `--answers prompted-json` and fixtures that use it: prompts in each dialect, and the settings that have priority over
 * them.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv from "ajv/dist/2020.js";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-json-"));
const servers: Record<string, HostedServer> = {};
beforeAll(async () => {
  const fixtures = [
    { match: { headers: { "x-json": "yes" } }, answer: { prompted_json: true } },
    { match: { headers: { "x-json": "text" } }, answer: "as it is" },
  ];
  writeFileSync(join(folder, "json.yaml"), JSON.stringify({ fixtures }));
  const flags = ["--timing", "none", "--served-model-name", "m"];
  const json = ["--answers", "prompted-json"];
  const tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"];
  servers.plain = await hosted(flags);
  servers.json = await hosted([...flags, ...json]);
  servers.tools = await hosted([...flags, ...json, ...tools, "--reasoning-parser", "qwen3"]);
  servers.fixtures = await hosted([...flags, "--fixtures", folder]);
  servers.trtllm = await hosted([...flags, ...json, "--role", "trtllm-serve"]);
});
afterAll(async () => {
  await Promise.all(Object.values(servers).map((server) => server.stop()));
  rmSync(folder, { recursive: true });
});

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" }, more: { type: "boolean" } },
  required: ["city", "people"],
  additionalProperties: false,
};
const fits = new Ajv({ strict: false }).compile(SCHEMA);
const PROMPT = `Where?\n\nHere's a JSON schema to follow:\n${JSON.stringify(SCHEMA)}\n\nOutput a valid JSON object.`;
const user = (content: string) => ({ messages: [{ role: "user", content }] });

async function post(server: string, path: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(servers[server]!.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "m", seed: 3, max_tokens: 200, ...body }),
  });
  expect(response.status).toBe(200);
  return response;
}

interface Choice {
  readonly message: { readonly content: string; readonly tool_calls?: readonly object[]; readonly reasoning?: string };
  readonly finish_reason: string;
}
async function chat(server: string, body: object, headers?: Record<string, string>): Promise<Choice> {
  const { choices } = (await (await post(server, "/v1/chat/completions", body, headers)).json()) as {
    choices: Choice[];
  };
  return choices[0]!;
}
const contentOf = async (...args: Parameters<typeof chat>) => (await chat(...args)).message.content;
const eventsOf = async (response: Response) =>
  (await response.text())
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)));
const isJson = (text: string) => {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
};

test.each(["json", "trtllm"])(
  "%s: a chat that asks for JSON gets it, whole and streamed, and others get prose",
  async (server) => {
    const { message, finish_reason: finish } = await chat(server, user(PROMPT));
    expect([fits(JSON.parse(message.content)), finish]).toEqual([true, "stop"]);
    const events = await eventsOf(await post(server, "/v1/chat/completions", { ...user(PROMPT), stream: true }));
    const pieces = events.flatMap(({ choices }) =>
      choices.map(({ delta }: never) => (delta as { content?: string }).content ?? ""),
    );
    expect([pieces.join(""), pieces.length > 5]).toEqual([message.content, true]);
    expect(isJson(await contentOf(server, user("Where?")))).toBe(false);
  },
);

test("without the option such a prompt gets prose", async () => {
  expect(isJson(await contentOf("plain", user(PROMPT)))).toBe(false);
  expect(await contentOf("plain", user("Where?"))).toBe(await contentOf("json", user("Where?")));
});

test("messages and responses, with their separate instructions, and completions get JSON", async () => {
  const ask = { messages: [{ role: "user", content: "Where?" }], system: PROMPT };
  const { content } = (await (await post("json", "/v1/messages", ask)).json()) as never as {
    content: { text: string }[];
  };
  expect(fits(JSON.parse(content[0]!.text))).toBe(true);
  const streamed = await eventsOf(await post("json", "/v1/messages", { ...ask, stream: true }));
  // This dialect has no seed, so the value differs.
  expect(fits(JSON.parse(streamed.map(({ delta }) => delta?.text ?? "").join("")))).toBe(true);
  for (const asked of [{ input: "Where?", instructions: PROMPT }, { input: PROMPT }]) {
    const response = await post("json", "/v1/responses", { ...asked, max_tokens: undefined });
    const { output } = (await response.json()) as never as { output: { content: { text: string }[] }[] };
    expect(fits(JSON.parse(output[0]!.content[0]!.text))).toBe(true);
    const events = await eventsOf(
      await post("json", "/v1/responses", { ...asked, stream: true, max_tokens: undefined }),
    );
    expect(events.at(-1).response.output[0].content[0].text).toBe(output[0]!.content[0]!.text);
  }
  const { choices } = (await (
    await post("json", "/v1/completions", { prompt: [PROMPT, "Where?", PROMPT], n: 2 })
  ).json()) as { choices: { text: string }[] };
  expect(choices.map(({ text }) => isJson(text))).toEqual([true, true, false, false, true, true]);
});

test("each choice of a request has a different value", async () => {
  const response = await post("json", "/v1/chat/completions", { ...user(PROMPT), n: 8 });
  const { choices } = (await response.json()) as { choices: Choice[] };
  const texts = choices.map(({ message }) => message.content);
  expect(texts.every((text) => fits(JSON.parse(text)))).toBe(true);
  expect(new Set(texts).size).toBeGreaterThan(4);
});

test("max_tokens cuts the JSON, and a stop string ends it", async () => {
  const whole = await contentOf("json", user(PROMPT));
  const { message, finish_reason: finish } = await chat("json", { ...user(PROMPT), max_tokens: 4 });
  expect([whole.startsWith(message.content), isJson(message.content), finish]).toEqual([true, false, "length"]);
  expect(await contentOf("json", { ...user(PROMPT), stop: [","] })).toBe(whole.split(",")[0]!);
});

test("response_format has priority, and json_object uses the prompt's schema if it is an object", async () => {
  const schema = { type: "object", properties: { z: { const: 1 } }, required: ["z"], additionalProperties: false };
  const format = { type: "json_schema", json_schema: { name: "z", schema } };
  expect(JSON.parse(await contentOf("json", { ...user(PROMPT), response_format: format }))).toEqual({ z: 1 });
  const object = { response_format: { type: "json_object" } };
  for (let seed = 0; seed < 5; seed++)
    expect(fits(JSON.parse(await contentOf("json", { ...user(PROMPT), ...object, seed })))).toBe(true);
  expect(fits(JSON.parse(await contentOf("plain", { ...user(PROMPT), ...object })))).toBe(false);
  for (const prompt of [
    'JSON schema: {"type": "array"}',
    "Where?",
    '{"type": "string", "minLength": 2, "maxLength": 1}',
  ])
    expect(await contentOf("json", { ...user(prompt), ...object })).toStartWith("{");
  const choice = { structured_outputs: { choice: ["yes"] } };
  expect(await contentOf("json", { ...user(PROMPT), ...choice })).toBe("yes");
});

test("called tools have priority, and other answers are JSON after their thinking", async () => {
  const tools = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }];
  const ask = (more: object) => chat("tools", { ...user(PROMPT), tools, max_tokens: 600, ...more });
  expect((await ask({ tool_choice: "required" })).message.tool_calls).toHaveLength(1);
  expect((await ask({ understudy: { call: true } })).finish_reason).toBe("tool_calls");
  const { message } = await ask({ understudy: { call: false } });
  expect([fits(JSON.parse(message.content)), message.reasoning === ""]).toEqual([true, false]);
});

test("tools described in the prompt, as by Qwen-Agent, get a call in the content, and after its result text", async () => {
  const tool = JSON.stringify({ type: "function", function: { name: "look", parameters: SCHEMA } });
  const system = `# Tools\n<tools>\n${tool}\n</tools>\nFor each function call, return a json object within <tool_call></tool_call> tags`;
  const messages = [{ role: "system", content: system }, ...user("Where?").messages];
  const content = await contentOf("json", { messages, understudy: { call: true } });
  expect(JSON.parse(/<tool_call>\n(.*)\n<\/tool_call>/s.exec(content)![1]!).name).toBe("look");
  const answered = [
    ...messages,
    { role: "assistant", content },
    { role: "user", content: "<tool_response>\n12\n</tool_response>" },
  ];
  for (let seed = 0; seed < 5; seed++)
    expect(await contentOf("json", { messages: answered, seed })).not.toContain("<tool_call>");
});

test("a fixture may order JSON by the prompt or any object, and a fixture's text overrides the prompt", async () => {
  const asking = { "x-json": "yes" };
  expect(fits(JSON.parse(await contentOf("fixtures", user(PROMPT), asking)))).toBe(true);
  expect(JSON.parse(await contentOf("fixtures", user("Where?"), asking))).toBeObject();
  expect(isJson(await contentOf("fixtures", user(PROMPT)))).toBe(false);
  expect(await contentOf("fixtures", user(PROMPT), { "x-json": "text" })).toBe("as it is");
  expect(await contentOf("json", { ...user(PROMPT), understudy: { script: "ordered" } })).toBe("ordered");
});

test("a schema in a prompt of megabytes is found at either end, but not in the middle", async () => {
  const long = "Some more text. ".repeat(40_000);
  const limits = await hosted(["--timing", "none", "--answers", "prompted-json", "--max-model-len", "450000"]);
  servers.long = limits;
  const ask = async (messages: readonly string[]) => {
    const all = messages.map((content, at) => ({ role: at === 0 ? "system" : "user", content }));
    return isJson(await contentOf("long", { messages: all, model: null }));
  };
  expect([await ask([PROMPT, long]), await ask([long, PROMPT])]).toEqual([true, true]);
  expect([await ask([`${long}${PROMPT}${long}`]), await ask([`${PROMPT}${long}`])]).toEqual([false, true]);
});

test("an unsupported schema gets prose, and one line in the log", async () => {
  const broken = user('JSON schema: {"type": "string", "minLength": 2, "maxLength": 1}');
  for (let seed = 0; seed < 3; seed++) expect(isJson(await contentOf("json", { ...broken, seed }))).toBe(false);
  await Bun.sleep(50);
  const lines = servers
    .json!.output()
    .split("\n")
    .filter((line) => line.includes("a JSON Schema in a prompt"));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("minLength (2) is greater than maxLength (1)");
});
