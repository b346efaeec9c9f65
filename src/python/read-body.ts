/**
 * Is this body a request, and which one? `JSON.parse` and the field table on the fast path; when anything is not plainly
 * right, the body is read once more with Python's rules, and that reading decides (vLLM 0.33 over FastAPI 0.136).
 */

import { decodeBody } from "./body-text.ts";
import { invalidJson, Refused, unparsableBody, unsupportedMediaType } from "./errors.ts";
import { PythonJsonError, PythonJsonFailure, parsePython, plainPieces, pythonPieces, tooDeep } from "./json.ts";
import { atOnce, type Pieces } from "./pieces.ts";
import type { ErrorAnswer, Limits } from "./request.ts";
import { FAIL } from "./types.ts";
import { type Fields, type Validator, type Values, validationErrors } from "./validate.ts";
import { isDict, type PythonDict, type PythonValue } from "./value.ts";

export type ReadBody<R> = { readonly request: R } | { readonly error: ErrorAnswer };

/** How one kind of request is read. */
export interface BodyKind<F extends Fields, R> {
  readonly validator: Validator<F>;
  /** May change the body as vLLM's validators do. Throws `Refused`. */
  readonly rules: (body: PythonDict) => void;
  /** Throws `Refused`. */
  readonly translate: (values: Values<F>, body: PythonDict, limits: Limits, exact: boolean) => R;
  /** Translates in pieces; absent: `translate` never takes long. */
  readonly translatePieces?: (values: Values<F>, body: PythonDict, limits: Limits, exact: boolean) => Pieces<R>;
}

/** A request with every default filled in, or the answer that vLLM gives before it renders and tokenizes. */
export function readBody<F extends Fields, R>(
  kind: BodyKind<F, R>,
  body: Uint8Array,
  contentType: string | null,
  limits: Limits,
): ReadBody<R> {
  if (!isJson(contentType)) return { error: mediaTypeError(body, contentType) };
  const request = readFast(kind, body, limits);
  return request === null ? readExactly(kind, body, limits) : { request };
}

/** Reads a large body in pieces; see `readBody`. */
export function* readBodyPieces<F extends Fields, R>(
  kind: BodyKind<F, R>,
  body: Uint8Array,
  contentType: string | null,
  limits: Limits,
): Pieces<ReadBody<R>> {
  if (!isJson(contentType)) return { error: mediaTypeError(body, contentType) };
  const request = yield* fastPieces(kind, body, limits);
  yield;
  return request === null ? yield* exactPieces(kind, body, limits) : { request };
}

/** Reads bodies of one kind, in one go or, large ones, in pieces; gives what `made` makes of them. */
export function readerOf<F extends Fields, R, T>(kind: BodyKind<F, R>, made: (read: ReadBody<R>) => T) {
  type Given = [body: Uint8Array, contentType: string | null, limits: Limits];
  return {
    read: (...given: Given): T => made(readBody(kind, ...given)),
    *pieces(...given: Given): Pieces<T> {
      return made(yield* readBodyPieces(kind, ...given));
    },
  };
}

/** In pieces: a body by Python's rules, or the answer of FastAPI and vLLM before they look into it. */
export function* readJson(
  body: Uint8Array,
  contentType: string | null,
): Pieces<{ readonly value: PythonValue } | { readonly error: ErrorAnswer }> {
  if (!isJson(contentType)) return { error: mediaTypeError(body, contentType) };
  const parsed = yield* parsePieces(body);
  return "value" in parsed && parsed.value === null ? { error: missingBody() } : parsed;
}

/** Whether a body of this content type is looked at. */
export function isJson(contentType: string | null): boolean {
  return contentType === "application/json" || contentType?.toLowerCase().split(";", 1)[0] === "application/json";
}

