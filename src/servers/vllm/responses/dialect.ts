/** The routes of OpenAI's Responses API. Source: vLLM 0.33, `entrypoints/openai/responses/api_router.py` and `serving.py`. */

import { routes } from "../../../wire/http/routes.ts";
import type { Context } from "../../../wire/http/sink.ts";
import { Query } from "../../openai/front/query.ts";
import type { ApiDialect, DialectHost } from "../../openai/pipeline/dialect.ts";
import type { BodyReader } from "../../openai/pipeline/form.ts";
import { validationError } from "../../openai/request/errors.ts";
import type { ChatRequest, GenerationRequest } from "../../openai/request/request.ts";
import { readerOf } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { bool, int } from "../../pydantic/types.ts";
import { ResponsesForm } from "./form.ts";
import type { ResponsesHabits } from "./habits.ts";
import { invalid, noResponse, type ResponseRead, responseKind } from "./read.ts";
import type { RepeatedFields } from "./repeated.ts";
import { EventLog, Store } from "./store.ts";

/** Returns the API's routes. `most`: responses that are stored, or 0. `habits`: differences of a server other than vLLM. */
export function responses(most: number, habits?: ResponsesHabits): ApiDialect {
  const store = new Store(most);
  return {
    operations: async () => (await import("./operations.ts")).responsesOperations,
    routes(host: DialectHost) {
      const reader = responsesReader(host, store, habits);
      return routes({
        "POST /v1/responses": (context) => host.answer(context, reader),
        ...(habits
          ? {
              "GET /v1/responses/:id": (context, { id = "" }) => {
                const stored = store.get(id);
                return stored === undefined
                  ? host.error(context, habits.unknown(id))
                  : host.json(context, stored.body(stored.status));
              },
              "DELETE /v1/responses/:id": (context, { id = "" }) =>
                store.delete(id)
                  ? host.json(context, `{"id":${JSON.stringify(id)},"object":"response","deleted":true}`)
                  : host.error(context, habits.unknown(id)),
            }
          : {
              "GET /v1/responses/:id": (context, { id }) => retrieve(host, store, context, id!),
              "POST /v1/responses/:id/cancel": (context, { id }) => cancel(host, store, context, id!),
            }),
      });
    },
  };
}

/** Returns the reader of `/v1/responses`. It does not use the reading thread if responses are stored: that lacks the store. */
export function responsesReader(host: DialectHost, store: Store, habits?: ResponsesHabits): BodyReader {
  const formOf = (request: ChatRequest, messages: ResponseRead["messages"], repeated: RepeatedFields) => {
    const isBackground = repeated.background && store.keeps && habits === undefined;
    return new ResponsesForm(repeated, request, {
      store,
      messages,
      parses: host.parses,
      habits,
      abort: isBackground ? new AbortController() : null,
      log: isBackground && request.stream ? new EventLog() : null,
    });
  };
  const reader = readerOf(responseKind(host, store, habits), (read): ReturnType<BodyReader["read"]> => {
    if ("error" in read) return read;
    const { request, messages, repeated } = read.request;
    return { request, form: formOf(request, messages, repeated) };
  });
  if (store.keeps) return reader;
  const ofThread = (request: GenerationRequest, repeated: unknown) =>
    formOf(request as ChatRequest, [], repeated as RepeatedFields);
  return { ...reader, thread: "response", formOf: ofThread };
}

const synchronous = invalid("Cannot cancel a synchronous response.", "response_id", 400);

/** Answers with a stored response, or with `?stream=true` with its events, after the one of number `starting_after` if given. */
function retrieve(host: DialectHost, store: Store, context: Context, id: string): Response {
  const query = new Query(context.request.url);
  const after = query.read("starting_after", int(), -1);
  const stream = query.read("stream", bool, false);
  // FastAPI checks the query before the route runs.
  const error = query.wrong();
  if (error !== null) return host.error(context, error);
  const stored = store.get(id);
  if (stored === undefined) return host.error(context, noResponse(id));
  if (!stream) return host.json(context, stored.body(stored.status));
  const log = stored.running?.log;
  if (!log) return host.error(context, unknownStream(id));
  return host.follow(context, log, Math.max(0, Number(after) + 1));
}

const unknownStream = (id: string): ErrorAnswer => validationError(`Unknown response_id: ${id}`, "response_id", id);

function cancel(host: DialectHost, store: Store, context: Context, id: string): Response {
  const stored = store.get(id);
  if (stored === undefined) return host.error(context, noResponse(id));
  if (stored.status !== "queued" && stored.status !== "in_progress") return host.error(context, synchronous);
  stored.status = "cancelled";
  stored.running?.abort.abort();
  return host.json(context, stored.body("cancelled"));
}
