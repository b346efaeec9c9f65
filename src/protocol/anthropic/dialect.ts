/** Which routes does Anthropic's dialect have? `/v1/messages` and what counts their tokens; vLLM 0.33, `entrypoints/anthropic/api_router.py`. */
import { Elysia } from "elysia";
import { randomHex } from "../../random.ts";
import type { Context, Dialect, House } from "../dialect.ts";
import { badRequest, Refused } from "../errors.ts";
import type { Asked, Asker } from "../form.ts";
import { atOnce, type Pieces } from "../pieces.ts";
import { repr } from "../python-repr.ts";
import { get, type Int, type PlainDict, type PythonDict, truthy } from "../python-value.ts";
import { type Kind, type Read, readBody, readBodyPieces } from "../read-body.ts";
import type { ChatRequest } from "../request.ts";
import { State } from "../types.ts";
import { type Fields, type Values, validationErrors, validator } from "../validate.ts";
import { type CountValues, type MessagesValues, type TemplateHabits, toChatBody, toGenerationBody } from "./convert.ts";
import { inForm } from "./errors.ts";
import { countFields, messagesFields } from "./fields.ts";
import { MessagesForm } from "./form.ts";

const NO_PARSING = { parse: "none" } as const;

/** `showsCache`: `--enable-prompt-tokens-details`. */
export function anthropic(showsCache: boolean): Dialect {
  return {
    operations: async () => (await import("./operations.ts")).operations,
    routes(house: House) {
      const asker = messagesAsker(house, showsCache);
      const counted = countKind(house);
      return new Elysia({ strictPath: true })
        .post("/v1/messages", ({ request, server }) => house.answer({ request, server }, asker), NO_PARSING)
        .post(
          "/v1/messages/count_tokens",
          ({ request, server }) => count(house, counted, { request, server }),
          NO_PARSING,
        );
    },
  };
}

/** Reads bodies of `/v1/messages`. */
export function messagesAsker(house: House, showsCache: boolean): Asker {
  const kind = messagesKind(house, showsCache);
  return {
    read: (body, type, limits) => asked(readBody(kind, body, type, limits)),
    *pieces(body, type, limits) {
      return asked(yield* readBodyPieces(kind, body, type, limits));
    },
  };
}

/** Reads those of `count_tokens`, as if there were an answer. */
export function countAsker(house: House): Asker {
  const kind = countKind(house);
  const form = new MessagesForm("", false);
  const made = (read: Read<ChatRequest>) => ("error" in read ? read : { request: read.request, form });
  return {
    read: (body, type, limits) => made(readBody(kind, body, type, limits)),
    *pieces(body, type, limits) {
      return made(yield* readBodyPieces(kind, body, type, limits));
    },
  };
}

function messagesKind(house: House, showsCache: boolean): Kind<typeof messagesFields, Asked> {
  return kind(messagesFields, function* (given, body, exact) {
    const values = given as MessagesValues;
    checkBudget(values, body);
    const request = yield* inOwnForm(function* () {
      return yield* chatOf(house, yield* toGenerationBody(values, body, templateOf(house)), exact);
    });
    return { request, form: new MessagesForm(randomHex(8), showsCache) };
  });
}

function countKind(house: House): Kind<typeof countFields, ChatRequest> {
  return kind(countFields, (values, body, exact) =>
    inOwnForm(function* () {
      return yield* chatOf(house, yield* toChatBody(values as CountValues, body, templateOf(house)), exact);
    }),
  );
}

function templateOf(house: House): TemplateHabits {
  return { mergesSystem: house.mergesSystem(), thinksAnyway: house.thinksAnyway() };
}

function* chatOf(house: House, chat: PlainDict, exact: boolean): Pieces<ChatRequest> {
  yield;
  const request = yield* house.chat(chat, exact, { tools: "late" });
  const { toolChoice: choice, tools } = request;
  if (typeof choice !== "object" || choice === null) return request;
  const named = (tool: unknown) => (tool as { readonly function: { readonly name: string } }).function.name;
  if (tools?.some((tool) => named(tool) === choice.name)) return request;
  throw new Refused(badRequest(`The tool with name ${repr(choice.name)} is not found in the tools list.`));
}

function kind<F extends Fields, R>(
  fields: F,
  made: (values: Values<F>, body: PythonDict, exact: boolean) => Pieces<R>,
): Kind<F, R> {
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

function asked(read: Read<Asked>): ReturnType<Asker["read"]> {
  return "error" in read ? read : read.request;
}

async function count(
  house: House,
  counted: Kind<typeof countFields, ChatRequest>,
  context: Context,
): Promise<Response> {
  const body = await house.body(context);
  if ("status" in body) return house.error(context, body);
  const type = context.request.headers.get("content-type");
  const read = await house.inTurns(readBodyPieces(counted, body, type, house.limits));
  if ("error" in read) return house.error(context, read.error);
  try {
    const tokens = await house.promptTokens(read.request);
    return house.json(context, `{"input_tokens":${tokens},"context_management":{"original_input_tokens":${tokens}}}`);
  } catch (refusal) {
    if (refusal instanceof Refused) return house.error(context, inForm(refusal.answer));
    throw refusal;
  }
}