/** FastAPI parses what calls itself JSON before vLLM looks at the type. */
function mediaTypeError(body: Uint8Array, contentType: string | null): ErrorAnswer {
  if (body.length > 0 && /^\s*application\/(?:json|[^;]*\+json)\s*(?:;|$)/i.test(contentType ?? "")) {
    const parsed = parse(body);
    if ("error" in parsed) return parsed.error;
  }
  return unsupportedMediaType;
}

export function missingBody(): ErrorAnswer {
  return validationErrors([{ type: "missing", loc: ["body"], message: "Field required", input: null }]);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Null: not plainly right. */
function readFast<F extends Fields, R>(kind: BodyKind<F, R>, bytes: Uint8Array, limits: Limits): R | null {
  try {
    const text = utf8.decode(bytes);
    const body = JSON.parse(text) as PythonValue;
    if (!isDict(body) || tooDeep(text)) return null;
    kind.rules(body);
    const values = kind.validator.fast(body);
    return values === FAIL ? null : kind.translate(values, body, limits, false);
  } catch {
    return null;
  }
}

/** Null: not plainly right. */
function* fastPieces<F extends Fields, R>(kind: BodyKind<F, R>, bytes: Uint8Array, limits: Limits): Pieces<R | null> {
  try {
    const body = yield* plainPieces(utf8.decode(bytes));
    if (!isDict(body)) return null;
    yield;
    kind.rules(body);
    yield;
    const values = yield* kind.validator.pieces(body, false);
    if (values === FAIL) return null;
    yield;
    return yield* translated(kind, values as Values<F>, body, limits, false);
  } catch {
    return null;
  }
}

function* translated<F extends Fields, R>(
  kind: BodyKind<F, R>,
  ...given: Parameters<BodyKind<F, R>["translate"]>
): Pieces<R> {
  return kind.translatePieces === undefined ? kind.translate(...given) : yield* kind.translatePieces(...given);
}

function readExactly<F extends Fields, R>(kind: BodyKind<F, R>, bytes: Uint8Array, limits: Limits): ReadBody<R> {
  return atOnce(exactPieces(kind, bytes, limits));
}

function* exactPieces<F extends Fields, R>(
  kind: BodyKind<F, R>,
  bytes: Uint8Array,
  limits: Limits,
): Pieces<ReadBody<R>> {
  const parsed = yield* parsePieces(bytes);
  if ("error" in parsed) return parsed;
  const body = parsed.value;
  if (body === null) return { error: missingBody() };
  try {
    yield;
    if (isDict(body)) kind.rules(body);
    yield;
    const values = (yield* kind.validator.pieces(body, true)) as Values<F> | { readonly error: ErrorAnswer };
    if (isError(values)) return values;
    yield;
    return { request: yield* translated(kind, values, body as PythonDict, limits, true) };
  } catch (refusal) {
    if (refusal instanceof Refused) return { error: refusal.answer };
    throw refusal;
  }
}

function isError(value: object): value is { readonly error: ErrorAnswer } {
  return Object.hasOwn(value, "error");
}

/** Why a body is no JSON, as Python says it; null: it is, or is not even text. */
export function jsonFailure(bytes: Uint8Array): PythonJsonError | null {
  const text = decodeBody(bytes);
  try {
    if (text !== null) parsePython(text);
  } catch (failure) {
    if (failure instanceof PythonJsonError) return failure;
  }
  return null;
}

function parse(bytes: Uint8Array): { readonly value: PythonValue } | { readonly error: ErrorAnswer } {
  return atOnce(parsePieces(bytes));
}

/** An empty body is Python's None. */
function* parsePieces(bytes: Uint8Array): Pieces<{ readonly value: PythonValue } | { readonly error: ErrorAnswer }> {
  if (bytes.length === 0) return { value: null };
  const text = decodeBody(bytes);
  if (text === null) return { error: unparsableBody };
  try {
    return { value: yield* pythonPieces(text) };
  } catch (failure) {
    if (failure instanceof PythonJsonError) return { error: invalidJson(failure.message, failure.position) };
    if (failure instanceof PythonJsonFailure) return { error: unparsableBody };
    throw failure;
  }
}
