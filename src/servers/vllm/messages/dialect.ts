/** The routes of Anthropic's Messages API. Source: vLLM 0.33, `entrypoints/anthropic/api_router.py`. */

import { routes } from "../../../wire/http/routes.ts";
import type { Context } from "../../../wire/http/sink.ts";
import type { ApiDialect, DialectHost } from "../../openai/pipeline/dialect.ts";
import type { BodyReader } from "../../openai/pipeline/form.ts";
import type { ChatRequest, Limits } from "../../openai/request/request.ts";
import { type BodyKind, readBodyPieces, readerOf } from "../../pydantic/read-body.ts";
import { RefusedRequest } from "../../pydantic/refusals.ts";
import { anthropicError } from "./errors.ts";
import type { countFields } from "./fields.ts";
import { MessagesForm } from "./form.ts";
import { countKind, messagesKind } from "./read.ts";

/** Returns the API's routes. `showsCache`: the option `--enable-prompt-tokens-details`. */
export function anthropic(showsCache: boolean): ApiDialect {
  return {
    operations: async () => (await import("./operations.ts")).anthropicOperations,
    routes(host: DialectHost) {
      const reader = messagesReader(host, showsCache);
      const kind = countKind(host);
      return routes({
        "POST /v1/messages": (context) => host.answer(context, reader),
        "POST /v1/messages/count_tokens": (context) => count(host, kind, context),
      });
    },
  };
}

/** Returns the reader of `/v1/messages`. */
export function messagesReader(host: DialectHost, showsCache: boolean): BodyReader {
  const formOf = () => new MessagesForm(showsCache);
  return {
    ...readerOf(messagesKind(host), (read) => ("error" in read ? read : { request: read.request, form: formOf() })),
    thread: "message",
    formOf,
  };
}

/** Returns a reader of `/v1/messages/count_tokens`. The form that it returns is never used. */
export function countReader(host: DialectHost): BodyReader {
  const form = new MessagesForm(false);
  return readerOf(countKind(host), (read) => ("error" in read ? read : { request: read.request, form }));
}

async function count(
  host: DialectHost,
  kind: BodyKind<typeof countFields, ChatRequest, Limits>,
  context: Context,
): Promise<Response> {
  const body = await host.body(context);
  if ("status" in body) return host.error(context, body);
  const type = context.request.headers.get("content-type");
  const read = await host.inTurns(readBodyPieces(kind, body, type, host.limits));
  if ("error" in read) return host.error(context, read.error);
  try {
    const tokens = await host.promptTokens(read.request);
    return host.json(context, `{"input_tokens":${tokens},"context_management":{"original_input_tokens":${tokens}}}`);
  } catch (refusal) {
    if (refusal instanceof RefusedRequest) return host.error(context, anthropicError(refusal.answer));
    throw refusal;
  }
}
