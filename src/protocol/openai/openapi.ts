/**
 * What does the API look like to a machine? One OpenAPI 3.1 document: fields, types, defaults and limits from the table
 * that requests are checked with, answers as they are written. vLLM 0.33 has FastAPI make one, from its own models.
 */

import { version } from "../../../package.json";
import { bodySchema, type Described, type Operation, type Operations } from "../operations.ts";
import type { Schema } from "../types.ts";
import { embeddingBody } from "./embeddings.ts";
import { chatFields, completionFields } from "./fields.ts";
import { type Kind, parameterOf, type parameters } from "./parameters.ts";
import { VLLM_VERSION } from "./served.ts";
import { detokenizeBody, tokenizeBody } from "./tokenize.ts";

export interface Document {
  readonly openapi: "3.1.0";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** `served`: the methods of each path that is on this server. `more`: of other dialects. Paths without a line are left out. */
export function openApi(served: Readonly<Record<string, readonly string[]>>, more: Operations = {}): Document {
  const operations = { ...OPERATIONS, ...more };
  const schemas: Record<string, Schema> = {};
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
    info: {
      title: "Understudy",
      version,
      description: `Stands in for vLLM ${VLLM_VERSION}: its API, without a model. Fields that are not listed are ignored.`,
    },
    paths,
    components: { schemas },
  };
}

/** The document as JSON; integers of 64 bits keep all their digits. */
export function printed(document: Document): string {
  const marked = (_: string, value: unknown) => (typeof value === "bigint" ? `#${value}#` : value);
  return JSON.stringify(document, marked).replaceAll(/"#(-?\d+)#"/g, "$1");
}

/** Objects with a title move to `schemas`, under it; a second shape of the same title stays where it is. */
function named(value: unknown, schemas: Record<string, Schema>): unknown {
  if (Array.isArray(value)) return value.map((item) => named(item, schemas));
  if (typeof value !== "object" || value === null) return value;
  const { title } = value as Schema;
  const inner = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, named(item, schemas)]));
  if (typeof title !== "string" || inner.type !== "object") return inner;
  const before = schemas[title];
  if (before !== undefined && text(before) !== text(inner)) return inner;
  schemas[title] = inner;
  return { $ref: `#/components/schemas/${title}` };
}
const text = (schema: unknown) =>
  JSON.stringify(schema, (_, value) => (typeof value === "bigint" ? `${value}` : value));

// ---- requests

function bodyOf(kind: Kind, title: string): Schema {
  const fields = kind === "chat" ? chatFields : completionFields;
  return bodySchema(title, fields, (name) => parameterOf(kind, name as keyof typeof parameters));
}

// ---- answers

const string = { type: "string" };
const integer = { type: "integer" };
const orNull = (schema: Schema): Schema => ({ anyOf: [schema, { type: "null" }] });
const listOf = (items: Schema): Schema => ({ type: "array", items });
const object = (title: string, properties: Readonly<Record<string, Schema>>, more: Schema = {}): Schema => ({
  type: "object",
  title,
  properties,
  required: Object.keys(properties),
  ...more,
});
const record = { type: "object", additionalProperties: true };

const usage = object("UsageInfo", {
  prompt_tokens: integer,
  total_tokens: integer,
  completion_tokens: integer,
  prompt_tokens_details: orNull(record),
  completion_tokens_details: orNull(record),
});
const ends = { finish_reason: orNull(string), stop_reason: orNull({ anyOf: [string, integer] }) };
const ids = orNull(listOf(integer));
const head = (kind: string) => ({ id: string, object: { const: kind }, created: integer, model: string });
const foot = { system_fingerprint: orNull(string), usage };
const chatAnswer = object("ChatCompletionResponse", {
  ...head("chat.completion"),
  choices: listOf(
    object("ChatCompletionResponseChoice", {
      index: integer,
      message: object("ChatMessage", { role: string, content: orNull(string) }),
      logprobs: orNull(record),
      ...ends,
      token_ids: ids,
    }),
  ),
  ...foot,
  prompt_logprobs: orNull(listOf(orNull(record))),
  prompt_token_ids: ids,
});
const completionAnswer = object("CompletionResponse", {
  ...head("text_completion"),
  choices: listOf(
    object("CompletionResponseChoice", {
      index: integer,
      text: string,
      logprobs: orNull(record),
      ...ends,
      token_ids: ids,
      prompt_logprobs: orNull(listOf(orNull(record))),
      prompt_token_ids: ids,
    }),
  ),
  ...foot,
});
const modelList = object("ModelList", {
  object: { const: "list" },
  data: listOf(
    object("ModelCard", {
      id: string,
      object: { const: "model" },
      created: integer,
      owned_by: string,
      root: orNull(string),
      parent: orNull(string),
      max_model_len: orNull(integer),
      permission: listOf(record),
    }),
  ),
});
const failure = object("ErrorResponse", {
  error: object("ErrorInfo", { message: string, type: string, param: orNull(string), code: integer }),
});
const detail = object("Detail", { detail: string });

const json = (schema: Schema) => ({ "application/json": { schema } });
const answer = (description: string, schema?: Schema): Described =>
  schema === undefined ? { description } : { description, content: json(schema) };
