/** Reads the token IDs of a body of `/detokenize`. The reading thread reads large ones: five million IDs take 20 MB. */

import { atOnce, type Pieces } from "../../../base/pieces.ts";
import { type CheckedFields, fitting } from "../../openai/front/checked.ts";
import { checkModel } from "../../openai/front/models.ts";
import type { ThreadAnswer } from "../../openai/front/reading/messages.ts";
import { badRequest, refuseValue } from "../../openai/request/errors.ts";
import type { Limits } from "../../openai/request/request.ts";
import { type BodyText, isJson, readJson } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, RefusedRequest, refuse } from "../../pydantic/refusals.ts";
import { optional, record, required } from "../../pydantic/structures.ts";
import { FAIL, int, list, nullable, State, type Type, text } from "../../pydantic/types.ts";
import { get, type Int, isDict, type PythonValue, truthy } from "../../pydantic/value.ts";

export const detokenizeBody: Type<CheckedFields> = record("DetokenizeRequest", {
  model: optional(nullable(text)),
  tokens: required(list(int({ ge: 0, le: 2n ** 63n - 1n }))),
});

/** Reads a body. Returns its token IDs, or vLLM's error. */
export function readTokens(body: BodyText, contentType: string | null, limits: Limits): ThreadAnswer {
  try {
    const checked = (isJson(contentType) ? readFast(body) : null) ?? readExactly(body, contentType);
    if ("error" in checked) return checked;
    checkModel((checked.get("model") ?? null) as string | null, limits);
    return { tokens: toTokenIds(checked.get("tokens") as Int[]) };
  } catch (refusal) {
    if (refusal instanceof RefusedRequest) return { error: refusal.answer };
    throw refusal;
  }
}

/** Reads a body with `JSON.parse`. Returns null if anything is wrong, so that Python's rules must decide. */
function readFast({ plain }: BodyText): CheckedFields | null {
  try {
    const value = JSON.parse(plain ?? "") as PythonValue;
    if (!isDict(value) || get(value, "continue_final_message") !== undefined) return null;
    const checked = detokenizeBody.check(value, new State(false));
    return checked === FAIL ? null : checked;
  } catch {
    return null;
  }
}

/** Reads a body by Python's rules. */
function readExactly(body: BodyText, contentType: string | null): CheckedFields | { readonly error: ErrorAnswer } {
  const read = atOnce(readJson(body, contentType));
  return "error" in read ? read : atOnce(checkFields(detokenizeBody, read.value));
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
