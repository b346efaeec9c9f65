/** Which routes has `/v1/responses`? Create, get, cancel; vLLM 0.33, `entrypoints/openai/responses/api_router.py` and `serving.py`. */
import type { ApiDialect, DialectHost } from "../../answer/dialect.ts";
import type { BodyReader, FormedRequest } from "../../answer/form.ts";
import { Query } from "../../front/query.ts";
import { routes } from "../../http/routes.ts";
import type { Context } from "../../http/sink.ts";
import { badRequest, errorAnswer, Refused, validationError } from "../../python/errors.ts";
import { atOnce, type Pieces } from "../../python/pieces.ts";
import { type BodyKind, readerOf } from "../../python/read-body.ts";
import type { ErrorAnswer } from "../../python/request.ts";
import { bool, int } from "../../python/types.ts";
import { validator } from "../../python/validate.ts";
import { get, type PythonDict, truthy } from "../../python/value.ts";
import { inputMessages, type ResponsesValues, responseToChat } from "./convert.ts";
import { applyResponsesRules, responsesFields } from "./fields.ts";
import { ResponsesForm } from "./form.ts";
import { toolsJson } from "./items.ts";
import { EventLog, Store } from "./store.ts";

/** `most`: responses that are kept; 0 for none. `unknown`: responses may be deleted, and what is said of one that is not kept. */
export function responses(most: number, unknown?: (id: string) => ErrorAnswer): ApiDialect {
  const store = new Store(most);
  return {
    operations: async () => (await import("./operations.ts")).responsesOperations,
    routes(host: DialectHost) {
      const reader = responsesReader(host, store);
      return routes({
        "POST /v1/responses": (context) => host.answer(context, reader),
        "GET /v1/responses/:id": (context, { id }) => retrieve(host, store, context, id!),
        ...(unknown
          ? {
              "DELETE /v1/responses/:id": (context, { id = "" }) =>
                store.delete(id)
                  ? host.json(context, `{"id":${JSON.stringify(id)},"object":"response","deleted":true}`)
                  : host.error(context, unknown(id)),
            }
          : { "POST /v1/responses/:id/cancel": (context, { id }) => cancel(host, store, context, id!) }),
      });
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
  const query = new Query(context.request.url);
  const after = query.read("starting_after", int(), -1);
  const stream = query.read("stream", bool, false);
  // FastAPI looks at them before the route runs.
  const wrong = query.wrong();
  if (wrong !== null) return host.error(context, wrong);
  const kept = store.get(id);
  if (kept === undefined) return host.error(context, notFound(id));
  if (!stream) return host.json(context, kept.body(kept.status));
  const log = kept.running?.log;
  if (!log) return host.error(context, unknownStream(id));
  return host.follow(context, log, Math.max(0, Number(after) + 1));
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
