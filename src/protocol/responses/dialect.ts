/** Which routes has `/v1/responses`? Create, get, cancel; vLLM 0.33, `entrypoints/openai/responses/api_router.py` and `serving.py`. */
import { Elysia } from "elysia";
import { randomHex } from "../../random.ts";
import type { Context, Dialect, House } from "../dialect.ts";
import { errorAnswer, Refused, validationError } from "../errors.ts";
import type { Asked, Asker } from "../form.ts";
import type { PythonDict } from "../python-value.ts";
import { type Kind, readBody } from "../read-body.ts";
import type { ErrorAnswer } from "../request.ts";
import { validator } from "../validate.ts";
import { messagesOf, type ResponsesValues, toChatBody } from "./convert.ts";
import { applyResponsesRules, responsesFields } from "./fields.ts";
import { ResponsesForm } from "./form.ts";
import { EventLog, Store } from "./store.ts";

const NO_PARSING = { parse: "none" } as const;

/** `most`: responses that are kept; 0 for none. */
export function responses(most: number): Dialect {
  const store = new Store(most);
  return {
    operations: async () => (await import("./operations.ts")).operations,
    routes(house: House) {
      const kind = kindOf(house, store);
      const asker: Asker = {
        read(body, type, limits) {
          const read = readBody(kind, body, type, limits);
          return "error" in read ? read : read.request;
        },
      };
      return new Elysia({ strictPath: true })
        .post("/v1/responses", ({ request, server }) => house.answer({ request, server }, asker), NO_PARSING)
        .get("/v1/responses/:id", ({ request, server, params }) =>
          retrieve(house, store, { request, server }, params.id),
        )
        .post(
          "/v1/responses/:id/cancel",
          ({ request, server, params }) => cancel(house, store, { request, server }, params.id),
          NO_PARSING,
        );
    },
  };
}

function kindOf(house: House, store: Store): Kind<typeof responsesFields, Asked> {
  return {
    validator: validator(responsesFields),
    rules: applyResponsesRules,
    translate: (given, body, _limits, exact) => asked(house, store, given as ResponsesValues, body, exact),
  };
}

/** Throws `Refused`. */
function asked(house: House, store: Store, values: ResponsesValues, body: PythonDict, exact: boolean): Asked {
  const { background, previous_response_id: previous, model } = values;
  house.checkModel(model);
  if (values.store === true && !store.keeps && background === true) throw new Refused(noBackground);
  if ((values.previous_input_messages ?? []).length > 0 && previous) throw new Refused(twoHistories);
  const kept = previous === null ? null : store.get(previous);
  if (kept === undefined) throw new Refused(notFound(previous!));
  const messages = messagesOf(values, body, kept?.before ?? null);
  const request = house.chat(toChatBody(values, body, messages), exact, { maxTokensParam: "max_output_tokens" });
  const runs = background === true && store.keeps;
  const form = new ResponsesForm(values, request, {
    id: values.request_id ?? `resp_${randomHex(8)}`,
    store,
    messages,
    parses: house.parses,
    abort: runs ? new AbortController() : null,
    log: runs && request.stream ? new EventLog() : null,
  });
  return { request, form };
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
function retrieve(house: House, store: Store, context: Context, id: string): Response {
  const kept = store.get(id);
  if (kept === undefined) return house.error(context, notFound(id));
  const { searchParams: query } = new URL(context.request.url);
  if (!/^(1|t|true|on|y|yes)$/i.test(query.get("stream") ?? "")) return house.json(context, kept.body(kept.status));
  const log = kept.running?.log;
  if (!log) return house.error(context, unknownStream(id));
  const after = Number(query.get("starting_after") ?? -1);
  return house.follow(context, log, Number.isSafeInteger(after) ? Math.max(0, after + 1) : 0);
}

const unknownStream = (id: string): ErrorAnswer => validationError(`Unknown response_id: ${id}`, "response_id", id);

function cancel(house: House, store: Store, context: Context, id: string): Response {
  const kept = store.get(id);
  if (kept === undefined) return house.error(context, notFound(id));
  if (kept.status !== "queued" && kept.status !== "in_progress") return house.error(context, synchronous);
  kept.status = "cancelled";
  kept.running?.abort.abort();
  return house.json(context, kept.body("cancelled"));
}
