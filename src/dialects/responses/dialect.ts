/** Which routes has `/v1/responses`? Create, get, cancel; vLLM 0.33, `entrypoints/openai/responses/api_router.py` and `serving.py`. */
import { Elysia } from "elysia";
import type { ApiDialect, DialectHost } from "../../answer/dialect.ts";
import type { BodyReader, FormedRequest } from "../../answer/form.ts";
import type { Context } from "../../http/sink.ts";
import { badRequest, errorAnswer, Refused, validationError } from "../../python/errors.ts";
import { atOnce, type Pieces } from "../../python/pieces.ts";
import { type BodyKind, readerOf } from "../../python/read-body.ts";
import type { ErrorAnswer } from "../../python/request.ts";
import { bool, FAIL, int, State, type Type } from "../../python/types.ts";
import { validationErrors, validator } from "../../python/validate.ts";
import { get, type Int, type PythonDict, truthy } from "../../python/value.ts";
import { inputMessages, type ResponsesValues, responseToChat } from "./convert.ts";
import { applyResponsesRules, responsesFields } from "./fields.ts";
import { ResponsesForm } from "./form.ts";
import { toolsJson } from "./items.ts";
import { EventLog, Store } from "./store.ts";

const NO_PARSING = { parse: "none" } as const;

/** `most`: responses that are kept; 0 for none. */
export function responses(most: number): ApiDialect {
  const store = new Store(most);
  return {
    operations: async () => (await import("./operations.ts")).responsesOperations,
    routes(host: DialectHost) {
      const reader = responsesReader(host, store);
      return new Elysia({ strictPath: true })
        .post("/v1/responses", ({ request, server }) => host.answer({ request, server }, reader), NO_PARSING)
        .get("/v1/responses/:id", ({ request, server, params }) =>
          retrieve(host, store, { request, server }, params.id),
        )
        .post(
          "/v1/responses/:id/cancel",
          ({ request, server, params }) => cancel(host, store, { request, server }, params.id),
          NO_PARSING,
        );
    },
  };
}

/** Reads bodies of `/v1/responses`. */
export function responsesReader(host: DialectHost, store: Store): BodyReader {
  return readerOf(kindOf(host, store), (read) => ("error" in read ? read : read.request));
}

function kindOf(host: DialectHost, store: Store): BodyKind<typeof responsesFields, FormedRequest> {
  return {
    validator: validator(responsesFields),
    rules: applyResponsesRules,
    translate: (given, body, _limits, exact) => atOnce(asked(host, store, given as ResponsesValues, body, exact)),
    translatePieces: (given, body, _limits, exact) => asked(host, store, given as ResponsesValues, body, exact),
  };
}

/** Throws `Refused`. */
function* asked(
  host: DialectHost,
  store: Store,
  values: ResponsesValues,
  body: PythonDict,
  exact: boolean,
): Pieces<FormedRequest> {
  const { background, previous_response_id: previous, model } = values;
  host.checkModel(model);
  checkAnswerable(values, body);
  if (values.store === true && !store.keeps && background === true) throw new Refused(noBackground);
  if ((values.previous_input_messages ?? []).length > 0 && previous) throw new Refused(twoHistories);
  const kept = previous === null ? null : store.get(previous);
  if (kept === undefined) throw new Refused(notFound(previous!));
  const messages = inputMessages(values, body, kept?.before ?? null);
  const chat = yield* responseToChat(values, body, messages);
  yield;
  const request = yield* host.chat(chat, exact, {
    maxTokensParam: "max_output_tokens",
    tools: "free",
  });
  const runs = background === true && store.keeps;
  const form = new ResponsesForm(values, request, {
    store,
    messages,
    tools: yield* toolsJson(values),
    parses: host.parses,
    abort: runs ? new AbortController() : null,
    log: runs && request.stream ? new EventLog() : null,
  });
  return { request, form };
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

const invalid = (message: string, param: string, code: number) =>
  errorAnswer(message, "invalid_request_error", param, code);
const notFound = (id: string) => invalid(`Response with id '${id}' not found.`, "response_id", 404);
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
const synchronous = invalid("Cannot cancel a synchronous response.", "response_id", 400);

/** `?stream=true&starting_after=N`: the events of one in the background, from the first or behind the one of that number. */
function retrieve(host: DialectHost, store: Store, context: Context, id: string): Response {
  const query = queryOf(context.request.url);
  if ("error" in query) return host.error(context, query.error);
  const kept = store.get(id);
  if (kept === undefined) return host.error(context, notFound(id));
  if (query.stream !== true) return host.json(context, kept.body(kept.status));
  const log = kept.running?.log;
  if (!log) return host.error(context, unknownStream(id));
  return host.follow(context, log, Math.max(0, Number(query.starting_after ?? -1) + 1));
}

/** FastAPI checks these before the route runs. */
function queryOf(
  url: string,
): { readonly stream: boolean | null; readonly starting_after: Int | null } | { readonly error: ErrorAnswer } {
  const given = new URL(url).searchParams;
  const state = new State(true);
  const read = <V>(name: string, type: Type<V>): V | null => {
    const text = given.get(name);
    if (text === null) return null;
    const before = state.count;
    const value = type.check(text, state);
    state.prefix(before, name);
    return value === FAIL ? null : value;
  };
  const query = { starting_after: read("starting_after", int()), stream: read("stream", bool) };
  if (state.count === 0) return query;
  state.prefix(0, "query");
  return { error: validationErrors(state.errors!, state.count) };
}

const unknownStream = (id: string): ErrorAnswer => validationError(`Unknown response_id: ${id}`, "response_id", id);

function cancel(host: DialectHost, store: Store, context: Context, id: string): Response {
  const kept = store.get(id);
  if (kept === undefined) return host.error(context, notFound(id));
  if (kept.status !== "queued" && kept.status !== "in_progress") return host.error(context, synchronous);
  kept.status = "cancelled";
  kept.running?.abort.abort();
  return host.json(context, kept.body("cancelled"));
}
