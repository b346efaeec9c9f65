/**
 * How does a dialect write an answer that runs the way of a chat? A form is made for each request and told, in order, how
 * the answer goes; it gives the events of a stream, or the whole body. Types only.
 */
import type { Log } from "./dialect.ts";
import type { Delta, Message } from "./output.ts";
import type { Pieces } from "./pieces.ts";
import type { ChatRequest, ErrorAnswer, Limits } from "./request.ts";
import type { EventSink } from "./sink.ts";

/** What is known when the engine gets the request. */
export interface About {
  readonly id: string;
  readonly model: string;
  /** Unix seconds. */
  readonly created: number;
  readonly promptTokens: number;
  /** Most output tokens. */
  readonly maxTokens: number;
}

/** How it ended. */
export interface Ending {
  readonly finish: "stop" | "length" | "abort" | "error" | "repetition";
  /** The stop string, the id of a stop token; null: neither. */
  readonly stop: string | number | null;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** null: there is no reasoning parser. */
  readonly reasoningTokens: number | null;
  /** Of the prompt: read from the cache, and written to it. */
  readonly cachedTokens: number;
  readonly createdTokens: number;
  /** JSON of the request's own times; null: not wanted. */
  readonly times: string | null;
}

/** Log probabilities of a piece's tokens as chat has them: JSON of `{"content": […]}`; null: none asked for. */
export type PieceLogprobs = string | null;

/** An answer that goes on by itself, after the request was answered. */
export interface Background {
  /** Aborted: it is to end. */
  readonly signal: AbortSignal;
  /** Takes the events of a stream; null: there is none. */
  readonly log: (EventSink & Log) | null;
  /** Body of the answer to the request; with a `log` that is the stream of its events. */
  queued(): string;
  /** It came to nothing. */
  failed(): void;
}

export interface Form {
  /** null or absent: who asks waits for the answer. */
  readonly background?: Background | null;
  /** The id of the request with this `X-Request-Id`. */
  id(header: string | null): string;
  /** The engine got it; the events that leave at once. */
  accepted(about: About): readonly string[];
  /** Its first output is there; events in front of it. */
  began(): readonly string[];
  /** Events of what an output added. */
  piece(delta: Delta, logprobs: PieceLogprobs): readonly string[];
  /** The last events. */
  ended(ending: Ending): readonly string[];
  /** A stream fails after its head: its last events; null: it is broken off. */
  failed(error: ErrorAnswer): readonly string[] | null;
  /** Body of an answer in one piece. */
  whole(message: Message, ending: Ending, logprobs: PieceLogprobs): string;
  /** A refusal before the answer's head. */
  refused(error: ErrorAnswer): ErrorAnswer;
  /** The client left, or its time was over. */
  dropped(): void;
}

/** A request of the dialect, read. */
export interface Asked {
  readonly request: ChatRequest;
  readonly form: Form;
}

/** Reads bodies of one kind. */
export interface Asker {
  read(body: Uint8Array, contentType: string | null, limits: Limits): Asked | { readonly error: ErrorAnswer };
  /** The same in pieces, for large bodies. */
  pieces(body: Uint8Array, contentType: string | null, limits: Limits): Pieces<Asked | { readonly error: ErrorAnswer }>;
}
