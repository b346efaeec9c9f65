/** Describes the routes of OpenAI's Responses API for `/openapi.json`. */
import { answer, bodyInJson, bodySchema, type Operations, streamable, titled } from "../../openai/docs/operations.ts";
import { responsesFields } from "./fields.ts";
import { responsesParameters } from "./parameters.ts";

const text = { type: "string" };
const record = { type: "object", additionalProperties: true };
const response = titled("ResponsesResponse", {
  id: text,
  created_at: { type: "integer" },
  model: text,
  object: { const: "response" },
  output: { type: "array", items: record },
  status: text,
  usage: { anyOf: [record, { type: "null" }] },
});
const NOT_FOUND = { "404": answer("No such response, or model", record) };
const id = { name: "response_id", in: "path", required: true, schema: text };

export const responsesOperations: Operations = {
  "/v1/responses": {
    summary: "Create a response",
    requestBody: bodyInJson(bodySchema("ResponsesRequest", responsesFields, responsesParameters)),
    responses: {
      "200": streamable(
        "The response; with `stream` its events, which end with `response.completed` or `response.incomplete`",
        response,
      ),
      "400": answer("The request is invalid", record),
      ...NOT_FOUND,
      "500": answer("The engine failed", record),
      "503": answer("The queue is full, or generation is paused", record),
    },
  },
  "/v1/responses/{response_id}": {
    summary: "Get a stored response; with `stream` the events of a background response",
    parameters: [id],
    responses: { "200": streamable("The response", response), ...NOT_FOUND },
  },
  "/v1/responses/{response_id}/cancel": {
    summary: "Cancel a background response",
    parameters: [id],
    responses: {
      "200": answer("The cancelled response", response),
      "400": answer("The response is not in the background, or has ended", record),
      ...NOT_FOUND,
    },
  },
};
