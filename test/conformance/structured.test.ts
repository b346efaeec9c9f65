/**
 * Checks that answers of a live server satisfy schemas, expressions, choices and tools, streamed and whole, with both
 * vocabularies.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import fc from "fast-check";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { figure, sized } from "../size.ts";
import { schemas } from "../text/grammar/schemas.ts";

setDefaultTimeout(120_000);

/**
 * Number of schemas. Their values are tested without a server in test/text/grammar/values.test.ts; this test covers the
 * transport.
 */
const SCHEMAS = sized("structured", { sample: 20, whole: 500 });
figure("schemas on a live server, in each form", SCHEMAS);

const PARSERS = ["hermes", "llama3_json", "mistral", "qwen3_coder"] as const;
const FLAGS = ["--served-model-name", "m", "--timing", "none", "--disable-uvicorn-access-log", "--disable-log-stats"];
const AUTO = ["--enable-auto-tool-choice", "--tool-call-parser"];
const MODEL = new URL("model", import.meta.url).pathname;

const servers = new Map<string, HostedServer>();
beforeAll(async () => {
  const started = PARSERS.map(async (parser) => [parser, await hosted([...FLAGS, ...AUTO, parser])] as const);
  const folder = hosted([...FLAGS, ...AUTO, "hermes", "--tokenizer", MODEL, "--max-model-len", "8192"]);
  for (const [parser, server] of await Promise.all(started)) servers.set(parser, server);
  servers.set("folder", await folder);
});
afterAll(() => Promise.all([...servers.values()].map((server) => server.stop())));

const ajv = new Ajv({ strict: false });
addFormats(ajv);

interface Call {
  id?: string;
  index?: number;
  function: { name?: string; arguments?: string };
}
interface Choice {
  readonly message: { readonly content: string | null; readonly tool_calls?: readonly Call[] };
  readonly finish_reason: string;
}
interface Answer {
  readonly status: number;
  readonly choices: readonly Choice[];
  readonly error: { readonly message: string };
}

const PLAIN = { model: "m", seed: 5, messages: [{ role: "user", content: "x" }] };

