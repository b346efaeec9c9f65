/**
 * What does a dialect bring, and what does it find? It brings paths and reads its bodies into chats; the OpenAI dialect, which
 * has the way of a chat, gives what stands behind: door, prompts, engine, HTTP. `app.ts` brings them together.
 */
import type { AnyElysia } from "elysia";
import type { Asker } from "./form.ts";
import type { Operations } from "./operations.ts";
import type { Pieces } from "./pieces.ts";
import type { PythonDict } from "./python-value.ts";
import type { ChatRequest, ErrorAnswer, Limits } from "./request.ts";

/** The part of Elysia's context that is used. */
export interface Context {
  readonly request: Request;
  // biome-ignore lint/suspicious/noExplicitAny: it is only handed on
  readonly server: any;
}

/** What a chat made of another dialect's body has besides its fields. */
export interface ChatChanges {
  /** How the limit of output tokens is called in errors. */
  readonly maxTokensParam?: "max_output_tokens";
  /** Tools are not looked at together with their choice (`late`: they are set after vLLM has checked its chat), nor for a parser (`free`). */
  readonly tools?: "late" | "free";
}

/** Events of a stream that is kept. */
export interface Log {
  readonly events: readonly string[];
  readonly ended: boolean;
  /** Calls `more` at each event and at the end, until it is taken back. */
  follow(more: () => void): () => void;
}

/** What dialects find. */
export interface House {
  readonly limits: Limits;
  /** Answers are taken apart: there is a parser of thinking or of calls. */
  readonly parses: boolean;
  /** Unix seconds. */
  readonly epochSeconds: () => number;
  /** A chat's body as a request. `exact`: from the exact parser. Throws `Refused`. */
  chat(body: PythonDict, exact: boolean, changes?: ChatChanges): Pieces<ChatRequest>;
  /** Throws `Refused` for a model that is not served. */
  checkModel(model: string | null): void;
  /** The chat template takes words of the system in front alone. */
  mergesSystem(): boolean;
  /** The chat template has no word that switches thinking off. */
  thinksAnyway(): boolean;
  /** Answers a request; it is counted once, whatever becomes of it. */
  answer(context: Context, asker: Asker): Promise<Response>;
  /** Reads a body that no engine sees; its limits of size and time are those of all bodies. */
  body(context: Context): Promise<Uint8Array | ErrorAnswer>;
  /** The result of work in pieces. */
  inTurns<R>(work: Pieces<R>): Promise<R>;
  /** Tokens of a chat's prompt; throws `Refused`. */
  promptTokens(request: ChatRequest): Promise<number>;
  json(context: Context, body: string): Response;
  /** A stream of the log's events, from this one on. */
  follow(context: Context, log: Log, from: number): Response;
  error(context: Context, error: ErrorAnswer): Response;
}

export interface Dialect {
  /** What its routes look like to a machine; loaded when somebody asks. */
  operations(): Promise<Operations>;
  routes(house: House): AnyElysia;
}
