/** Reads bodies of `/v1/messages` and `/v1/messages/count_tokens`. The reading thread reads large ones of the former. */

import type { Pieces } from "../../../base/pieces.ts";
import type { ReadingHost } from "../../openai/pipeline/dialect.ts";
import { badRequest } from "../../openai/request/errors.ts";
import type { ChatRequest, Limits } from "../../openai/request/request.ts";
import { type BodyKind, inPieces } from "../../pydantic/read-body.ts";
import { RefusedRequest, refuse } from "../../pydantic/refusals.ts";
import { repr } from "../../pydantic/repr.ts";
import { State } from "../../pydantic/types.ts";
import { type Fields, type Validator, type Values, validationErrors, validator } from "../../pydantic/validate.ts";
import { get, type Int, type PlainDict, type PythonDict, truthy } from "../../pydantic/value.ts";
import {
  type CountValues,
  type MessagesValues,
  messagesToChat,
  type TemplateHabits,
  toGenerationBody,
} from "./convert.ts";
import { anthropicError } from "./errors.ts";
import { countFields, messagesFields } from "./fields.ts";

const messages = validator(messagesFields);
const counts = validator(countFields);

/** Returns the way to read bodies of `/v1/messages`. */
export function messagesKind(host: ReadingHost): BodyKind<typeof messagesFields, ChatRequest, Limits> {
  return kind(messages, function* (checked, body, exact) {
    const values = checked as MessagesValues;
    checkBudget(values, body);
    return yield* withAnthropicErrors(function* () {
      return yield* chatOf(host, yield* toGenerationBody(values, body, templateOf(host)), exact);
    });
  });
}

/** Returns the way to read bodies of `/v1/messages/count_tokens`. */
export function countKind(host: ReadingHost): BodyKind<typeof countFields, ChatRequest, Limits> {
  return kind(counts, (values, body, exact) =>
    withAnthropicErrors(function* () {
      return yield* chatOf(host, yield* messagesToChat(values as CountValues, body, templateOf(host)), exact);
    }),
  );
}

function templateOf(host: ReadingHost): TemplateHabits {
  return { mergesSystem: host.mergesSystem(), thinksAnyway: host.thinksAnyway() };
}

/** Makes the request of a chat's body. Throws `RefusedRequest` if the tool that is to be called is not in the list. */
function* chatOf(host: ReadingHost, chat: PlainDict, exact: boolean): Pieces<ChatRequest> {
  yield;
  const request = yield* host.chat(chat, exact, { tools: "late" });
  const { toolChoice: choice, tools } = request;
  if (typeof choice !== "object" || choice === null) return request;
  const nameOf = (tool: unknown) => (tool as { readonly function: { readonly name: string } }).function.name;
  if (tools?.some((tool) => nameOf(tool) === choice.name)) return request;
  refuse(badRequest(`The tool with name ${repr(choice.name)} is not found in the tools list.`));
}

function kind<F extends Fields, R>(
  fields: Validator<F>,
  make: (values: Values<F>, body: PythonDict, exact: boolean) => Pieces<R>,
): BodyKind<F, R, Limits> {
  return {
    validator: fields,
    rules: () => {},
    ...inPieces((values: Values<F>, body, _limits, exact) => make(values, body, exact)),
  };
}

/** Converts errors of `make` to Anthropic's form. Errors of the body's own fields keep OpenAI's form, as in vLLM. */
function* withAnthropicErrors<R>(make: () => Pieces<R>): Pieces<R> {
  try {
    return yield* make();
  } catch (refusal) {
    throw refusal instanceof RefusedRequest ? new RefusedRequest(anthropicError(refusal.answer)) : refusal;
  }
}

/** Refuses a thinking budget that is not below `max_tokens`. This is the last validator of vLLM's model. Throws `RefusedRequest`. */
function checkBudget(
  { thinking, max_tokens: most, kv_transfer_params: transfer }: MessagesValues,
  body: PythonDict,
): void {
  const budget = thinking?.get("budget_tokens");
  if (budget === undefined || (budget as Int) < most) return;
  if (transfer !== null && truthy(get(transfer, "do_remote_decode"))) return;
  const state = new State(true);
  state.raise("thinking.budget_tokens must be less than max_tokens", body);
  state.prefix(0, "body");
  refuse(validationErrors(state.errors!));
}
