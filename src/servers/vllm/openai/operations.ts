/** Describes the routes of OpenAI's API, and vLLM's additional routes, for `/openapi.json`. */
import {
  answer,
  bodyInJson,
  bodySchema,
  type Operation,
  type Operations,
  type ResponseObject,
  streamable,
  titled,
} from "../../openai/docs/operations.ts";
import type { JsonSchema } from "../../pydantic/types.ts";
import { embeddingBody } from "./embeddings.ts";
import { chatFields, completionFields } from "./fields.ts";
import { type ChatKind, type openaiParameters, parameterOf } from "./parameters.ts";
import { tokenizeBody } from "./tokenize-body.ts";
import { detokenizeBody } from "./tokens.ts";

function bodyOf(kind: ChatKind, title: string): JsonSchema {
  const fields = kind === "chat" ? chatFields : completionFields;
  const names = Object.keys(fields) as (keyof typeof openaiParameters)[];
  return bodySchema(title, fields, Object.fromEntries(names.map((name) => [name, parameterOf(kind, name)])));
}

// ---- answers

const string = { type: "string" };
const integer = { type: "integer" };
const orNull = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: "null" }] });
const listOf = (items: JsonSchema): JsonSchema => ({ type: "array", items });
const record = { type: "object", additionalProperties: true };

