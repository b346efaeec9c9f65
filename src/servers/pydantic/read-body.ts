/**
 * Reads bodies as requests. The fast path is `JSON.parse` and the field table. If the fast path fails, the body is read again
 * by Python's rules, and the second reading decides, so that errors are exactly those of vLLM 0.33 over FastAPI 0.136.
 * Encodings are detected like in `json.detect_encoding` of CPython 3.11, and decoded with `surrogatepass`.
 */

import { atOnce, type Pieces } from "../../base/pieces.ts";
import { MAX_DEPTH, PythonJsonError, PythonJsonFailure, parsePython, plainPieces, pythonPieces } from "./json.ts";
import { type ErrorAnswer, invalidJson, RefusedRequest, unparsableBody, unsupportedMediaType } from "./refusals.ts";
import { FAIL } from "./types.ts";
import { type Fields, type Validator, type Values, validationErrors } from "./validate.ts";
import { isDict, type PythonDict, type PythonValue } from "./value.ts";

/** A body: its bytes, or their text, if another thread has decoded them. */
export type Body = Uint8Array | BodyText;

export type ReadBody<R> = { readonly request: R } | { readonly error: ErrorAnswer };

/** The way to read one kind of request. `L`: the server's limits, which only `translate` reads. */
export interface BodyKind<F extends Fields, R, L> {
  readonly validator: Validator<F>;
  /** Applies vLLM's checks before the fields are read, which may change the body. Throws `RefusedRequest`. */
  readonly rules: (body: PythonDict) => void;
  /** Makes the request from the checked fields. `exact`: true if Python's parser read the body. Throws `RefusedRequest`. */
  readonly translate: (values: Values<F>, body: PythonDict, limits: L, exact: boolean) => R;
  /** Like `translate`, in pieces. Absent if `translate` never takes long. */
  readonly translatePieces?: (values: Values<F>, body: PythonDict, limits: L, exact: boolean) => Pieces<R>;
}

/** Returns the request with all defaults set, or the error that vLLM answers before it renders and tokenizes a prompt. */
export function readBody<F extends Fields, R, L>(
  kind: BodyKind<F, R, L>,
  body: Body,
  contentType: string | null,
  limits: L,
): ReadBody<R> {
  if (!isJson(contentType)) return { error: mediaTypeError(body, contentType) };
  const request = readFast(kind, body, limits);
  return request === null ? atOnce(exactPieces(kind, body, limits)) : { request };
}

/** Like `readBody`, in pieces, for large bodies. */
export function* readBodyPieces<F extends Fields, R, L>(
  kind: BodyKind<F, R, L>,
  body: Body,
  contentType: string | null,
  limits: L,
): Pieces<ReadBody<R>> {
  if (!isJson(contentType)) return { error: mediaTypeError(body, contentType) };
  const request = yield* fastPieces(kind, body, limits);
  yield;
  return request === null ? yield* exactPieces(kind, body, limits) : { request };
}

/** Returns the functions that make a request from checked fields, at once and in pieces. `make` works in pieces. */
export const inPieces = <F extends Fields, R, L>(make: NonNullable<BodyKind<F, R, L>["translatePieces"]>) => ({
  translate: (...input: Parameters<typeof make>): R => atOnce(make(...input)),
  translatePieces: make,
});

/** Returns functions that read bodies of one kind: `read` in one go, `pieces` in pieces. `convert` makes their result. */
export function readerOf<F extends Fields, R, L, T>(kind: BodyKind<F, R, L>, convert: (read: ReadBody<R>) => T) {
  type Input = [body: Body, contentType: string | null, limits: L];
  return {
    read: (...input: Input): T => convert(readBody(kind, ...input)),
    *pieces(...input: Input): Pieces<T> {
      return convert(yield* readBodyPieces(kind, ...input));
    },
  };
}

/** Parses a body in pieces by Python's rules. Returns an error if its type is not JSON, or it is empty, null or not valid. */
export function* readJson(
  body: Body,
  contentType: string | null,
): Pieces<{ readonly value: PythonValue } | { readonly error: ErrorAnswer }> {
  if (!isJson(contentType)) return { error: mediaTypeError(body, contentType) };
  const parsed = yield* parsePieces(body);
  return "value" in parsed && parsed.value === null ? { error: missingBody() } : parsed;
}

/** Reports whether vLLM accepts this content type: `application/json`, with any parameters. */
export function isJson(contentType: string | null): boolean {
  return contentType === "application/json" || contentType?.toLowerCase().split(";", 1)[0] === "application/json";
}