async function post(server: string, body: object): Promise<Response> {
  return fetch(`${servers.get(server)!.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...PLAIN, ...body }),
  });
}

async function ask(server: string, body: object): Promise<Answer> {
  const response = await post(server, body);
  return { status: response.status, ...((await response.json()) as object) } as Answer;
}

/** Reads a stream and joins its chunks like a client. */
async function streamed(server: string, body: object): Promise<Choice & { readonly chunks: number }> {
  const text = await (await post(server, { ...body, stream: true })).text();
  const chunks = text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)).choices[0]);
  const calls: Required<Call["function"]>[] = [];
  for (const { delta } of chunks)
    for (const { index, function: part } of (delta.tool_calls ?? []) as Call[]) {
      calls[index!] ??= { name: "", arguments: "" };
      calls[index!]!.name += part.name ?? "";
      calls[index!]!.arguments += part.arguments ?? "";
    }
  return {
    message: {
      content: chunks.map(({ delta }) => delta.content ?? "").join(""),
      tool_calls: calls.map((call) => ({ function: call })),
    },
    finish_reason: chunks.at(-1).finish_reason,
    chunks: chunks.length,
  };
}

const format = (schema: object) => ({ response_format: { type: "json_schema", json_schema: { name: "x", schema } } });
const tool = (name: string, parameters: object) => ({ type: "function", function: { name, parameters } });
const WEATHER = tool("weather", {
  type: "object",
  properties: {
    city: { type: "string" },
    days: { type: "integer", minimum: 1, maximum: 9 },
    warm: { type: "boolean" },
  },
  required: ["city", "days", "warm"],
  additionalProperties: false,
});
const TIME = tool("time", { type: "object", properties: { zone: { enum: ["UTC", "CET"] } }, required: ["zone"] });
const callsOf = ({ message }: Choice) =>
  (message.tool_calls ?? []).map(({ function: { name, arguments: args } }) => [name, args]);
const fits = (schema: object, text: string) => {
  const validate = ajv.compile(schema);
  if (!validate(JSON.parse(text))) throw new Error(`${text}: ${JSON.stringify(validate.errors)}`);
};

test(`${SCHEMAS} generated schemas: whole answers fit them`, async () => {
  for (const [seed, schema] of fc.sample(schemas, { numRuns: SCHEMAS, seed: 9 }).entries()) {
    const { status, choices } = await ask("hermes", { ...format(schema), seed });
    expect([status, choices[0]!.finish_reason]).toEqual([200, "stop"]);
    fits(schema, choices[0]!.message.content!);
  }
});

test.each(["hermes", "folder"])("a stream token by token has the same text (%s)", async (server) => {
  for (const schema of fc.sample(schemas, { numRuns: sized("structured", { sample: 8, whole: 20 }), seed: 10 })) {
    const whole = await ask(server, format(schema));
    const stream = await streamed(server, format(schema));
    expect(stream.message.content).toBe(whole.choices[0]!.message.content!);
    expect(stream.chunks).toBeGreaterThan(3);
    fits(schema, stream.message.content!);
  }
});

type Node = Readonly<Record<string, unknown>>;
/** Reports whether vLLM's parser of qwen3_coder finds a type in a property's schema. Otherwise the value is text. */
function typed(schema: Node): boolean {
  if ("const" in schema || "$ref" in schema) return false;
  return ["anyOf", "oneOf", "allOf"].every((key) => ((schema[key] ?? []) as Node[]).every(typed));
}

test(`${SCHEMAS} generated schemas as tool parameters: arguments fit them, in the forms of all parsers`, async () => {
  for (const [seed, schema] of fc.sample(schemas, { numRuns: SCHEMAS, seed: 11 }).entries()) {
    const body = { tools: [tool("f", schema)], tool_choice: "required", parallel_tool_calls: false, seed };
    const properties = Object.values(((schema as Node).properties ?? {}) as Record<string, Node>);
    const drawn = PARSERS[seed % PARSERS.length]!;
    const parser = drawn === "qwen3_coder" && !properties.every(typed) ? "mistral" : drawn;
    const { choices } = await ask(parser, body);
    const [[name, args] = []] = callsOf(choices[0]!);
    expect(name).toBe("f");
    fits(schema, args!);
  }
});

test.each([...PARSERS, "folder"])(
  "%s: streamed calls equal those of the whole answer, and fit their schemas",
  async (server) => {
    const tools = { tools: [WEATHER, TIME], understudy: { call: ["time", "weather"] } };
    for (let seed = 0; seed < 20; seed++) {
      const body = { ...tools, seed };
      const whole = (await ask(server, body)).choices[0]!;
      const stream = await streamed(server, body);
      expect(callsOf(whole).map(([name]) => name)).toEqual(["time", "weather"]);
      expect(callsOf(stream)).toEqual(callsOf(whole));
      expect([whole.finish_reason, stream.finish_reason]).toEqual(["tool_calls", "tool_calls"]);
      fits(TIME.function.parameters, callsOf(whole)[0]![1]!);
      fits(WEATHER.function.parameters, callsOf(whole)[1]![1]!);
    }
  },
);

test.each([...PARSERS, "folder"])("%s: forced calls are streamed, too", async (server) => {
  const forcedBy = ["required", { type: "function", function: { name: "time" } }];
  for (const choice of forcedBy)
    for (let seed = 0; seed < 10; seed++) {
      const body = { tools: [WEATHER, TIME], tool_choice: choice, seed };
      const whole = (await ask(server, body)).choices[0]!;
      const stream = await streamed(server, body);
      expect(callsOf(whole)).not.toEqual([]);
      expect([callsOf(stream), stream.finish_reason]).toEqual([callsOf(whole), whole.finish_reason]);
    }
});

test("tool_choice none, required and a named tool are obeyed, and parallel_tool_calls false gives one call", async () => {
  const tools = { tools: [WEATHER, TIME] };
  for (let seed = 0; seed < 30; seed++) {
    const [none, required, named, single] = await Promise.all([
      ask("hermes", { ...tools, seed, tool_choice: "none" }),
      ask("hermes", { ...tools, seed, tool_choice: "required" }),
      ask("hermes", { ...tools, seed, tool_choice: { type: "function", function: { name: "time" } } }),
      ask("hermes", { ...tools, seed, tool_choice: "required", parallel_tool_calls: false }),
    ]);
    expect(none.choices[0]!.message.tool_calls).toBeUndefined();
    expect(required.choices[0]!.message.tool_calls!.length).toBeGreaterThan(0);
    expect(callsOf(named.choices[0]!).map(([name]) => name)).toEqual(["time"]);
    expect([named.choices[0]!.finish_reason, required.choices[0]!.finish_reason]).toEqual(["stop", "tool_calls"]);
    expect(single.choices[0]!.message.tool_calls).toHaveLength(1);
  }
});

test("with tool_choice auto the seed draws about half of the answers as calls, unless an order decides", async () => {
  const tools = { tools: [WEATHER, TIME], max_tokens: 80 };
  const seen = new Map<number, number>();
  const names = new Set<string>();
  for (let seed = 0; seed < 100; seed++) {
    const calls = callsOf((await ask("hermes", { ...tools, seed })).choices[0]!);
    seen.set(calls.length, (seen.get(calls.length) ?? 0) + 1);
    for (const [name] of calls) names.add(name!);
  }
  expect(seen.get(0)).toBeWithin(30, 70);
  expect(seen.get(2)).toBeGreaterThan(0);
  expect([...names].sort()).toEqual(["time", "weather"]);
  for (let seed = 0; seed < 10; seed++) {
    const [never, always] = await Promise.all(
      [false, true].map((call) => ask("hermes", { ...tools, seed, understudy: { call } })),
    );
    expect(never!.choices[0]!.message.tool_calls).toBeUndefined();
    expect(always!.choices[0]!.message.tool_calls!.length).toBeGreaterThan(0);
  }
});

test("--tool-call-share sets the share of answers with calls", async () => {
  const [never, always] = await Promise.all(
    ["0", "1"].map((share) => hosted([...FLAGS, ...AUTO, "hermes", "--tool-call-share", share])),
  );
  servers.set("never", never!).set("always", always!);
  for (let seed = 0; seed < 10; seed++) {
    const body = { tools: [TIME], seed, max_tokens: 60 };
    expect((await ask("never", body)).choices[0]!.message.tool_calls).toBeUndefined();
    expect((await ask("always", body)).choices[0]!.message.tool_calls!.length).toBeGreaterThan(0);
  }
});

test("--tool-arguments sets the number and arguments of calls", async () => {
  const habits = "integers=7:7,optional=1,another=1";
  const flags = [...FLAGS, ...AUTO, "hermes", "--tool-call-share", "1", "--tool-arguments", habits];
  servers.set("habits", await hosted(flags));
  const tool = (name: string) => ({
    type: "function",
    function: { name, parameters: { type: "object", properties: { n: { type: "integer" } } } },
  });
  const { message } = (await ask("habits", { tools: ["a", "b", "c"].map(tool) })).choices[0]!;
  expect(message.tool_calls!.map((call) => JSON.parse(call.function.arguments!))).toEqual([
    { n: 7 },
    { n: 7 },
    { n: 7 },
  ]);
  const alone = (await ask("habits", { tools: [tool("a"), tool("b")], parallel_tool_calls: false })).choices[0]!;
  expect(alone.message.tool_calls).toHaveLength(1);
});

test.each(PARSERS)("%s: a conversation with a call and its result continues with text", async (server) => {
  const asked = { tools: [TIME], understudy: { call: true } };
  const { message } = (await ask(server, asked)).choices[0]!;
  const toolMessages = message.tool_calls!.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "12:00" }));
  const messages = [...PLAIN.messages, { role: "assistant", ...message }, ...toolMessages];
  for (let seed = 0; seed < 10; seed++) {
    const next = (await ask(server, { tools: [TIME], messages, seed, max_tokens: 30 })).choices[0]!;
    expect(next.message.tool_calls).toBeUndefined();
    expect(next.message.content!.length).toBeGreaterThan(0);
  }
  expect(callsOf((await ask(server, { ...asked, messages })).choices[0]!).length).toBeGreaterThan(0);
});

test("each choice has a different seed", async () => {
  const { choices } = await ask("hermes", { ...format({ type: "integer" }), n: 8 });
  expect(new Set(choices.map(({ message }) => message.content)).size).toBeGreaterThan(4);
  const called = await ask("hermes", { tools: [WEATHER], n: 8, max_tokens: 60 });
  expect(new Set(called.choices.map(({ finish_reason: reason }) => reason)).size).toBeGreaterThan(1);
});

test("answers are cut at max_tokens like a model's", async () => {
  const whole = (await ask("hermes", format(WEATHER.function.parameters))).choices[0]!.message.content!;
  const { choices } = await ask("hermes", { ...format(WEATHER.function.parameters), max_tokens: 4 });
  expect(choices[0]!.finish_reason).toBe("length");
  expect(whole).toStartWith(choices[0]!.message.content!);
  const cut = await ask("hermes", { tools: [WEATHER], tool_choice: "required", max_tokens: 6 });
  expect([cut.choices[0]!.finish_reason, cut.choices[0]!.message.tool_calls]).toEqual(["length", undefined]);
});

test("completions and min_tokens, ignore_eos, repeated greedy requests", async () => {
  const completion = await fetch(`${servers.get("hermes")!.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", prompt: ["a", "b"], structured_outputs: { regex: "[a-f]{5}" } }),
  });
  for (const { text } of ((await completion.json()) as { choices: { text: string }[] }).choices)
    expect(text).toMatch(/^[a-f]{5}$/);
  const body = { ...format({ type: "boolean" }), min_tokens: 20, max_tokens: 30 };
  expect((await ask("hermes", body)).choices[0]!.message.content).toMatch(/^(true|false)$/);
  expect((await ask("hermes", { ...body, ignore_eos: true })).choices[0]!.finish_reason).toBe("length");
  const greedy = { ...format({ type: "string" }), temperature: 0, seed: null };
  expect((await ask("hermes", greedy)).choices).toEqual((await ask("hermes", greedy)).choices);
});

