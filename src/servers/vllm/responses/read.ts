/** Reads bodies of `/v1/responses`. Large ones are read in the reading thread, unless responses are stored. */

import type { Pieces } from "../../../base/pieces.ts";
import type { ReadingHost } from "../../openai/pipeline/dialect.ts";
import { badRequest } from "../../openai/request/errors.ts";
import type { ChatRequest, Limits } from "../../openai/request/request.ts";
import { type BodyKind, inPieces } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, errorAnswer, refuse } from "../../pydantic/refusals.ts";
import { validator } from "../../pydantic/validate.ts";
import { get, type PlainDict, type PythonDict, truthy } from "../../pydantic/value.ts";
import { inputMessages, type ResponsesValues, responseToChat } from "./convert.ts";
import { applyResponsesRules, responsesFields } from "./fields.ts";
import type { ResponsesHabits } from "./habits.ts";
import { type RepeatedFields, repeatedOf } from "./repeated.ts";
import type { Store } from "./store.ts";

/** A request that was read, with the data that its answer and later responses need. */
export interface ResponseRead {
  readonly request: ChatRequest;
  /** Messages of the request and of earlier responses. They are stored, because a later response may continue from this one. */
  readonly messages: readonly PlainDict[];
  readonly repeated: RepeatedFields;
}

const fields = validator(responsesFields);

/** Returns the way to read bodies of `/v1/responses`. `habits`: differences of a server other than vLLM. */
export function responseKind(
  host: ReadingHost,
  store: Store,
  habits?: ResponsesHabits,
): BodyKind<typeof responsesFields, ResponseRead, Limits> {
  const unknown = habits?.unknown ?? noResponse;

  return {
    validator: habits ? validator(responsesFields, habits.wrong) : fields,
    rules: habits?.rules ?? applyResponsesRules,
    ...inPieces((values, body, _limits, exact) =>
      readResponse(host, { store, unknown }, values as ResponsesValues, body, exact),
    ),
  };
}

/** Makes the request of checked fields, in pieces. Throws `RefusedRequest`. */
function* readResponse(
  host: ReadingHost,
  { store, unknown }: { readonly store: Store; readonly unknown: (id: string) => ErrorAnswer },
  values: ResponsesValues,
  body: PythonDict,
  exact: boolean,
): Pieces<ResponseRead> {
  const { background, previous_response_id: previous, model } = values;
  host.checkModel(model);
  checkAnswerable(values, body);
  if (values.store === true && !store.keeps && background === true) refuse(noBackground);
  if ((values.previous_input_messages ?? []).length > 0 && previous) refuse(twoHistories);
  const stored = previous === null ? null : store.get(previous);
  if (stored === undefined) refuse(unknown(previous!));
  const messages = yield* inputMessages(values, body, stored?.previous ?? null);
  const chat = yield* responseToChat(values, body, messages);
  yield;
  const request = yield* host.chat(chat, exact, {
    maxTokensParam: "max_output_tokens",
    tools: "free",
  });
  return { request, messages, repeated: yield* repeatedOf(values) };
}

/** Refuses null in two fields. vLLM accepts it in the request, but fails to write it into the answer. Throws `RefusedRequest`. */
function checkAnswerable({ background, truncation }: ResponsesValues, body: PythonDict): void {
  const errors = [
    ...(background === null ? [["background", "Input should be a valid boolean", "bool_type"]] : []),
    ...(truncation === null ? [["truncation", "Input should be 'auto' or 'disabled'", "literal_error"]] : []),
  ];
  if (errors.length === 0 || truthy(get(body, "stream"))) return;
  const entries = errors.map(
    ([name, message, type]) =>
      `${name}\n  ${message} [type=${type}, input_value=None, input_type=NoneType]\n    For further information visit https://errors.pydantic.dev/2.14/v/${type}`,
  );
  const count = `${errors.length} validation error${errors.length === 1 ? "" : "s"} for ResponsesResponse`;
  refuse(badRequest([count, ...entries].join("\n")));
}

export const invalid = (message: string, param: string, code: number) =>
  errorAnswer(message, "invalid_request_error", param, code);
export const noResponse = (id: string) => invalid(`Response with id '${id}' not found.`, "response_id", 404);
const noBackground = invalid(
  "This vLLM engine does not support `store=True` and therefore does not support the background mode. To enable these " +
    "features, set the environment variable `VLLM_ENABLE_RESPONSES_API_STORE=1` when launching the vLLM server.",
  "background",
  400,
);
const twoHistories = invalid(
  "Only one of `previous_input_messages` and `previous_response_id` can be set.",
  "previous_response_id",
  400,
);
