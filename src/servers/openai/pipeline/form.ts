/**
 * How does a dialect write an answer? A form is made for each request and told, in order, how the answer goes; it gives the
 * events of a stream, or the whole body. Types only.
 */

import type { Pieces } from "../../../base/pieces.ts";
import type { Ids } from "../../../base/random.ts";
import type { Finish, Submission } from "../../../engine/interface/types.ts";
import type { EventSink } from "../../../wire/http/sink.ts";
import type { Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { RequestKind } from "../front/reading/messages.ts";
import type { Logprobs } from "../request/logprobs.ts";
import type { ChatRequest, CompletionRequest, Limits } from "../request/request.ts";
import type { Delta, Message } from "../tool-calls/output.ts";
import type { AnswerContext } from "./context.ts";
import type { LongTexts } from "./long-body.ts";
import type { OutputTimes } from "./request-metrics.ts";

/** Events of a stream that is kept. */
export interface Log {
  readonly events: readonly string[];
  readonly ended: boolean;
  /** Calls `more` at each event and at the end, until it is taken back. */
  follow(more: () => void): () => void;
}

/** An answer that goes on by itself, after the request was answered. */
export interface Background {
  /** Aborted: the answer is to end. */
  readonly signal: AbortSignal;
  /** Takes the events of a stream; null: there is none. */
  readonly log: (EventSink & Log) | null;
  /** Body of the answer to the request; with a `log` that is the stream of its events. */
  queued(): string;
  /** The answer ended with an error. */
  failed(): void;
}

/** One choice of an answer, as far as it has come. */
export interface ChoiceSoFar {
  readonly index: number;
  /** Output tokens. */
  readonly tokens: number;
  /** null: there is no reasoning parser. */
  readonly reasoningTokens: number | null;
  /** A tool call was shown. */
  readonly called: boolean;
  /** How it ended; null while it runs. */
  readonly finish: Finish | null;
  /** Name of an end that the engine does not have, for forms that name such; null: none. */
  readonly named: string | null;
  /** The stop string, or the id of the stop token, that ended it; null: neither. */
  readonly stop: string | number | null;
  readonly submission: Submission | null;
  readonly times: OutputTimes | null;
}

/** A choice that has ended and is shown in one piece. */
export interface WholeChoice extends ChoiceSoFar {
  /** A copy of its tokens, until `message` was called. */
  readonly ids: readonly number[];
  /** Makes its log probabilities; null: none are asked for, or shown. */
  logprobs(): Logprobs | null;
  /** What a parser makes of its text; to be called once. */
  message(): Message;
}

/** What one output, or several that waited for the client, add to a choice of a stream. */
export interface Piece {
  readonly choice: ChoiceSoFar;
  /** What a parser made of the text, without a parser the text; null: nothing to show yet. */
  readonly delta: Delta | null;
  readonly ids: readonly number[];
  /** Output tokens before these. */
  readonly from: number;
  /** null: none are asked for, or shown. */
  readonly logprobs: Logprobs | null;
}

/** What stands before and after the JSON-escaped text of a token that is shown by itself. */
export interface Frame {
  readonly prefix: Uint8Array;
  readonly suffix: Uint8Array;
  /** A token without text has its event too. */
  readonly showsEmpty: boolean;
}

/** Called in this order: `id`, `accepted`, then for a stream `opening`, `piece` (and `frame` between), `ended`; else `whole`. */
export interface Form {
  /** null or absent: the client waits for the answer. */
  readonly background?: Background | null;
  /** Ends may have names that the engine does not have. */
  readonly namesEnds?: boolean;
  /** The comment that a silent stream sends now and then; absent: none. */
  readonly keepAlive?: string;
  /** The opening stands before the error, too, of a stream whose first output is one. */
  readonly opensBeforeError?: boolean;
  /** The id of the request with this `X-Request-Id`. */
  id(header: string | null, newId: Ids): string;
  /** The engine got it; the events that leave at once. */
  accepted(context: AnswerContext): readonly string[];
  /** Events before the first output; where there are several choices one for each in turn, or several such rounds. `choices`: before anything of theirs is shown. */
  opening?(choices: readonly ChoiceSoFar[]): readonly string[];
  /** Events of what an output added. */
  piece(piece: Piece): readonly string[];
  /** The event of an output in parts, where it is too long to be made in one go; null: `piece` makes it. */
  longPiece?(piece: Piece): Iterator<string, void> | null;
  /** Asked after each piece until it gives one, for choices whose tokens are shown as plain text; null: not, or not yet. */
  frame?(index: number): Frame | null;
  /** The last events, when all choices have ended. */
  ended(choices: readonly ChoiceSoFar[]): readonly string[];
  /** Those events in parts, where they are too long to be made in one go; null: `ended` makes them. */
  longEnd?(choices: readonly ChoiceSoFar[]): Iterator<string, void> | null;
  /** A stream fails after its head: its last events; null: it is broken off. */
  failed(error: ErrorAnswer): readonly string[] | null;
  /** Body of an answer in one piece, or what it holds besides the texts of `long`. */
  whole(choices: readonly WholeChoice[], long: LongTexts): string;
  /** A refusal before the answer's head; absent: as in OpenAI's dialect. */
  refused?(error: ErrorAnswer): ErrorAnswer;
  /** The client left, or the answer's time was over. */
  dropped?(): void;
}

/** A body, read: the request, and the form that its answer will have. */
export interface FormedRequest {
  readonly request: ChatRequest | CompletionRequest;
  readonly form: Form;
}

type ReadResult = FormedRequest | { readonly error: ErrorAnswer };

/** Reads the bodies of one route. */
export interface BodyReader {
  read(body: Body, contentType: string | null, limits: Limits): ReadResult;
  /** Reads in pieces, for large bodies; absent: those are read in one go too. */
  pieces?(body: Body, contentType: string | null, limits: Limits): Pieces<ReadResult>;
  /** What the reading thread reads the largest as; absent: as text, which is read here in pieces. */
  readonly thread?: RequestKind;
  /** The form of what the thread has read; `repeated` as its dialect gave it there. */
  readonly formOf?: (request: ChatRequest | CompletionRequest, repeated: unknown) => Form;
}
