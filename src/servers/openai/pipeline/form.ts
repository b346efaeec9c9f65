/**
 * Types of forms. A form writes the answer of one request in the shape of its API. It is called as the answer proceeds and
 * returns the events of a stream, or the whole body.
 */

import type { Pieces } from "../../../base/pieces.ts";
import type { Ids } from "../../../base/random.ts";
import type { Finish, Submission } from "../../../engine/interface/types.ts";
import type { EventSink } from "../../../wire/http/sink.ts";
import type { Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { RequestKind } from "../front/reading/messages.ts";
import type { Logprobs } from "../request/logprobs.ts";
import type { GenerationRequest, Limits } from "../request/request.ts";
import type { Delta, Message } from "../tool-calls/output.ts";
import type { AnswerContext } from "./context.ts";
import type { LongTexts } from "./long-body.ts";
import type { OutputTimes } from "./request-metrics.ts";

/** The stored events of a stream. */
export interface StoredEvents {
  readonly events: readonly string[];
  /** True if no event will follow. */
  readonly ended: boolean;
  /** Calls `more` at each new event and at the end. Returns a function that stops this. */
  follow(more: () => void): () => void;
}

/** An answer that is generated after its request was answered. */
export interface Background {
  /** A signal that ends the generation when it is aborted. */
  readonly signal: AbortSignal;
  /** Stores the events of a stream. null: the answer is not streamed. */
  readonly log: (EventSink & StoredEvents) | null;
  /** Returns the body that answers the request. Not used with a `log`: the answer is then the stream of its events. */
  queued(): string;
  /** Notes that the generation ended with an error. */
  failed(): void;
}

/** The state of one choice of an answer. */
export interface ChoiceSoFar {
  readonly index: number;
  /** Output tokens so far. */
  readonly tokens: number;
  /** Number of reasoning tokens. null if the server has no reasoning parser. */
  readonly reasoningTokens: number | null;
  /** True if a tool call was shown. */
  readonly called: boolean;
  /** Finish reason. null while the choice runs. */
  readonly finish: Finish | null;
  /** A finish reason that the engine does not have. Set only if the form's `namesEnds` is true. null: none. */
  readonly named: string | null;
  /** The stop string or the id of the stop token that ended it. null: neither did. */
  readonly stop: string | number | null;
  readonly submission: Submission | null;
  readonly times: OutputTimes | null;
}

/** A choice that has ended and is not streamed. */
export interface WholeChoice extends ChoiceSoFar {
  /** A copy of its token ids. Empty after `message` was called. */
  readonly ids: readonly number[];
  /** Creates the choice's log probabilities. Returns null if none are requested or shown. */
  logprobs(): Logprobs | null;
  /** Returns the text of the choice, split by the parsers. Must be called only once. */
  message(): Message;
}

/** The part that one output adds to a choice of a stream, or several outputs if the client was slow. */
export interface Piece {
  readonly choice: ChoiceSoFar;
  /** The text, split by a parser if there is one. null: nothing to show yet. */
  readonly delta: Delta | null;
  readonly ids: readonly number[];
  /** Number of output tokens before these. */
  readonly from: number;
  /** Log probabilities of the choice. null if none are requested or shown. */
  readonly logprobs: Logprobs | null;
}

/** The bytes of an event before and after the JSON-escaped text of its only token. */
export interface Frame {
  readonly prefix: Uint8Array;
  readonly suffix: Uint8Array;
  /** True if a token without text has an event, too. */
  readonly showsEmpty: boolean;
}

/**
 * Writes one answer. Called in this order: `id`, `accepted`, then for a stream `opening`, `piece` and `frame` in turn, and
 * `ended`. For a whole answer: `whole`.
 */
export interface Form {
  /** Set if the answer is generated in the background. null or absent: the client waits for it. */
  readonly background?: Background | null;
  /** True if the answer can show finish reasons that the engine does not have. */
  readonly namesEnds?: boolean;
  /** The comment that a silent stream sends periodically. Absent: none. */
  readonly keepAlive?: string;
  /** True if a stream whose first output is an error sends its opening before the error. */
  readonly opensBeforeError?: boolean;
  /** Returns the id of the request. `header`: the value of `X-Request-Id`, or null. */
  id(header: string | null, newId: Ids): string;
  /** Called when the engine has accepted the request. Returns the events to send at once. */
  accepted(context: AnswerContext): readonly string[];
  /**
   * Returns the events before the first output. With several choices: one event per choice in turn, or several such rounds.
   * `choices`: their state before anything of them is shown.
   */
  opening?(choices: readonly ChoiceSoFar[]): readonly string[];
  /** Returns the events of a piece. */
  piece(piece: Piece): readonly string[];
  /** Returns the events of a piece in parts if writing it takes too long for one turn. Returns null to use `piece`. */
  longPiece?(piece: Piece): Iterator<string, void> | null;
  /** Returns the frame of tokens that are shown one by one. Called after each piece until it returns one. null: none yet. */
  frame?(index: number): Frame | null;
  /** Returns the last events, after all choices have ended. */
  ended(choices: readonly ChoiceSoFar[]): readonly string[];
  /** Returns the last events in parts if writing them takes too long for one turn. Returns null to use `ended`. */
  longEnd?(choices: readonly ChoiceSoFar[]): Iterator<string, void> | null;
  /** Returns the last events of a stream that fails after its head was sent. Returns null to break the stream off. */
  failed(error: ErrorAnswer): readonly string[] | null;
  /** Returns the body of a whole answer. It may contain marks for long texts, which it adds to `long`. */
  whole(choices: readonly WholeChoice[], long: LongTexts): string;
  /** Writes a refusal that is sent instead of the answer. Absent: the error keeps the shape of OpenAI's API. */
  refused?(error: ErrorAnswer): ErrorAnswer;
  /** Called if the client disconnected, the stream failed or its time limit passed. */
  dropped?(): void;
}

/** The result of reading a body: the request and the form of its answer. */
export interface FormedRequest {
  readonly request: GenerationRequest;
  readonly form: Form;
}

type ReadResult = FormedRequest | { readonly error: ErrorAnswer };

/** Reads the bodies of one route. */
export interface BodyReader {
  read(body: Body, contentType: string | null, limits: Limits): ReadResult;
  /** Reads a large body in pieces. Absent: large bodies are read in one go, too. */
  pieces?(body: Body, contentType: string | null, limits: Limits): Pieces<ReadResult>;
  /** Kind of request that the reading thread makes of the largest bodies. Absent: it only returns their decoded text. */
  readonly thread?: RequestKind;
  /** Returns the form of a request that the thread has read. `repeated`: further data of the same dialect from the thread. */
  readonly formOf?: (request: GenerationRequest, repeated: unknown) => Form;
}