const usage = titled("UsageInfo", {
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
const chatAnswer = titled("ChatCompletionResponse", {
  ...head("chat.completion"),
  choices: listOf(
    titled("ChatCompletionResponseChoice", {
      index: integer,
      message: titled("ChatMessage", { role: string, content: orNull(string) }),
      logprobs: orNull(record),
      ...ends,
      token_ids: ids,
    }),
  ),
  ...foot,
  prompt_logprobs: orNull(listOf(orNull(record))),
  prompt_token_ids: ids,
});
const completionAnswer = titled("CompletionResponse", {
  ...head("text_completion"),
  choices: listOf(
    titled("CompletionResponseChoice", {
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
const modelList = titled("ModelList", {
  object: { const: "list" },
  data: listOf(
    titled("ModelCard", {
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
const failure = titled("ErrorResponse", {
  error: titled("ErrorInfo", { message: string, type: string, param: orNull(string), code: integer }),
});
const detail = titled("Detail", { detail: string });

const BODY_ERRORS = {
  "400": answer("The request is invalid: its JSON, a field, or a combination of fields", { anyOf: [failure, detail] }),
  "404": answer("No such model", failure),
  "413": answer("The body is larger than --max-body-mb; vLLM has no such limit", failure),
};
const NO_KEY = {
  "401": answer("With --api-key: no key, or an invalid one", titled("Unauthorized", { error: string })),
};
const GENERATION_ERRORS = {
  ...BODY_ERRORS,
  ...NO_KEY,
  "500": answer("The engine failed, or a field has a type that vLLM does not handle", failure),
  "503": answer("The queue is full, or generation is paused", failure),
};
const withBody = (summary: string, body: JsonSchema, responses: Operation["responses"]): Operation => ({
  summary,
  requestBody: bodyInJson(body),
  responses,
});
const plain = (summary: string, ok: ResponseObject, more: Operation["responses"] = {}): Operation => ({
  summary,
  responses: { "200": ok, ...more },
});
const streamed = (schema: JsonSchema) =>
  streamable("The answer; with `stream` its events, which end with `data: [DONE]`", schema);
const flag = (name: string) => titled(`Answer_${name}`, { [name]: { type: "boolean" } });
const status = titled("Status", { status: string });

const page: ResponseObject = { description: "A page", content: { "text/html": { schema: string } } };
const chatBody = bodyOf("chat", "ChatCompletionRequest");
const completionBody = bodyOf("completions", "CompletionRequest");

export const openaiOperations: Operations = {
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
    { ...titled("BatchChatCompletionRequest", { messages: listOf(listOf(record)) }), additionalProperties: true },
    { "200": answer("The choices, in the order of the conversations", chatAnswer), ...GENERATION_ERRORS },
  ),
  "/invocations": withBody(
    "Create a chat completion or a completion, depending on the body",
    { anyOf: [chatBody, completionBody] },
    { "200": streamed({ anyOf: [chatAnswer, completionAnswer] }), ...GENERATION_ERRORS },
  ),
  "/v1/load_lora_adapter": withBody(
    "Load an adapter",
    titled("LoadLoRAAdapterRequest", { lora_name: string, lora_path: string }),
    { "200": answer("Loaded", string), ...BODY_ERRORS, ...NO_KEY },
  ),
  "/v1/unload_lora_adapter": withBody("Unload an adapter", titled("UnloadLoRAAdapterRequest", { lora_name: string }), {
    "200": answer("Unloaded", string),
    ...BODY_ERRORS,
    ...NO_KEY,
  }),
  "/tokenize": withBody("Convert a text or messages to token ids", tokenizeBody.schema, {
    "200": answer(
      "The ids",
      titled("TokenizeResponse", {
        count: integer,
        max_model_len: integer,
        tokens: listOf(integer),
        token_strs: orNull(listOf(string)),
      }),
    ),
    ...BODY_ERRORS,
  }),
  "/detokenize": withBody("Convert token ids to text", detokenizeBody.schema, {
    "200": answer("The text", titled("DetokenizeResponse", { prompt: string })),
    ...BODY_ERRORS,
  }),
  "/v1/embeddings": withBody("Create vectors of texts or token ids", embeddingBody.schema, {
    "200": answer(
      "A vector per input, as numbers or as base64 of their bytes",
      titled("EmbeddingResponse", {
        id: string,
        object: { const: "list" },
        created: integer,
        model: string,
        data: listOf(
          titled("EmbeddingResponseData", {
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
  "/v1/models": plain("List the models", answer("The models", modelList), NO_KEY),
  "/health": plain("Check that the engine is alive", answer("It is alive"), { "503": answer("It is dead") }),
  "/health/ready": plain("As /health, with 503 during the simulated start", answer("It is ready"), {
    "503": answer("It is not ready"),
  }),
  "/ping": plain("As /health, with 503 during the simulated start", answer("It is ready"), {
    "503": answer("It is not ready"),
  }),
  "/version": plain("Version of vLLM that is simulated", answer("The version", titled("Version", { version: string }))),
  "/load": plain("Count the requests in progress", answer("Their number", titled("Load", { server_load: integer }))),
  "/kv_event_sources": plain("List the sources of KV cache events", answer("No sources", record)),
  "/metrics": plain("Prometheus metrics", {
    description: "The page",
    content: { "text/plain": { schema: string } },
  }),
  "/openapi.json": plain("This document", answer("The document", record)),
  "/docs": plain("This document as a page", page),
  "/redoc": plain("As /docs", page),
  "/sleep": plain("Put the engine to sleep", answer("Asleep", status), BODY_ERRORS),
  "/wake_up": plain("Wake the engine", answer("Awake", status), BODY_ERRORS),
  "/is_sleeping": plain("Check whether the engine sleeps", answer("True if it sleeps", flag("is_sleeping"))),
  "/server_info": plain("The server's configuration", answer("The configuration", record), BODY_ERRORS),
  "/pause": plain("Pause generation", answer("Paused", status), BODY_ERRORS),
  "/resume": plain("Resume generation", answer("Resumed", status)),
  "/is_paused": plain("Check whether generation is paused", answer("True if it is paused", flag("is_paused"))),
  "/reset_prefix_cache": plain(
    "Clear the prefix cache",
    answer("True if it was cleared", flag("success")),
    BODY_ERRORS,
  ),
  "/reset_mm_cache": plain("Clear the cache of media", answer("Done")),
  "/reset_encoder_cache": plain("Clear the encoder's cache", answer("Done")),
};
