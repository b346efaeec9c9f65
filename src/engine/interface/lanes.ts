/**
 * Sends the plain tokens of a step with one native call. A stream that shows each token by itself has a lane: the text
 * before and after a token's text, and the socket. Native code (wire/lanes/lanes.c) goes through the outbox and sends
 * an event for each row whose lane is open. It stops at the first row that a receiver must handle, so that everything
 * happens in the outbox's order.
 */

import { OUT_WORDS } from "../../../assembly/layout.ts";
import { OutWord } from "../../../assembly/outbox-row.ts";

/** A stream to which lanes can write events. */
export interface LaneEnd {
  /** Number of the socket. Negative: the stream accepts no events now. */
  readonly fd: number;
  /** Tells the stream which lane leads to it. The stream must shut the lane when it is full or ends, before its socket closes. */
  onLane(lane: Lane): void;
  /** Delivers the rest of an event that the kernel did not accept as a whole. The caller reuses the bytes afterwards. */
  onPartialWrite(rest: Uint8Array): void;
}

/** Goes through rows of an outbox. wire/lanes/lanes.c describes all arguments. Returns the row at which it stopped, or the end of the range. */
export type NativeWrite = (
  lanes: Int32Array,
  pieces: Uint8Array,
  pieceAt: Int32Array,
  out: Int32Array,
  ids: Int32Array,
  call: Int32Array,
) => number;

/** Words of a lane. */
enum Word {
  /** File descriptor of the socket plus 1. 0: the receiver must handle each row. */
  Line,
  /** The step whose token the lane takes next. */
  Next,
  /** Tokens and bytes sent, and not yet reported to the receiver. */
  Tokens,
  Bytes,
  /** Lengths of the texts before and after each piece. */
  Prefix,
  Suffix,
  /** The prefix, then the suffix. */
  Frame,
}
const LANE_WORDS = 144;
/** Largest length of prefix and suffix together, in bytes. */
export const FRAME_MOST_BYTES = 4 * (LANE_WORDS - Word.Frame);
/** Words of a call. */
enum Call {
  /** Range of rows. */
  From,
  To,
  Step,
  /** Sizes of the tables of lanes and of texts. */
  Lanes,
  Ids,
  /** Results: length of an event that was only partly sent, or 0; bytes sent of it, or a negative error number. */
  Length,
  Taken,
  /** The event. */
  Event,
}
const PIECE_MOST_BYTES = 255;
/**
 * The layouts as macros for lanes.c, so that they exist only here and in assembly/outbox-row.ts: `LANE_NEXT` is the number of the word
 * `Next`.
 */
export const LANE_MACROS: Readonly<Record<string, string>> = {
  ...macrosOf("LANE", Word),
  ...macrosOf("CALL", Call),
  ...macrosOf("OUT", OutWord),
  LANE_WORDS: `${LANE_WORDS}`,
  OUT_WORDS: `${OUT_WORDS}`,
};
/** Number of last steps whose due times are kept. */
export const TIMES_KEPT = 4096;
const CALL_BYTES = 4 * Call.Event + 16 + FRAME_MOST_BYTES + PIECE_MOST_BYTES;

/** Texts of tokens as they appear in events, by id, in one block of memory. Contains the texts sent so far, so at most a vocabulary. */
export class TokenTexts {
  bytes = new Uint8Array(4096);
  /** Offset of a text by token id, after its length byte. 0: not here. */
  at = new Int32Array(1024);
  #used = 1;