/** Reports whether FastAPI parses a body of this content type: `application/json` or any `application/*+json`. */
export function namesJson(contentType: string | null): boolean {
  return /^\s*application\/(?:json|[^;]*\+json)\s*(?:;|$)/i.test(contentType ?? "");
}

/** Returns the error for a refused content type. Invalid JSON comes first, because FastAPI parses before vLLM checks the type. */
function mediaTypeError(body: Body, contentType: string | null): ErrorAnswer {
  if (!asText(body).empty && namesJson(contentType)) {
    const parsed = atOnce(parsePieces(body));
    if ("error" in parsed) return parsed.error;
  }
  return unsupportedMediaType;
}

/** Returns FastAPI's error for an empty body or `null`. */
export function missingBody(): ErrorAnswer {
  return validationErrors([{ type: "missing", loc: ["body"], message: "Field required", input: null }]);
}

/**
 * Text length from which fields are looked up by name instead of in a loop over the body's keys. In code that the runtime has
 * compiled, such a loop keeps the keys in memory for good, and there may be a million.
 */
const MANY_KEYS = 262_144;

/** Reads a body on the fast path. Returns null if anything is wrong, so that Python's rules must decide. */
function readFast<F extends Fields, R, L>(kind: BodyKind<F, R, L>, body: Body, limits: L): R | null {
  try {
    const text = asText(body).plain;
    if (text === null) return null;
    const value = JSON.parse(text) as PythonValue;
    if (!isDict(value) || tooDeep(text)) return null;
    kind.rules(value);
    const { validator } = kind;
    const values = text.length < MANY_KEYS ? validator.fast(value) : atOnce(validator.pieces(value, false));
    return values === FAIL ? null : kind.translate(values as Values<F>, value, limits, false);
  } catch {
    return null;
  }
}

/** Like `readFast`, in pieces. */
function* fastPieces<F extends Fields, R, L>(kind: BodyKind<F, R, L>, body: Body, limits: L): Pieces<R | null> {
  try {
    const text = asText(body).plain;
    const value = text === null ? null : yield* plainPieces(text);
    if (value === null || !isDict(value)) return null;
    yield;
    kind.rules(value);
    yield;
    const values = yield* kind.validator.pieces(value, false);
    if (values === FAIL) return null;
    yield;
    return yield* translateRequest(kind, values as Values<F>, value, limits, false);
  } catch {
    return null;
  }
}

function* translateRequest<F extends Fields, R, L>(
  kind: BodyKind<F, R, L>,
  ...input: Parameters<BodyKind<F, R, L>["translate"]>
): Pieces<R> {
  return kind.translatePieces === undefined ? kind.translate(...input) : yield* kind.translatePieces(...input);
}

function* exactPieces<F extends Fields, R, L>(kind: BodyKind<F, R, L>, body: Body, limits: L): Pieces<ReadBody<R>> {
  const parsed = yield* parsePieces(body);
  if ("error" in parsed) return parsed;
  const { value } = parsed;
  if (value === null) return { error: missingBody() };
  try {
    yield;
    if (isDict(value)) kind.rules(value);
    yield;
    const values = yield* kind.validator.pieces(value, true);
    if (Object.hasOwn(values as object, "error")) return values as { readonly error: ErrorAnswer };
    yield;
    return { request: yield* translateRequest(kind, values as Values<F>, value as PythonDict, limits, true) };
  } catch (refusal) {
    if (refusal instanceof RefusedRequest) return { error: refusal.answer };
    throw refusal;
  }
}

/** Returns Python's JSONDecodeError for a body. Returns null if the body is JSON, or fails in another way. */
export function jsonFailure(body: Body): PythonJsonError | null {
  const text = asText(body).python;
  try {
    if (text !== null) parsePython(text);
  } catch (failure) {
    if (failure instanceof PythonJsonError) return failure;
  }
  return null;
}

/** Parses a body by Python's rules, in pieces. An empty body is null. */
function* parsePieces(body: Body): Pieces<{ readonly value: PythonValue } | { readonly error: ErrorAnswer }> {
  const { empty, python: text } = asText(body);
  if (empty) return { value: null };
  if (text === null) return { error: unparsableBody };
  try {
    return { value: yield* pythonPieces(text) };
  } catch (failure) {
    if (failure instanceof PythonJsonError) return { error: invalidJson(failure.message, failure.position) };
    if (failure instanceof PythonJsonFailure) return { error: unparsableBody };
    throw failure;
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });
const plainUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A body decoded in two ways, which rarely differ. */
export interface BodyText {
  /** The text of the bytes as UTF-8, with any byte order mark. Null if they are not valid UTF-8. */
  readonly plain: string | null;
  /** The text that Python decodes, without a byte order mark. Null if Python raises an error. */
  readonly python: string | null;
  /** True if the body has no bytes. */
  readonly empty: boolean;
}