const BODY_ERRORS = {
  "400": answer("The request is wrong: its JSON, a field, or the fields together", { anyOf: [failure, detail] }),
  "404": answer("No such model", failure),
  "413": answer("The body is larger than --max-body-mb: ours, vLLM has no limit", failure),
};
const NO_KEY = { "401": answer("With --api-key: no key, or a wrong one", object("Unauthorized", { error: string })) };
const GENERATION_ERRORS = {
  ...BODY_ERRORS,
  ...NO_KEY,
  "500": answer("The engine gave the request up, or a field has a type that vLLM does not foresee", failure),
  "503": answer("The queue is full, or generation is paused", failure),
};
const withBody = (summary: string, body: Schema, responses: Operation["responses"]): Operation => ({
  summary,
  requestBody: { required: true, content: json(body) },
  responses,
});
const plain = (summary: string, ok: Described, more: Operation["responses"] = {}): Operation => ({
  summary,
  responses: { "200": ok, ...more },
});
const streamed = (schema: Schema): Described => ({
  description: "The answer; with `stream` its events, `data: [DONE]` the last",
  content: { ...json(schema), "text/event-stream": { schema: {} } },
});
const flag = (name: string) => object(`Answer_${name}`, { [name]: { type: "boolean" } });
const status = object("Status", { status: string });

const page: Described = { description: "A page", content: { "text/html": { schema: string } } };
const chatBody = bodyOf("chat", "ChatCompletionRequest");
const completionBody = bodyOf("completions", "CompletionRequest");

const OPERATIONS: Operations = {
  "/v1/chat/completions": withBody("Create a chat completion", chatBody, {
    "200": streamed(chatAnswer),
    ...GENERATION_ERRORS,
  }),
  "/v1/completions": withBody("Create a completion", completionBody, {
    "200": streamed(completionAnswer),
    ...GENERATION_ERRORS,
  }),
  "/v1/chat/completions/batch": withBody(
    "Create a choice for each of several conversations",
    { ...object("BatchChatCompletionRequest", { messages: listOf(listOf(record)) }), additionalProperties: true },
    { "200": answer("The choices, in the order of the conversations", chatAnswer), ...GENERATION_ERRORS },
  ),
  "/invocations": withBody(
    "Create a chat completion or a completion, by what the body has",
    { anyOf: [chatBody, completionBody] },
    { "200": streamed({ anyOf: [chatAnswer, completionAnswer] }), ...GENERATION_ERRORS },
  ),
  "/v1/load_lora_adapter": withBody(
    "Load an adapter",
    object("LoadLoRAAdapterRequest", { lora_name: string, lora_path: string }),
    { "200": answer("Loaded", string), ...BODY_ERRORS, ...NO_KEY },
  ),
  "/v1/unload_lora_adapter": withBody("Unload an adapter", object("UnloadLoRAAdapterRequest", { lora_name: string }), {
    "200": answer("Unloaded", string),
    ...BODY_ERRORS,
    ...NO_KEY,
  }),
  "/tokenize": withBody("From text or messages to token ids", tokenizeBody.schema, {
    "200": answer(
      "The ids",
      object("TokenizeResponse", {
        count: integer,
        max_model_len: integer,
        tokens: listOf(integer),
        token_strs: orNull(listOf(string)),
      }),
    ),
    ...BODY_ERRORS,
  }),
  "/detokenize": withBody("From token ids to text", detokenizeBody.schema, {
    "200": answer("The text", object("DetokenizeResponse", { prompt: string })),
    ...BODY_ERRORS,
  }),
  "/v1/embeddings": withBody("From texts or token ids to vectors", embeddingBody.schema, {
    "200": answer(
      "A vector of each input: numbers, or their bytes in base64",
      object("EmbeddingResponse", {
        id: string,
        object: { const: "list" },
        created: integer,
        model: string,
        data: listOf(
          object("EmbeddingResponseData", {
            index: integer,
            object: { const: "embedding" },
            embedding: { anyOf: [listOf({ type: "number" }), string] },
          }),
        ),
        usage: record,
      }),
    ),
    ...BODY_ERRORS,
    ...NO_KEY,
  }),
  "/v1/models": plain("What is served", answer("The models", modelList), NO_KEY),
  "/health": plain("Does the engine live?", answer("It does"), { "503": answer("It does not") }),
  "/health/ready": plain("As /health, and 503 for the time that starting is to take", answer("It does"), {
    "503": answer("It does not"),
  }),
  "/ping": plain("As /health, and 503 for the time that starting is to take", answer("It does"), {
    "503": answer("It does not"),
  }),
  "/version": plain("The version that is stood in for", answer("It", object("Version", { version: string }))),
  "/load": plain("Requests being served", answer("How many", object("Load", { server_load: integer }))),
  "/kv_event_sources": plain("Where events of the KV cache come from", answer("None", record)),
  "/metrics": plain("Prometheus metrics", {
    description: "The page",
    content: { "text/plain": { schema: string } },
  }),
  "/openapi.json": plain("This document", answer("It", record)),
  "/docs": plain("This document, to read", page),
  "/redoc": plain("As /docs", page),
  "/sleep": plain("Put the engine to sleep", answer("Asleep", status), BODY_ERRORS),
  "/wake_up": plain("Wake the engine", answer("Awake", status), BODY_ERRORS),
  "/is_sleeping": plain("Does the engine sleep?", answer("Whether", flag("is_sleeping"))),
  "/server_info": plain("The server's configuration", answer("It", record), BODY_ERRORS),
  "/pause": plain("Pause generation", answer("Paused", status), BODY_ERRORS),
  "/resume": plain("Resume generation", answer("Resumed", status)),
  "/is_paused": plain("Is generation paused?", answer("Whether", flag("is_paused"))),
  "/reset_prefix_cache": plain("Forget the prefix cache", answer("Done, or not", flag("success")), BODY_ERRORS),
  "/reset_mm_cache": plain("Forget the cache of media", answer("Done")),
  "/reset_encoder_cache": plain("Forget the encoder's cache", answer("Done")),
};
