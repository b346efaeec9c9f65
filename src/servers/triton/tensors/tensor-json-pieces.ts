/**
 * Converts large tensors to JSON and back in pieces, so that they do not block other requests. Same results as
 * `tensor-json.ts`.
 */
import type { Pieces } from "../../../base/pieces.ts";
import { internal, TritonError } from "../model-config/status.ts";
import { asBytesText, within } from "./access.ts";
import {
  bytesOf,
  type Datatype,
  ELEMENT_BYTES,
  LENGTH_BYTES,
  newNumbers,
  noteTexts,
  type Tensor,
  writeTexts,
} from "./datatypes.ts";
import { type JsonNode, LongList, LongText, NumberPart } from "./json-nodes.ts";
import {
  checkReadable,
  DEPTH_MOST,
  elementsText,
  isBig,
  nestedTooDeep,
  rapidText,
  stored,
  takers,
} from "./tensor-json.ts";

/** Items read between two yields. A part of numbers counts as a whole. */
const ITEMS_OF_A_PIECE = 128;
/** Elements, and bytes of strings, that are written at a time. */
const WRITTEN_ELEMENTS = 1024;
const WRITTEN_BYTES = 16_384;
/** Bytes of a long string that are copied at a time. */
const COPIED_BYTES = 65_536;

type List = readonly JsonNode[] | LongList;
const isList = (value: JsonNode): value is List => value instanceof LongList || Array.isArray(value);

/** Yields the elements of nested lists. Numbers come as whole parts. */
function* flatItems(list: List, depth: number): Generator<JsonNode | NumberPart, void> {
  if (depth >= DEPTH_MOST) throw nestedTooDeep();
  for (const part of list instanceof LongList ? list.parts : [list]) {
    if (part instanceof NumberPart) yield part;
    else
      for (const item of part) {
        if (isList(item)) yield* flatItems(item, depth + 1);
        else yield item;
      }
  }
}

/** Does the same as `readElements`, in pieces. */
export function* readElementsInPieces(
  name: string,
  data: JsonNode,
  datatype: Datatype | null,
  count: number,
  missing: string,
): Pieces<Uint8Array> {
  const items = isList(data) ? flatItems(data, 0) : [data][Symbol.iterator]();
  if (datatype === "BYTES") return yield* packedInPieces(items);
  return yield* convertedInPieces(checkReadable(datatype, name), items, count, missing);
}

/**
 * Passes each item to `take`. Throws its first error only after all items were seen, because lists that are nested too deep
 * must be reported first, as in `readElements`.
 */
function* taken(items: Iterator<JsonNode | NumberPart, void>, take: (item: JsonNode | NumberPart) => void) {
  let wrong: TritonError | null = null;
  for (let seen = 1; ; seen++) {
    const { done, value } = items.next();
    if (done) break;
    try {
      if (wrong === null) take(value);
    } catch (error) {
      if (!(error instanceof TritonError)) throw error;
      wrong = error;
    }
    if (value instanceof NumberPart || seen % ITEMS_OF_A_PIECE === 0) yield;
  }
  if (wrong !== null) throw wrong;
}

function* convertedInPieces(
  datatype: keyof typeof takers,
  items: Iterator<JsonNode | NumberPart, void>,
  count: number,
  missing: string,
): Pieces<Uint8Array> {
  const into = newNumbers(datatype, count);
  const list = into as unknown as (number | bigint)[];
  const big = isBig(datatype);
  const take = takers[datatype];
  let at = 0;
  const put = (one: JsonNode) => {
    if (at >= count) throw internal("Shape does not match true shape of 'data' field");
    list[at++] = stored(take(one), big);
  };
  const puts = (item: JsonNode | NumberPart) => {
    if (!(item instanceof NumberPart)) put(item);
    else if (into instanceof Float32Array || into instanceof Float64Array) {
      const fitting = Math.min(item.length, count - at);
      into.set(item.values.subarray(0, fitting), at);
      at += fitting;
      if (fitting < item.length) put(0);
    } else for (let i = 0; i < item.length; i++) put(item.item(i));
  };
  yield* taken(items, (item) => within("Unable to parse 'data'", puts, item));
  if (at !== count) throw internal(missing);
  return bytesOf(into);
}

