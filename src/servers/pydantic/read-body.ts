/**
 * Is this body a request, and which one? `JSON.parse` and the field table on the fast path; when anything is not plainly
 * right, the body is read once more with Python's rules, and that reading decides (vLLM 0.33 over FastAPI 0.136).
 */

import { atOnce, type Pieces } from "../../base/pieces.ts";
import { asText, type BodyText } from "./body-text.ts";
import { PythonJsonError, PythonJsonFailure, parsePython, plainPieces, pythonPieces, tooDeep } from "./json.ts";
import { type ErrorAnswer, invalidJson, Refused, unparsableBody, unsupportedMediaType } from "./refusals.ts";
import { FAIL } from "./types.ts";
import { type Fields, type Validator, type Values, validationErrors } from "./validate.ts";
import { isDict, type PythonDict, type PythonValue } from "./value.ts";

/** Bytes, or the text that another thread made of them. */
export type Body = Uint8Array | BodyText;

export type ReadBody<R> = { readonly request: R } | { readonly error: ErrorAnswer };

/** How one kind of request is read. `L`: the server's limits, which only `translate` looks at. */
export interface BodyKind<F extends Fields, R, L> {
  readonly validator: Validator<F>;
  /** May change the body as vLLM's validators do. Throws `Refused`. */
  readonly rules: (body: PythonDict) => void;
  /** Throws `Refused`. */
  readonly translate: (values: Values<F>, body: PythonDict, limits: L, exact: boolean) => R;
  /** Translates in pieces; absent: `translate` never takes long. */
  readonly translatePieces?: (values: Values<F>, body: PythonDict, limits: L, exact: boolean) => Pieces<R>;
}

/** A request with every default filled in, or the answer that vLLM gives before it renders and tokenizes. */
export function readBody<F extends Fields, R, L>(
  kind: BodyKind<F, R, L>,
  body: Body,
  contentType: string | null,
  limits: L,
): ReadBody<R> {
  if (!isJson(contentType)) return { error: mediaTypeError(body, contentType) };
  const request = readFast(kind, body, limits);
  return request === null ? readExactly(kind, body, limits) : { request };
}

/** Reads a large body in pieces; see `readBody`. */
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

/** Reads bodies of one kind, in one go or, large ones, in pieces; gives what `made` makes of them. */
export function readerOf<F extends Fields, R, L, T>(kind: BodyKind<F, R, L>, made: (read: ReadBody<R>) => T) {
  type Given = [body: Body, contentType: string | null, limits: L];
  return {
    read: (...given: Given): T => made(readBody(kind, ...given)),
    *pieces(...given: Given): Pieces<T> {
      return made(yield* readBodyPieces(kind, ...given));
    },
  };
}

/** In pieces: a body by Python's rules, or the answer of FastAPI and vLLM before they look into it. */
export function* readJson(
  body: Body,
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

/** Whether FastAPI parses a body of this content type, which need not be JSON's own. */
export function namesJson(contentType: string | null): boolean {
  return /^\s*application\/(?:json|[^;]*\+json)\s*(?:;|$)/i.test(contentType ?? "");
}

/** FastAPI parses what calls itself JSON before vLLM looks at the type. */
function mediaTypeError(body: Body, contentType: string | null): ErrorAnswer {
  if (!asText(body).empty && namesJson(contentType)) {
    const parsed = parse(body);
    if ("error" in parsed) return parsed.error;
  }
  return unsupportedMediaType;
}

export function missingBody(): ErrorAnswer {
  return validationErrors([{ type: "missing", loc: ["body"], message: "Field required", input: null }]);
}

/** A loop over a million keys keeps them, in code that the runtime has compiled, for good. Shorter bodies have fewer. */
const MANY_KEYS = 262_144;

/** Null: not plainly right. */
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

/** Null: not plainly right. */
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
    return yield* translated(kind, values as Values<F>, value, limits, false);
  } catch {
    return null;
  }
}

function* translated<F extends Fields, R, L>(
  kind: BodyKind<F, R, L>,
  ...given: Parameters<BodyKind<F, R, L>["translate"]>
): Pieces<R> {
  return kind.translatePieces === undefined ? kind.translate(...given) : yield* kind.translatePieces(...given);
}

function readExactly<F extends Fields, R, L>(kind: BodyKind<F, R, L>, body: Body, limits: L): ReadBody<R> {
  return atOnce(exactPieces(kind, body, limits));
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
    const values = (yield* kind.validator.pieces(value, true)) as Values<F> | { readonly error: ErrorAnswer };
    if (isError(values)) return values;
    yield;
    return { request: yield* translated(kind, values, value as PythonDict, limits, true) };
  } catch (refusal) {
    if (refusal instanceof Refused) return { error: refusal.answer };
    throw refusal;
  }
}

function isError(value: object): value is { readonly error: ErrorAnswer } {
  return Object.hasOwn(value, "error");
}

/** Why a body is no JSON, as Python says it; null: it is, or is not even text. */
export function jsonFailure(body: Body): PythonJsonError | null {
  const text = asText(body).python;
  try {
    if (text !== null) parsePython(text);
  } catch (failure) {
    if (failure instanceof PythonJsonError) return failure;
  }
  return null;
}

function parse(body: Body): { readonly value: PythonValue } | { readonly error: ErrorAnswer } {
  return atOnce(parsePieces(body));
}

/** An empty body is Python's None. */
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
