/** Lists requests with which one client may delay the others: each is large in one respect, or in one field. */
import { messagesFields } from "../../src/servers/vllm/messages/fields.ts";
import { chatFields, completionFields } from "../../src/servers/vllm/openai/fields.ts";
import { responsesFields } from "../../src/servers/vllm/responses/fields.ts";
import { HTTP2_ATTACKS, type Http2Attack } from "./http2-attacks.ts";
import { freePort } from "./servers.ts";

export interface HoldRow {
  readonly name: string;
  readonly path: string;
  /** Generates the body. Called once per measurement, so that the bodies of all rows need not be in memory. */
  readonly body: () => string;
  /** Number of requests that are sent at once. Default: 1. */
  readonly count?: number;
  /** Method of the request. Default: POST with the body. */
  readonly method?: "GET";
  /** If set, the requests are pipelined on one connection. `unread`: the client does not read, and resets after five seconds. */
  readonly pipelined?: "read" | "unread";
  /** Frames that are sent to the server's HTTP/2 port instead of a request. */
  readonly attack?: { readonly frames: Http2Attack; readonly port: number };
  /** Additional flags of the server. A row with flags gets a server of its own. */
  readonly flags?: readonly string[];
}

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const messages = [{ role: "user", content: "What is there to say?" }];
const times = <T>(count: number, item: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => item(at));
/** Returns `count` token ids that every vocabulary has. */
const ids = (count: number) => times(count, (at) => 300 + (at % 500));

/** Returns a row whose body is the JSON of these fields. */
const json = (name: string, path: string, fields: () => object): HoldRow => ({
  ...{ name, path, body: () => JSON.stringify(fields()) },
});
const chat = (name: string, more: () => object) => json(name, CHAT, () => ({ messages, max_tokens: 5, ...more() }));
const completion = (name: string, more: () => object) => json(name, COMPLETIONS, () => ({ max_tokens: 5, ...more() }));
const prompts = (count: number, length: number) => ({ prompt: times(count, () => ids(length)) });
const manyLong = (name: string, more: object) =>
  completion(name, () => ({ ...prompts(100, 100_000), max_tokens: 1, ...more }));
const response = (name: string, more: object) =>
  json(name, "/v1/responses", () => ({
    ...{ input: "Hello", max_output_tokens: 1000, ignore_eos: true, top_logprobs: 20 },
    ...{ include: ["message.output_text.logprobs"], ...more },
  }));
/** Returns a row with a body that JSON.stringify would not write. */
const text = (name: string, body: () => string): HoldRow => ({ name, path: CHAT, body });
const around = (inside: string) => `{"messages":${JSON.stringify(messages)},"max_tokens":5${inside}}`;

const withParts = (content: object[]) => ({ messages: [{ role: "user", content }] });
const tool = (name: string) => ({ type: "function", function: { name, parameters: { type: "object" } } });
const get = (name: string, path: string): HoldRow => ({ name, path, method: "GET", body: () => "" });
/** An object of many properties, as JSON Schema. */
const wide = {
  type: "object",
  properties: Object.fromEntries(times(5000, (at) => [`property${at}`, { type: "string", maxLength: 20 }])),
  required: ["property1"],
};
/** Returns a row of requests whose answers fit the schema. */
const constrained = (name: string, count: number, schema: object): HoldRow => ({
  ...chat(name, () => ({ response_format: { type: "json_schema", json_schema: { name: "x", schema } } })),
  count,
});
/** Returns a row for a server with the chat template of a model. */
const withModel = (count: number, name: string): HoldRow => ({
  ...chat(name, () => ({ messages: times(count, () => messages[0]) })),
  flags: ["--tokenizer", new URL("../../test/conformance/model", import.meta.url).pathname],
});