function* packedInPieces(items: Iterator<JsonNode | NumberPart, void>): Pieces<Uint8Array> {
  let part: (string | LongText)[] = [];
  const parts = [part];
  let bytes = 0;
  let count = 0;
  yield* taken(items, (item) => {
    const value = item instanceof NumberPart ? item.item(0) : item;
    const isText = typeof value === "string" || value instanceof LongText;
    const text = isText ? value : within("Unable to parse JSON bytes array", asBytesText, value);
    if (part.length >= ITEMS_OF_A_PIECE) {
      part = [];
      parts.push(part);
    }
    part.push(text);
    bytes += LENGTH_BYTES + text.length;
    count++;
  });
  const made = Buffer.allocUnsafeSlow(bytes);
  let at = 0;
  for (const texts of parts) {
    for (const text of texts)
      at = text instanceof LongText ? yield* written(text, made, at) : writeTexts([text], made, at);
    yield;
  }
  noteTexts(made, count);
  return made;
}

/** Writes an element of a BYTES tensor: four bytes of length, then the text. Returns the end offset. */
function* written({ bytes: text }: LongText, bytes: Buffer, from: number): Pieces<number> {
  bytes.writeUInt32LE(text.length, from);
  const to = from + LENGTH_BYTES;
  for (let at = 0; at < text.length; at += COPIED_BYTES) {
    bytes.set(text.subarray(at, at + COPIED_BYTES), to + at);
    yield;
  }
  return to + text.length;
}

/** Yields the result of `elementsText` in parts of about 16 KiB. */
export function* elementsTexts(tensor: Omit<Tensor, "shape">): Generator<string, void> {
  const { name, datatype, data } = tensor;
  const step = datatype === "BYTES" ? 0 : WRITTEN_ELEMENTS * ELEMENT_BYTES[datatype];
  let end = 0;
  for (let from = 0; from < data.length; from = end) {
    if (from > 0) yield ",";
    end = step === 0 ? textsEnd(data, from) : Math.min(data.length, from + step);
    if (step === 0 && isLongText(data, from, end)) yield* quotedParts(data, from + LENGTH_BYTES, end);
    else yield elementsText({ name, datatype, data: data.subarray(from, end) });
  }
}

/**
 * Returns the offset at which the next turn continues: after several short strings, or after one long string. If the last string
 * is cut off, returns the length of the data.
 */
function textsEnd(data: Uint8Array, from: number): number {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  let at = from;
  while (at < data.length && at - from < WRITTEN_BYTES) {
    if (at + LENGTH_BYTES > data.length) return data.length;
    const length = view.getUint32(at, true);
    if (length > WRITTEN_BYTES && at > from) return at;
    at += LENGTH_BYTES + length;
  }
  return Math.min(data.length, at);
}

/** True if the bytes are exactly one long string that is not truncated. */
function isLongText(data: Uint8Array, from: number, end: number): boolean {
  const length = end - from - LENGTH_BYTES;
  return length > WRITTEN_BYTES && new DataView(data.buffer, data.byteOffset).getUint32(from, true) === length;
}

/** Yields a string as JSON. Each character is escaped by itself, so that the string may be cut anywhere. */
function* quotedParts(data: Uint8Array, from: number, end: number): Generator<string, void> {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  yield '"';
  for (let at = from; at < end; at += WRITTEN_BYTES)
    yield rapidText(bytes.toString("latin1", at, Math.min(end, at + WRITTEN_BYTES))).slice(1, -1);
  yield '"';
}

/** True if the data contain exactly one element. */
export const isOneElement = ({ datatype, data }: Omit<Tensor, "shape">): boolean =>
  datatype === "BYTES" ? isLongText(data, 0, data.length) : data.length === ELEMENT_BYTES[datatype];

/**
 * Counts the strings of a large tensor in pieces and notes the number. Notes nothing if a string is truncated, because the
 * later check reports that.
 */
export function* countTexts(data: Uint8Array): Pieces<void> {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  let count = 0;
  let at = 0;
  while (at + LENGTH_BYTES <= data.length) {
    at += LENGTH_BYTES + view.getUint32(at, true);
    if (++count % 8192 === 0) yield;
  }
  if (at === data.length) noteTexts(data, count);
}
