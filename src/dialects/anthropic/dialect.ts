/** Which routes does Anthropic's dialect have? `/v1/messages` and what counts their tokens; vLLM 0.33, `entrypoints/anthropic/api_router.py`. */
import type { ApiDialect, DialectHost } from "../../answer/dialect.ts";
import type { BodyReader, FormedRequest } from "../../answer/form.ts";
import { routes } from "../../http/routes.ts";
import type { Context } from "../../http/sink.ts";
import { badRequest, Refused } from "../../python/errors.ts";
import { atOnce, type Pieces } from "../../python/pieces.ts";
import { type BodyKind, readBodyPieces, readerOf } from "../../python/read-body.ts";
import { repr } from "../../python/repr.ts";
import type { ChatRequest } from "../../python/request.ts";
import { State } from "../../python/types.ts";
import { type Fields, type Values, validationErrors, validator } from "../../python/validate.ts";
import { get, type Int, type PlainDict, type PythonDict, truthy } from "../../python/value.ts";
import {
  type CountValues,
  type MessagesValues,
  messagesToChat,
  type TemplateHabits,
  toGenerationBody,
} from "./convert.ts";
import { inForm } from "./errors.ts";
import { countFields, messagesFields } from "./fields.ts";
import { MessagesForm } from "./form.ts";

/** `showsCache`: `--enable-prompt-tokens-details`. */
export function anthropic(showsCache: boolean): ApiDialect {
  return {
    operations: async () => (await import("./operations.ts")).anthropicOperations,
    routes(host: DialectHost) {
      const reader = messagesReader(host, showsCache);
      const counted = countKind(host);
      return routes({
        "POST /v1/messages": (context) => host.answer(context, reader),
        "POST /v1/messages/count_tokens": (context) => count(host, counted, context),
      });
    },
  };
}

/** Reads bodies of `/v1/messages`. */
export function messagesReader(host: DialectHost, showsCache: boolean): BodyReader {
  return readerOf(messagesKind(host, showsCache), (read) => ("error" in read ? read : read.request));
}

/** Reads those of `count_tokens`, as if there were an answer. */
export function countReader(host: DialectHost): BodyReader {
  const form = new MessagesForm(false);
  return readerOf(countKind(host), (read) => ("error" in read ? read : { request: read.request, form }));
}

function messagesKind(host: DialectHost, showsCache: boolean): BodyKind<typeof messagesFields, FormedRequest> {
  return kind(messagesFields, function* (given, body, exact) {
    const values = given as MessagesValues;
    checkBudget(values, body);
    const request = yield* inOwnForm(function* () {
      return yield* chatOf(host, yield* toGenerationBody(values, body, templateOf(host)), exact);
    });
    return { request, form: new MessagesForm(showsCache) };
  });
}

function countKind(host: DialectHost): BodyKind<typeof countFields, ChatRequest> {
  return kind(countFields, (values, body, exact) =>
    inOwnForm(function* () {
      return yield* chatOf(host, yield* messagesToChat(values as CountValues, body, templateOf(host)), exact);
    }),
  );
}

function templateOf(host: DialectHost): TemplateHabits {
  return { mergesSystem: host.mergesSystem(), thinksAnyway: host.thinksAnyway() };
}

function* chatOf(host: DialectHost, chat: PlainDict, exact: boolean): Pieces<ChatRequest> {
  yield;
  const request = yield* host.chat(chat, exact, { tools: "late" });
  const { toolChoice: choice, tools } = request;
  if (typeof choice !== "object" || choice === null) return request;
  const named = (tool: unknown) => (tool as { readonly function: { readonly name: string } }).function.name;
  if (tools?.some((tool) => named(tool) === choice.name)) return request;
  throw new Refused(badRequest(`The tool with name ${repr(choice.name)} is not found in the tools list.`));
}

function kind<F extends Fields, R>(
  fields: F,
  made: (values: Values<F>, body: PythonDict, exact: boolean) => Pieces<R>,
): BodyKind<F, R> {
  return {
    validator: validator(fields),
    rules: () => {},
    translate: (values, body, _limits, exact) => atOnce(made(values, body, exact)),
    translatePieces: (values, body, _limits, exact) => made(values, body, exact),
  };
}

/** What is refused while a chat is made of a body has this dialect's form; errors of the body itself have OpenAI's. */
function* inOwnForm<R>(made: () => Pieces<R>): Pieces<R> {
  try {
    return yield* made();
  } catch (refusal) {
    throw refusal instanceof Refused ? new Refused(inForm(refusal.answer)) : refusal;
  }
}

/** The model's last validator: it sees all fields. */
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
  throw new Refused(validationErrors(state.errors!));
}

async function count(
  host: DialectHost,
  counted: BodyKind<typeof countFields, ChatRequest>,
  context: Context,
): Promise<Response> {
  const body = await host.body(context);
  if ("status" in body) return host.error(context, body);
  const type = context.request.headers.get("content-type");
  const read = await host.inTurns(readBodyPieces(counted, body, type, host.limits));
  if ("error" in read) return host.error(context, read.error);
  try {
    const tokens = await host.promptTokens(read.request);
    return host.json(context, `{"input_tokens":${tokens},"context_management":{"original_input_tokens":${tokens}}}`);
  } catch (refusal) {
    if (refusal instanceof Refused) return host.error(context, inForm(refusal.answer));
    throw refusal;
  }
}
