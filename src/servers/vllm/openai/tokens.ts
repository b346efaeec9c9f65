/** Reads the token IDs of a body of `/detokenize`. The reading thread reads large ones: five million IDs take 20 MB. */

import { atOnce, type Pieces } from "../../../base/pieces.ts";
import { TemplateRefusal } from "../../../text/tokens/chat-template.ts";
import { type CheckedFields, checkModelOf, fitting } from "../../openai/front/checked.ts";
import type { ThreadAnswer } from "../../openai/front/reading/messages.ts";
import { badRequest, refuseValue } from "../../openai/request/errors.ts";
import type { Limits } from "../../openai/request/request.ts";
import { type BodyText, isJson, readJson, tooDeep } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, RefusedRequest, refuse } from "../../pydantic/refusals.ts";
import { optional, record, required } from "../../pydantic/structures.ts";
import { FAIL, int, list, nullable, State, type Type, text } from "../../pydantic/types.ts";
import { get, type Int, isDict, type PythonDict, type PythonValue, truthy } from "../../pydantic/value.ts";

export const detokenizeBody: Type<CheckedFields> = record("DetokenizeRequest", {
  model: optional(nullable(text)),
  tokens: required(list(int({ ge: 0, le: 2n ** 63n - 1n }))),
});

/** Reads a body. Returns its token IDs, or vLLM's error. */
export const readTokens = (body: BodyText, contentType: string | null, limits: Limits): ThreadAnswer =>
  answerFrom(detokenizeBody, ["continue_final_message"], body, contentType, ({ checked }) => {
    checkModelOf(checked, limits);
    return { tokens: toTokenIds(checked.get("tokens") as Int[]) };
  });

/** A body whose fields have been checked. */
export interface CheckedBody {
  readonly checked: CheckedFields;
  readonly value: PythonDict;
}

/**
 * Reads a body and makes the answer with `made`. Returns vLLM's error if the body is refused, or if `made` throws one. `exactKeys`:
 * fields that only Python's rules read correctly.
 */
export function answerFrom(
  type: Type<CheckedFields>,
  exactKeys: readonly string[],
  body: BodyText,
  contentType: string | null,
  made: (body: CheckedBody) => ThreadAnswer,
): ThreadAnswer {
  try {
    const fast = isJson(contentType) ? readFast(type, exactKeys, body) : null;
    if (fast !== null) return made(fast);
  } catch {
    // An error may quote the body, so that Python's rules decide.
  }
  try {
    const read = readExactly(type, body, contentType);
    return "error" in read ? read : made(read);
  } catch (refusal) {
    if (refusal instanceof RefusedRequest) return { error: refusal.answer };
    if (refusal instanceof TemplateRefusal) return { error: badRequest(refusal.message) };
    throw refusal;
  }
}

/** Reads a body with `JSON.parse`, which takes a third of the memory. Returns null or throws if Python's rules must decide. */
function readFast(type: Type<CheckedFields>, exactKeys: readonly string[], { plain }: BodyText): CheckedBody | null {
  if (plain === null || tooDeep(plain)) return null;
  const value = JSON.parse(plain) as PythonValue;
  if (!isDict(value) || exactKeys.some((key) => get(value, key) !== undefined)) return null;
  const checked = type.check(value, new State(false));
  return checked === FAIL ? null : { checked, value };
}

/** Reads a body by Python's rules, and checks its fields. Throws `RefusedRequest`. */
function readExactly(
  type: Type<CheckedFields>,
  body: BodyText,
  contentType: string | null,
): CheckedBody | { readonly error: ErrorAnswer } {
  const read = atOnce(readJson(body, contentType));
  if ("error" in read) return read;
  return { checked: atOnce(checkFields(type, read.value)), value: read.value as PythonDict };
}

/** Checks a body of `/tokenize` or `/detokenize` against its fields, in pieces. Throws `RefusedRequest`. */
export function* checkFields(type: Type<CheckedFields>, body: PythonValue): Pieces<CheckedFields> {
  if (isDict(body) && truthy(get(body, "continue_final_message")) && truthy(get(body, "add_generation_prompt")))
    refuseValue("Cannot set both `continue_final_message` and `add_generation_prompt` to True.");
  return yield* fitting(type, body);
}

/** Converts IDs to 32 bits, as vLLM's tokenizer does. Throws `RefusedRequest` if one is larger. */
export function toTokenIds(ids: readonly Int[]): Uint32Array<ArrayBuffer> {
  const tokenIds = new Uint32Array(ids.length);
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (id >= 2 ** 32) refuse(badRequest("number too large to fit in target type"));
    tokenIds[i] = Number(id);
  }
  return tokenIds;
}
