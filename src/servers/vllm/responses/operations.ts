/** What do the routes of `/v1/responses` look like to a machine? */
import {
  answer,
  asJson,
  bodySchema,
  type Operations,
  type ResponseObject,
  titled,
} from "../../openai/docs/operations.ts";
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
const streamed = (description: string): ResponseObject => ({
  description,
  content: { ...asJson(response), "text/event-stream": { schema: {} } },
});

export const responsesOperations: Operations = {
  "/v1/responses": {
    summary: "Create a response",
    requestBody: {
      required: true,
      content: asJson(
        bodySchema(
          "ResponsesRequest",
          responsesFields,
          (name) => responsesParameters[name as keyof typeof responsesParameters],
        ),
      ),
    },
    responses: {
      "200": streamed("The response; with `stream` its events, `response.completed` or `response.incomplete` the last"),
      "400": answer("The request is wrong", record),
      ...NOT_FOUND,
      "500": answer("The engine gave the request up", record),
      "503": answer("The queue is full, or generation is paused", record),
    },
  },
  "/v1/responses/{response_id}": {
    summary: "A response that is kept; with `stream` the events of one in the background",
    parameters: [id],
    responses: { "200": streamed("The response"), ...NOT_FOUND },
  },
  "/v1/responses/{response_id}/cancel": {
    summary: "End a response in the background",
    parameters: [id],
    responses: {
      "200": answer("It, cancelled", response),
      "400": answer("It was not in the background, or has ended", record),
      ...NOT_FOUND,
    },
  },
};
