/** Describes the routes of Anthropic's Messages API for `/openapi.json`. */
import { answer, bodyInJson, bodySchema, type Operations, streamable, titled } from "../../openai/docs/operations.ts";
import type { Fields } from "../../pydantic/validate.ts";
import { countFields, messagesFields } from "./fields.ts";
import { messagesParameters } from "./parameters.ts";

const text = { type: "string" };
const count = { type: "integer" };
const failure = titled("AnthropicErrorResponse", {
  type: { const: "error" },
  error: titled("AnthropicError", { type: text, message: text }),
});
const ERRORS = {
  "400": answer("The request is invalid; errors of single fields have the form of OpenAI's API", {
    anyOf: [failure, { type: "object", additionalProperties: true }],
  }),
  "404": answer("No such model", failure),
  "500": answer("The engine failed", failure),
  "503": answer("The queue is full, or generation is paused", failure),
};
const body = (title: string, fields: Fields) => bodyInJson(bodySchema(title, fields, messagesParameters));
const message = titled("AnthropicMessagesResponse", {
  id: text,
  type: { const: "message" },
  role: { const: "assistant" },
  content: { type: "array", items: { type: "object", additionalProperties: true } },
  model: text,
  usage: titled("AnthropicUsage", { input_tokens: count, output_tokens: count }),
});

export const anthropicOperations: Operations = {
  "/v1/messages": {
    summary: "Create a message, as Anthropic's API does",
    requestBody: body("AnthropicMessagesRequest", messagesFields),
    responses: {
      "200": streamable("The message; with `stream` its events, which end with `message_stop`", message),
      ...ERRORS,
    },
  },
  "/v1/messages/count_tokens": {
    summary: "Count the tokens of a message's prompt",
    requestBody: body("AnthropicCountTokensRequest", countFields),
    responses: {
      "200": answer("The number of tokens", titled("AnthropicCountTokensResponse", { input_tokens: count })),
      ...ERRORS,
    },
  },
};
