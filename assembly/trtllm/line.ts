// State that TensorRT-LLM's policies keep per request: one cache line in addition to the shared row (../slots.ts).
import { column } from "../column";
import { blockSize } from "../config";
import { SLOTS } from "../layout";
import { handleOf, lora, row } from "../slots";
import { setTrtWord } from "./header";
import { LINE_BYTES, LineField, State, TrtWord } from "./layout";

/**
 * Line of a request, fields in the order of LineField. P, M and g are the names in TensorRT-LLM's sources: prompt
 * tokens, max new tokens, generated tokens.
 */
@unmanaged
export class Line {
  state: i32;
  handle: i32;
  /** P + g: known tokens. */
  length: i32;
  /** Tokens of open steps, which are not known yet. */
  flight: i32;
  /** P + M: number of tokens at which the request ends in any case. */
  end: i32;
  /** Tokens that the request's blocks hold after the last plan, and those for which they have room. The room is 0 before the first chunk. */
  held: i32;
  room: i32;
  /** Address at which the id of its next token is stored (tokens.ts). 0 if its ids are not kept. */
  keep: i32;
  /** P: tokens of the prompt. A pause adds the generated tokens. */
  context: i32;
  /** Prompt tokens that are computed or scheduled. */
  position: i32;
  /** Blocks for P + M tokens. */
  whole: i32;
  /** Prompt tokens that the cache held at the last look. */
  reusable: i32;
  /** Prompt tokens that the current plan computes. */
  chunk: i32;

  get started(): bool {
    return this.room > 0;
  }
  get isContext(): bool {
    return this.state === State.ContextInit;
  }
  get isFirstChunk(): bool {
    return this.state === State.ContextInit && this.room === 0;
  }
  /** Prompt tokens left to compute. */
  get rest(): i32 {
    return this.context - this.position;
  }
  get isLastChunk(): bool {
    return this.position + this.chunk === this.context;
  }

  /** Turns a token in flight into a known token: changes both counts in one store. */
  land(): void {
    const at = changetype<usize>(this);
    store<i64>(at, load<i64>(at, offsetof<Line>("length")) + 1 - ((<i64>1) << 32), offsetof<Line>("length"));
  }
}
if (offsetof<Line>("state") !== LineField.State << 2) ERROR("Line and LineField disagree on state");
if (offsetof<Line>("handle") !== LineField.Handle << 2) ERROR("Line and LineField disagree on handle");
if (offsetof<Line>("context") !== LineField.Context << 2) ERROR("Line and LineField disagree on context");
if (offsetof<Line>("length") !== LineField.Length << 2) ERROR("Line and LineField disagree on length");
if (offsetof<Line>("end") !== LineField.End << 2) ERROR("Line and LineField disagree on end");
if (offsetof<Line>("position") !== LineField.Position << 2) ERROR("Line and LineField disagree on position");
if (offsetof<Line>("held") !== LineField.Held << 2) ERROR("Line and LineField disagree on held");
if (offsetof<Line>("room") !== LineField.Room << 2) ERROR("Line and LineField disagree on room");
if (offsetof<Line>("whole") !== LineField.Whole << 2) ERROR("Line and LineField disagree on whole");
if (offsetof<Line>("reusable") !== LineField.Reusable << 2) ERROR("Line and LineField disagree on reusable");
if (offsetof<Line>("flight") !== LineField.Flight << 2) ERROR("Line and LineField disagree on flight");
if (offsetof<Line>("chunk") !== LineField.Chunk << 2) ERROR("Line and LineField disagree on chunk");
if (offsetof<Line>("keep") !== LineField.Keep << 2) ERROR("Line and LineField disagree on keep");
if (offsetof<Line>("flight") !== offsetof<Line>("length") + 4) ERROR("length and flight are no pair");
if (offsetof<Line>() > <usize>LINE_BYTES) ERROR("a line is larger than LINE_BYTES");

let linesAt: usize = 0;
/** Number of active requests in their context phase. If 0, every active request decodes. */
export let prefilling: i32 = 0;

/** Number of active requests with an adapter. If 0, batches need no sorting by adapter. */
export let adapted: i32 = 0;

/** Counts a request that enters (1) or leaves (-1) the active list. */
export function noteActive(slot: i32, by: i32): void {
  if (line(slot).isContext) prefilling += by;
  if (lora[slot] !== 0) adapted += by;
}

export function setState(l: Line, state: State): void {
  if (l.isContext !== (state === State.ContextInit)) prefilling += l.isContext ? -1 : 1;
  l.state = state;
}

export function allocateLines(): void {
  linesAt = (changetype<usize>(column((SLOTS + 1) * (LINE_BYTES >> 2))) + LINE_BYTES - 1) & ~(<usize>LINE_BYTES - 1);
}
export function publishLines(): void {
  setTrtWord(TrtWord.LinesAt, <i32>linesAt);
}

export function line(slot: i32): Line {
  return changetype<Line>(linesAt + <usize>slot * LINE_BYTES);
}

/** Initialises the line of a request that was just submitted. */
export function startLine(slot: i32): void {
  const l = line(slot);
  const tokens = row(slot).prompt;
  l.handle = handleOf(slot);
  l.end = tokens + row(slot).lastOutput;
  l.whole = blocksOf(l.end);
  l.flight = 0;
  l.keep = 0;
  l.reusable = 0;
  l.chunk = 0;
  l.state = State.ContextInit;
  l.context = tokens;
  l.length = tokens;
  forget(l);
}

/** Resets the line: no prompt token is computed, and no block is held. */
export function forget(l: Line): void {
  l.position = 0;
  l.held = 0;
  l.room = 0;
}

export function blocksOf(tokens: i32): i32 {
  return (tokens + blockSize - 1) / blockSize;
}
