/**
 * What does a dialect that is not OpenAI's bring, and what does it find? It brings paths and reads its bodies into chats, each
 * with the form of its answer; its host gives the rest: admission, prompts, engine, HTTP. Types only.
 */
import type { Pieces } from "../../../base/pieces.ts";
import type { RouteEntry } from "../../../wire/http/routes.ts";
import type { Context } from "../../../wire/http/sink.ts";
import type { Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { PythonDict } from "../../pydantic/value.ts";
import type { Operations } from "../docs/operations.ts";
import type { ChatRequest, Limits } from "../request/request.ts";
import type { BodyReader, Log } from "./form.ts";

/** How a chat that was made of another dialect's body differs from one of OpenAI's. */
export interface ChatChanges {
  /** How the limit of output tokens is called in errors. */
  readonly maxTokensParam?: "max_output_tokens";
  /** Tools are not looked at together with their choice (`late`: they are set after vLLM has checked its chat), nor for a parser (`free`). */
  readonly tools?: "late" | "free";
}

/** What a dialect finds where it reads bodies: on the loop, or in the reading thread. */
export interface ReadingHost {
  /** A chat's body as a request. `exact`: from the exact parser. Throws `Refused`. */
  chat(body: PythonDict, exact: boolean, changes?: ChatChanges): Pieces<ChatRequest>;
  /** Throws `Refused` for a model that is not served. */
  checkModel(model: string | null): void;
  /** The chat template takes words of the system in front alone. */
  mergesSystem(): boolean;
  /** The chat template has no word that switches thinking off. */
  thinksAnyway(): boolean;
}

/** What a dialect finds. */
export interface DialectHost extends ReadingHost {
  readonly limits: Limits;
  /** The server has a parser of reasoning or of tool calls. */
  readonly parses: boolean;
  /** Unix seconds. */
  readonly epochSeconds: () => number;
  /** Answers a request; it is counted once, whatever becomes of it. */
  answer(context: Context, reader: BodyReader): Response | Promise<Response>;
  /** Reads a body that no engine sees; its limits of size and time are those of all bodies. */
  body(context: Context): Promise<Body | ErrorAnswer>;
  /** The result of work in pieces. */
  inTurns<R>(work: Pieces<R>): Promise<R>;
  /** Tokens of a chat's prompt; throws `Refused`. */
  promptTokens(request: ChatRequest): Promise<number>;
  json(context: Context, body: string): Response;
  /** A stream of the log's events, from this one on. */
  follow(context: Context, log: Log, from: number): Response;
  error(context: Context, error: ErrorAnswer): Response;
}

export interface ApiDialect {
  /** What its routes look like to a machine; loaded when somebody asks. */
  operations(): Promise<Operations>;
  routes(host: DialectHost): readonly RouteEntry[];
}