  learn(id: number, piece: Uint8Array): void {
    const { length } = piece;
    if (length === 0 || length > PIECE_MOST_BYTES || (this.at[id] ?? 0) !== 0) return;
    if (id >= this.at.length) this.at = grown(this.at, Int32Array, id + 1);
    if (this.#used + length + 1 > this.bytes.length)
      this.bytes = grown(this.bytes, Uint8Array, this.#used + length + 1);
    this.bytes[this.#used] = length;
    this.bytes.set(piece, this.#used + 1);
    this.at[id] = this.#used + 1;
    this.#used += length + 1;
  }
}

/** The path of a generation's plain tokens to their stream. */
export class Lane {
  constructor(
    private readonly lanes: Lanes,
    private slot: number,
    private readonly line: LaneEnd,
  ) {
    line.onLane(this);
  }

  /** Opens the lane. The token that was just written has this text. Further plain tokens need no receiver. */
  goOn(id: number, piece: Uint8Array): void {
    if (this.slot < 0) return;
    const { fd } = this.line;
    if (fd >= 0) this.lanes.open(this.slot, fd, id, piece);
  }

  shut(): void {
    if (this.slot >= 0) this.lanes.shut(this.slot);
  }

  onPartialWrite(rest: Uint8Array): void {
    this.line.onPartialWrite(rest);
  }

  /** Returns the due time of one of the last `TIMES_KEPT` steps. */
  dueUs(step: number): number {
    return this.lanes.dueUs(step);
  }

  /** Tokens sent since the last `clear`. `next`: the step after the last of them. */
  get tokens(): number {
    return this.#word(Word.Tokens);
  }

  get bytes(): number {
    return this.#word(Word.Bytes);
  }

  get next(): number {
    return this.#word(Word.Next);
  }

  /** Resets the counts after they have been read. */
  clear(): void {
    this.lanes.words[this.slot * LANE_WORDS + Word.Tokens] = 0;
    this.lanes.words[this.slot * LANE_WORDS + Word.Bytes] = 0;
  }

  /** Closes the lane, because the slot goes to another generation. */
  close(): void {
    this.lanes.close(this.slot);
    this.slot = -1;
  }

  #word(word: Word): number {
    return this.slot < 0 ? 0 : this.lanes.words[this.slot * LANE_WORDS + word]!;
  }
}

/** The lanes of one engine, by slot. */
export class Lanes {
  words = new Int32Array(64 * LANE_WORDS);
  readonly #lanes: (Lane | null)[] = [];
  readonly #call = new Int32Array(Math.ceil(CALL_BYTES / 4));
  readonly #event = new Uint8Array(this.#call.buffer, 4 * Call.Event);
  /** Due time by step. */
  readonly #timesUs = new Float64Array(TIMES_KEPT);

  constructor(
    private readonly native: NativeWrite,
    private readonly texts: TokenTexts,
  ) {}

  /** Creates a lane, which is shut until `goOn`. Returns null if the frame is too long. */
  lane(slot: number, line: LaneEnd, prefix: Uint8Array, suffix: Uint8Array): Lane | null {
    if (prefix.length + suffix.length > FRAME_MOST_BYTES) return null;
    const at = slot * LANE_WORDS;
    if (at >= this.words.length) this.words = grown(this.words, Int32Array, at + LANE_WORDS);
    const { words } = this;
    words.fill(0, at, at + Word.Frame);
    words[at + Word.Prefix] = prefix.length;
    words[at + Word.Suffix] = suffix.length;
    const frame = new Uint8Array(words.buffer, 4 * (at + Word.Frame), FRAME_MOST_BYTES);
    frame.set(prefix);
    frame.set(suffix, prefix.length);
    const lane = new Lane(this, slot, line);
    this.#lanes[slot] = lane;
    return lane;
  }

  /** Starts the delivery of a step that was due at `dueUs`. */
  begin(step: number, dueUs = 0): void {
    this.#call[Call.Step] = step;
    this.#timesUs[step % TIMES_KEPT] = dueUs;
  }

  dueUs(step: number): number {
    return this.#timesUs[step % TIMES_KEPT]!;
  }

  /** Sends rows `from` to `to` of the outbox. Returns the first row that a receiver must handle, or `to`. `ids`: the outbox's tokens. */
  write(out: Int32Array, ids: Int32Array, from: number, to: number): number {
    const call = this.#call;
    const { bytes, at } = this.texts;
    call[Call.To] = to;
    call[Call.Lanes] = this.words.length / LANE_WORDS;
    call[Call.Ids] = at.length;
    for (let row = from; row < to; row++) {
      call[Call.From] = row;
      row = this.native(this.words, bytes, at, out, ids, call);
      const length = call[Call.Length]!;
      if (length === 0) return row;
      // After an error, no byte was accepted. Writing the same bytes again meets the error again or succeeds.
      const slot = out[row * OUT_WORDS + OutWord.Slot]!;
      this.#lanes[slot]!.onPartialWrite(this.#event.subarray(Math.max(0, call[Call.Taken]!), length));
    }
    return to;
  }

  /** Returns true if rows of this slot may need no receiver. */
  leads(slot: number): boolean {
    return (this.words[slot * LANE_WORDS] ?? 0) !== 0;
  }

  open(slot: number, fd: number, id: number, piece: Uint8Array): void {
    this.texts.learn(id, piece);
    this.words[slot * LANE_WORDS + Word.Line] = fd + 1;
    this.words[slot * LANE_WORDS + Word.Next] = this.#call[Call.Step]! + 1;
  }

  shut(slot: number): void {
    this.words[slot * LANE_WORDS + Word.Line] = 0;
  }

  close(slot: number): void {
    this.shut(slot);
    this.#lanes[slot] = null;
  }
}

/** Returns a longer copy. */
function grown<T extends Int32Array | Uint8Array>(old: T, kind: new (length: number) => T, least: number): T {
  const longer = new kind(Math.max(least, 2 * old.length));
  longer.set(old);
  return longer;
}

/** Returns a macro for each member of a numeric enum: prefix, underscore, and the name in capitals. */
function macrosOf(prefix: string, members: Readonly<Record<string, string | number>>): Record<string, string> {
  const macros: Record<string, string> = {};
  for (const [name, value] of Object.entries(members))
    if (typeof value === "number")
      macros[`${prefix}_${name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase()}`] = `${value}`;
  return macros;
}