const KNOWN: readonly HoldRow[] = [
  completion("prompt_logprobs 20, 10,000 tokens", () => ({ prompt: ids(10_000), prompt_logprobs: 20 })),
  completion("prompt_logprobs 20, 100,000 tokens", () => ({ prompt: ids(100_000), prompt_logprobs: 20 })),
  completion("echo, logprobs 5, 100,000 tokens", () => ({ prompt: ids(100_000), echo: true, logprobs: 5 })),
  completion("echo, logprobs 20, 256 prompts of 200", () => ({ ...prompts(256, 200), echo: true, logprobs: 20 })),
  chat("logprobs 20, 20,000 tokens of output", () => ({ logprobs: true, top_logprobs: 20, max_tokens: 20_000 })),
  { ...text("six bodies of 58 MB", () => around(`,"metadata":"${"x".repeat(58e6)}"`)), count: 6 },
  chat("script of 18 MB", () => ({ understudy: { script: "word ".repeat(3_600_000) } })),
  chat("script of a million steps", () => ({ understudy: { script: times(1e6, () => [300]) } })),
  chat("logit_bias of 500,000", () => ({ logit_bias: Object.fromEntries(times(500_000, (at) => [String(at), 1])) })),
  chat("a million stop_token_ids", () => ({ stop_token_ids: times(1e6, (at) => at % 30_000) })),
  json("/detokenize of 5 million ids", "/detokenize", () => ({ tokens: ids(5e6) })),
  chat("100,000 bad_words", () => ({ bad_words: times(100_000, (at) => `word${at}`) })),
  chat("100,000 tools", () => ({ tools: times(100_000, (at) => tool(`f${at}`)) })),
  text("a number of 60 million digits", () => around(`,"seed":${"1".repeat(60e6)}`)),
  text("60 MB of blanks", () => around(" ".repeat(60e6))),
  text("18 MB of keys", () => around(times(1.2e6, (at) => `,"k${at}":${at % 10}`).join(""))),
  { ...get("100 of /openapi.json", "/openapi.json"), count: 100 },
  { ...get("150,800 of /openapi.json on a connection, unread", "/openapi.json"), count: 150_800, pipelined: "unread" },
  { ...get("8,000 of /openapi.json on a connection", "/openapi.json"), count: 8000, pipelined: "read" },
  { ...get("8,000 of /docs on a connection", "/docs"), count: 8000, pipelined: "read" },
  chat("a stop string of 30 MB", () => ({ stop: ["x".repeat(3e7)] })),
  chat("a content part whose type has 30 MB", () => withParts([{ type: "x".repeat(3e7) }])),
  json("/tokenize of 300,000 messages", "/tokenize", () => ({ messages: times(300_000, () => messages[0]) })),
  json("/tokenize of 1 MB", "/tokenize", () => ({ prompt: "word ".repeat(200_000) })),
  completion("1,024 prompts of 200", () => ({ ...prompts(1024, 200), max_tokens: 1 })),
  manyLong("100 prompts of 100,000 ids", {}),
  manyLong("100 prompts of 100,000 ids, greedy", { temperature: 0 }),
  manyLong("100 prompts of 100,000 ids, shown", { return_token_ids: true }),
  manyLong("100 prompts of 100,000 ids, shown, a stream", { return_token_ids: true, stream: true }),
  manyLong("100 prompts of 100,000 ids, echoed", { echo: true }),
  manyLong("100 prompts of 100,000 ids, echoed, a stream", { echo: true, stream: true }),
  completion("n of 16, 1,024 prompts", () => ({ ...prompts(1024, 20), n: 16, max_tokens: 1 })),
  completion("n of 300, a prompt of 10,000 ids", () => ({ prompt: ids(10_000), n: 300, max_tokens: 1 })),
  chat("n of 16,384", () => ({ n: 16_384, max_tokens: 1 })),
  chat("n of 16,384, a stream", () => ({ n: 16_384, max_tokens: 1, stream: true })),
  chat("a beam of 1,000", () => ({ n: 1000, use_beam_search: true, max_tokens: 20, ignore_eos: true })),
  chat("one message of 20,000 parts", () => withParts(times(20_000, () => ({ type: "text", text: "word" })))),
  chat("20,000 messages, something wrong in each", () => ({ messages: times(20_000, () => ({ role: "user" })) })),
  completion("echo, logprobs 5, 10,000 tokens, a stream", () => ({
    ...{ prompt: ids(10_000), echo: true, logprobs: 5, stream: true },
  })),
  completion("a prompt of 250,000 ids", () => ({ prompt: ids(250_000) })),
  response("a response of 1,000 tokens with log probabilities", {}),
  response("a stream of a response of 1,000 tokens with log probabilities", { stream: true }),
  chat("logprobs 20, 500 tokens of output in an event", () => ({
    ...{ logprobs: true, top_logprobs: 20, max_tokens: 500, ignore_eos: true, stream: true, stream_interval: 500 },
  })),
  completion("logprobs 20, 500 tokens of output in two events", () => ({
    ...{ prompt: "Hello", logprobs: 20, max_tokens: 500, ignore_eos: true, stream: true, stream_interval: 250 },
  })),
  constrained("20 schemas of 250 KB", 20, wide),
  constrained("4 schemas of a megabyte", 4, { allOf: [wide, wide, wide, wide] }),
  constrained("4 enumerations of 10,000", 4, { enum: times(10_000, (at) => `value ${at}`) }),
  chat("an expression of 240 KB", () => ({ structured_outputs: { regex: "a?".repeat(120_000) } })),
  chat("a grammar of 240 KB", () => ({ structured_outputs: { grammar: `root ::= ${'"a" '.repeat(60_000)}` } })),
  withModel(20_000, "20,000 messages, a model's own template"),
  withModel(500, "500 messages of 30 kB, a model's own template"),
  json("embeddings, 22 MB", "/v1/embeddings", () => ({ input: times(2048, () => "word"), dimensions: 512 })),
  json("a batch of 4 MB", `${CHAT}/batch`, () => ({
    ...{ messages: times(20, () => times(4000, () => messages[0])), max_tokens: 1 },
  })),
  { name: "an invocation of 4 MB", path: "/invocations", body: () => around(`,"user":"${"x".repeat(4e6)}"`) },
];

