/** How is a body of `/v1/responses` read? On the loop, or in the reading thread, which knows no response that is kept. */

import { atOnce, type Pieces } from "../../../base/pieces.ts";
import type { ReadingHost } from "../../openai/pipeline/dialect.ts";
import { badRequest } from "../../openai/request/errors.ts";
import type { ChatRequest, Limits } from "../../openai/request/request.ts";
import type { BodyKind } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, errorAnswer, Refused } from "../../pydantic/refusals.ts";
import { validator } from "../../pydantic/validate.ts";
import { get, type PlainDict, type PythonDict, truthy } from "../../pydantic/value.ts";
import { inputMessages, type ResponsesValues, responseToChat } from "./convert.ts";
import { applyResponsesRules, responsesFields } from "./fields.ts";
import type { ResponsesHabits } from "./habits.ts";
import { type RepeatedFields, repeatedOf } from "./repeated.ts";
import type { Store } from "./store.ts";

/** A request, the conversation that a later response goes on from, and what the form of its answer needs. */
export interface ResponseRead {
  readonly request: ChatRequest;
  readonly messages: readonly PlainDict[];
  readonly repeated: RepeatedFields;
}

const fields = validator(responsesFields);

/** `habits`: of a server that is not vLLM's. */
export function responseKind(
  host: ReadingHost,
  store: Store,
  habits?: ResponsesHabits,
): BodyKind<typeof responsesFields, ResponseRead, Limits> {
  const unknown = habits?.unknown ?? noResponse;

  return {
    validator: habits ? validator(responsesFields, habits.wrong) : fields,
    rules: habits?.rules ?? applyResponsesRules,
    translate: (given, body, _limits, exact) =>
      atOnce(asked(host, { store, unknown }, given as ResponsesValues, body, exact)),
    translatePieces: (given, body, _limits, exact) =>
      asked(host, { store, unknown }, given as ResponsesValues, body, exact),
  };
}

/** Throws `Refused`. */
function* asked(
  host: ReadingHost,
  { store, unknown }: { readonly store: Store; readonly unknown: (id: string) => ErrorAnswer },
  values: ResponsesValues,
  body: PythonDict,
  exact: boolean,
): Pieces<ResponseRead> {
  const { background, previous_response_id: previous, model } = values;
  host.checkModel(model);
  checkAnswerable(values, body);
  if (values.store === true && !store.keeps && background === true) throw new Refused(noBackground);
  if ((values.previous_input_messages ?? []).length > 0 && previous) throw new Refused(twoHistories);
  const kept = previous === null ? null : store.get(previous);
  if (kept === undefined) throw new Refused(unknown(previous!));
  const messages = yield* inputMessages(values, body, kept?.before ?? null);
  const chat = yield* responseToChat(values, body, messages);
  yield;
  const request = yield* host.chat(chat, exact, {
    maxTokensParam: "max_output_tokens",
    tools: "free",
  });
  return { request, messages, repeated: yield* repeatedOf(values) };
}

/** vLLM takes these, and finds that its answer cannot hold them. */
function checkAnswerable({ background, truncation }: ResponsesValues, body: PythonDict): void {
  const wrong = [
    ...(background === null ? [["background", "Input should be a valid boolean", "bool_type"]] : []),
    ...(truncation === null ? [["truncation", "Input should be 'auto' or 'disabled'", "literal_error"]] : []),
  ];
  if (wrong.length === 0 || truthy(get(body, "stream"))) return;
  const entries = wrong.map(
    ([name, message, type]) =>
      `${name}\n  ${message} [type=${type}, input_value=None, input_type=NoneType]\n    For further information visit https://errors.pydantic.dev/2.14/v/${type}`,
  );
  const count = `${wrong.length} validation error${wrong.length === 1 ? "" : "s"} for ResponsesResponse`;
  throw new Refused(badRequest([count, ...entries].join("\n")));
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