test("too large constraints are refused with a short error, and the server continues", async () => {
  const large = {
    type: "object",
    properties: Object.fromEntries(Array.from({ length: 30_000 }, (_, i) => [`p${i}`, { type: "string" }])),
  };
  const refused = await ask("hermes", format(large));
  expect([refused.status, refused.error.message]).toEqual([
    400,
    "understudy: the constraint has more than 262144 characters",
  ]);
  const many = Array.from({ length: 10_000 }, (_, i) => tool(`tool_${i}`, { type: "object", properties: {} }));
  const manyTools = await ask("hermes", { tools: many, tool_choice: "required" });
  expect([200, 400]).toContain(manyTools.status);
  const folder = await ask("folder", { tools: many, tool_choice: "required" });
  expect([folder.status, folder.error.message]).toEqual([400, expect.stringContaining("maximum context length")]);
  const huge = await ask("hermes", { tools: [tool("f", large)], tool_choice: "required" });
  expect([200, 400]).toContain(huge.status);
});

test("recursive schemas end if possible, and are cut otherwise", async () => {
  const tree = { type: "object", properties: { next: { $ref: "#" }, v: { type: "integer" } }, required: ["v"] };
  for (let seed = 0; seed < 20; seed++)
    fits(tree, (await ask("hermes", { ...format(tree), seed })).choices[0]!.message.content!);
  const endless = { type: "object", properties: { next: { $ref: "#" } }, required: ["next"] };
  const { choices } = await ask("hermes", { ...format(endless), max_tokens: 50 });
  expect([choices[0]!.finish_reason, choices[0]!.message.content]).toEqual([
    "length",
    expect.stringMatching(/^(\{"next": )+/),
  ]);
});

test.each([
  [{ structured_outputs: { regex: "(?=a)" } }, "look-around"],
  [format({ type: "array", uniqueItems: true }), 'Grammar error: Unimplemented keys: ["uniqueItems"]'],
  [format({ $ref: "#/$defs/none" }), "Pointer '/$defs/none' does not exist"],
  [{ structured_outputs: { regex: "(a{1000}){1000}" } }, "at most 65536 are drawn"],
])("%j is refused, in a stream after its head", async (body, message) => {
  const whole = await ask("hermes", body);
  expect([whole.status, whole.error.message]).toEqual([400, expect.stringContaining(message)]);
  const stream = await post("hermes", { ...body, stream: true });
  const text = await stream.text();
  expect([stream.status, text]).toEqual([200, expect.stringMatching(/^data: \{"error":.*\}\n\ndata: \[DONE\]\n\n$/)]);
});

test.each([
  [["--tool-call-parser", "nope"], /--tool-call-parser: takes apertus, .* or xlam, not "nope"/],
  [["--enable-auto-tool-choice"], /enable-auto-tool-choice: needs --tool-call-parser/],
  [["--tool-call-share", "2"], /tool-call-share.*from 0 to 1/],
])("%j ends the command with one line", (flags, line) => {
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, "serve", "--port", "0", ...flags]);
  expect([exitCode, stderr.toString().trim()]).toEqual([2, expect.stringMatching(line)]);
});