/** Returns the body as text. Bytes are decoded at each read of a member, because Python's text is rarely needed. */
export function asText(body: Uint8Array | BodyText): BodyText {
  return body instanceof Uint8Array ? new BytesAsText(body) : body;
}

class BytesAsText implements BodyText {
  constructor(private readonly bytes: Uint8Array) {}

  get plain(): string | null {
    return strict(this.bytes, plainUtf8);
  }

  get python(): string | null {
    return decodeBody(this.bytes);
  }

  get empty(): boolean {
    return this.bytes.length === 0;
  }
}

/** Decodes the body as strict UTF-8 and as Python would, so that the caller can release the bytes. */
export function wholeText(bytes: Uint8Array): BodyText {
  const { plain, empty } = asText(bytes);
  const same = plain !== null && detect(bytes) === "utf-8" && !plain.startsWith("\ufeff");
  return { plain, python: same ? plain : decodeBody(bytes), empty };
}

/** Decodes bytes like Python, without a byte order mark. Returns null if Python raises UnicodeDecodeError. */
export function decodeBody(bytes: Uint8Array): string | null {
  const encoding = detect(bytes);
  if (encoding === "utf-8") return strict(bytes) ?? decodeSurrogates(bytes);
  const wide = encoding.startsWith("utf-32")
    ? decodeUtf32(bytes, encoding === "utf-32le")
    : decodeUtf16(bytes, encoding === "utf-16le");
  return wide?.startsWith("\ufeff") ? wide.slice(1) : wide;
}

/** Returns the encoding by the byte order mark, or by the zero bytes among the first four, like `json.detect_encoding`. */
function detect(bytes: Uint8Array): "utf-8" | "utf-16le" | "utf-16be" | "utf-32le" | "utf-32be" {
  const [a, b, c, d] = bytes;
  if (a === 0xff && b === 0xfe) return c === 0 && d === 0 ? "utf-32le" : "utf-16le";
  if (a === 0xfe && b === 0xff) return "utf-16be";
  if (a === 0 && b === 0 && c === 0xfe && d === 0xff) return "utf-32be";
  if (bytes.length >= 4) {
    if (a === 0) return b === 0 ? "utf-32be" : "utf-16be";
    if (b === 0) return c === 0 && d === 0 ? "utf-32le" : "utf-16le";
  } else if (bytes.length === 2) {
    if (a === 0) return "utf-16be";
    if (b === 0) return "utf-16le";
  }
  return "utf-8";
}

function decodeUtf16(bytes: Uint8Array, little: boolean): string | null {
  if (bytes.length % 2 !== 0) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 2) text += String.fromCharCode(view.getUint16(at, little));
  return text;
}

function decodeUtf32(bytes: Uint8Array, little: boolean): string | null {
  if (bytes.length % 4 !== 0) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    const code = view.getUint32(at, little);
    if (code > 0x10ffff) return null;
    text += String.fromCodePoint(code);
  }
  return text;
}

/** Decodes UTF-8 whose encoded surrogates (ED A0..BF xx) become lone surrogates. Returns null if anything else is invalid. */
function decodeSurrogates(bytes: Uint8Array): string | null {
  let text = "";
  let from = 0;
  for (let at = 0; at + 2 < bytes.length; at++) {
    const second = bytes[at + 1] as number;
    const third = bytes[at + 2] as number;
    if (bytes[at] !== 0xed || second < 0xa0 || second > 0xbf || third < 0x80 || third > 0xbf) continue;
    const before = strict(bytes.subarray(from, at));
    if (before === null) return null;
    text += before + String.fromCharCode(0xd000 | ((second & 0x3f) << 6) | (third & 0x3f));
    at += 2;
    from = at + 1;
  }
  const rest = strict(bytes.subarray(from));
  return rest === null || from === 0 ? null : text + rest;
}

/** Decodes valid UTF-8. Returns null if the bytes are not valid. */
function strict(bytes: Uint8Array, decoder = utf8): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

/** Reports whether containers nest deeper than Python's recursion limit allows. Cheap if the text has few brackets. */
export function tooDeep(text: string): boolean {
  if (text.length <= MAX_DEPTH) return false;
  let brackets = 0;
  for (const bracket of ["[", "{"])
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1))
      if (++brackets > MAX_DEPTH) return measure(text);
  return false;
}

/** Like `tooDeep`, by reading the whole text and skipping strings. */
function measure(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
    } else if (unit === 0x5b || unit === 0x7b) {
      if (++depth > MAX_DEPTH) return true;
    } else if (unit === 0x5d || unit === 0x7d) depth--;
  }
  return false;
}