/** Names of ten rows that `bench hold` also runs at once, each from its own client. */
export const AT_ONCE = [
  "script of 18 MB",
  "script of a million steps",
  "logit_bias of 500,000",
  "a million stop_token_ids",
  "/detokenize of 5 million ids",
  "100,000 bad_words",
  "100,000 tools",
  "60 MB of blanks",
  "18 MB of keys",
  "prompt_logprobs 20, 10,000 tokens",
];

type Schema = Readonly<Record<string, unknown>>;

/** Approximate size of a large field, in characters. */
const FIELD_CHARACTERS = 4e6;

/** Returns a value of about that size that the schema accepts. Null if the schema has no large values, as for a number. */
function large(schema: Schema): unknown {
  const choices = (schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined;
  if (choices !== undefined) {
    const found = choices.map(large).filter((value) => value !== null);
    return found.find((value) => typeof value === "object") ?? found[0] ?? null;
  }
  if (schema.enum !== undefined || schema.const !== undefined) return null;
  switch (schema.type) {
    case "string":
      return "word ".repeat(FIELD_CHARACTERS / 5);
    case "array": {
      const item = small((schema.items ?? {}) as Schema);
      const fits = Math.floor(FIELD_CHARACTERS / (JSON.stringify(item).length + 1));
      return times(Math.min(fits, (schema.maxItems as number | undefined) ?? fits), () => item);
    }
    case "object":
      return Object.fromEntries(times(FIELD_CHARACTERS / 16, (at) => [`key${at}`, 1]));
    default:
      return null;
  }
}

/** Returns a short value that most schemas of the same form accept. */
function small(schema: Schema): unknown {
  const [first] = ((schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined) ?? [];
  if (first !== undefined) return small(first);
  if (schema.enum !== undefined) return (schema.enum as readonly unknown[])[0];
  if (schema.type === "string") return "word";
  if (schema.type === "array") return [small((schema.items ?? {}) as Schema)];
  return schema.type === "object" ? { type: "object" } : 7;
}

/** The kinds of requests by path: the name of each, and its required fields. */
const KINDS: Readonly<Record<string, readonly [string, object]>> = {
  [CHAT]: ["chat", { messages, max_tokens: 5 }],
  [COMPLETIONS]: ["completion", { prompt: "What is there to say?", max_tokens: 5 }],
  "/v1/responses": ["response", { input: "What is there to say?", max_output_tokens: 16 }],
  "/v1/messages": ["message", { model: "m", messages, max_tokens: 5 }],
};

/** Returns a row for each field of the table that can be large. */
function fieldRows(path: string, fields: Readonly<Record<string, { readonly type: { readonly schema: object } }>>) {
  const [kind, other] = KINDS[path]!;
  return Object.entries(fields).flatMap(([name, { type }]): HoldRow[] => {
    if (large(type.schema as Schema) === null) return [];
    const body = () => JSON.stringify({ ...other, [name]: large(type.schema as Schema) });
    return [{ name: `${kind}: ${name}`, path, body }];
  });
}

function attackRow(frames: Http2Attack): HoldRow {
  const port = freePort();
  const flags = ["--http2-port", `${port}`];
  return { name: `${frames.name}, h2c`, path: COMPLETIONS, body: () => "", attack: { frames, port }, flags };
}

export const HOLD_ROWS: readonly HoldRow[] = [
  ...KNOWN,
  ...HTTP2_ATTACKS.map(attackRow),
  ...fieldRows(CHAT, chatFields),
  ...fieldRows(COMPLETIONS, completionFields),
  ...fieldRows("/v1/responses", responsesFields),
  ...fieldRows("/v1/messages", messagesFields),
];
