/**
 * Types of an API other than OpenAI's (a dialect) and of its host. The dialect has routes, translates its bodies into chats and
 * writes answers. Its host does the rest: admission, prompts, engine, HTTP.
 */
import type { Pieces } from "../../../base/pieces.ts";
import type { RouteEntry } from "../../../wire/http/routes.ts";
import type { Context } from "../../../wire/http/sink.ts";
import type { Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { PythonDict } from "../../pydantic/value.ts";
import type { Operations } from "../docs/operations.ts";
import type { ChatRequest, Limits } from "../request/request.ts";
import type { BodyReader, StoredEvents } from "./form.ts";

/** Differences between a chat that was translated from another API's body and a chat of OpenAI's API. */
export interface ChatChanges {
  /** Name of the limit of output tokens in error messages. */
  readonly maxTokensParam?: "max_output_tokens";
  /**
   * Checks of tools that are left out. `late`: tools against `tool_choice`, because vLLM adds the tools after this check.
   * `free`: also whether `tool_choice` needs a tool parser. Calls in messages then keep their fields as they are.
   */
  readonly tools?: "late" | "free";
}

/** The host's functions for reading bodies, on the main thread or in the reading thread. */
export interface ReadingHost {
  /** Translates a chat's body into a request. `exact`: the exact parser read the body. Throws `RefusedRequest`. */
  chat(body: PythonDict, exact: boolean, changes?: ChatChanges): Pieces<ChatRequest>;
  /** Throws `RefusedRequest` if the server does not have this model. */
  checkModel(model: string | null): void;
  /** Reports whether the chat template allows a system message only as the first message. */
  mergesSystem(): boolean;
  /** Reports whether the chat template has no way to switch reasoning off. */
  thinksAnyway(): boolean;
}

/** The functions of the host on the main thread. */
export interface DialectHost extends ReadingHost {
  readonly limits: Limits;
  /** True if the server has a parser of reasoning or of tool calls. */
  readonly parses: boolean;
  /** Returns the time in Unix seconds. */
  readonly epochSeconds: () => number;
  /** Answers a request and counts it exactly once. */
  answer(context: Context, reader: BodyReader): Response | Promise<Response>;
  /** Reads the body of a request that does not reach the engine. The usual limits of size and time apply. */
  body(context: Context): Promise<Body | ErrorAnswer>;
  /** Runs work in pieces with turns of the event loop between them, and returns its result. */
  inTurns<R>(work: Pieces<R>): Promise<R>;
  /** Returns the number of tokens of a chat's prompt. Rejects with `RefusedRequest`. */
  promptTokens(request: ChatRequest): Promise<number>;
  json(context: Context, body: string): Response;
  /** Answers with a stream of the log's events, beginning at index `from`. */
  follow(context: Context, log: StoredEvents, from: number): Response;
  error(context: Context, error: ErrorAnswer): Response;
}

export interface ApiDialect {
  /** Loads the descriptions of its routes for the OpenAPI document. */
  operations(): Promise<Operations>;
  routes(host: DialectHost): readonly RouteEntry[];
}
