/** Fields, and types of fields, that the tables of several APIs share. Source: vLLM 0.33, `protocol.py` of each API. */

import { union } from "../../pydantic/structures.ts";
import * as t from "../../pydantic/types.ts";
import { field } from "../../pydantic/validate.ts";
import { get, type Int, type PlainDict, type PythonDict } from "../../pydantic/value.ts";

/** Most stop strings of a request: vLLM's VLLM_MAX_STOP_STRINGS. */
const MAX_STOP_STRINGS = 4;

export const INT64_RANGE = { ge: -(2n ** 63n), le: 2n ** 63n - 1n };
export const seed = t.nullable(t.int(INT64_RANGE));
export const stopStrings = t.list(t.text, MAX_STOP_STRINGS);
export const stop = t.nullable(union<string | string[]>(t.text, stopStrings));
export const effort = t.literal("none", "minimal", "low", "medium", "high", "xhigh", "max");

const scalar = union<string | Int>(t.text, t.int(), t.float);
/** Type of `vllm_xargs`: texts, numbers and lists of them, by name. */
export const freeArguments = t.nullable(t.dict(union<unknown>(scalar, t.list(scalar))));

/** Type of `top_logprobs`. Its check turns null into 0. */
export const topLogprobs: t.Type<Int> = {
  name: "integer, null",
  schema: t.intOrNull.schema,
  check: (value, state) => (value === null ? 0 : t.int().check(value, state)),
};

/** Fields of requests about images, audio and videos. */
export const media = {
  mm_payload: field<string>(t.literal("tensors", "none"), "tensors"),
  return_mm_kwargs: field(t.boolOrNull, null),
} as const;
/** Fields of requests that move cached data between servers. */
export const transfer = {
  kv_transfer_params: field(t.nullable(t.object), null),
  ec_transfer_params: field(t.nullable(t.object), null),
} as const;

/** Returns `strict` and `defer_loading` of a tool, without those that are null. The prompt lists only the returned members. */
export function optionalMembers(tool: PythonDict): PlainDict {
  const members = ["strict", "defer_loading"].map((name) => [name, get(tool, name) ?? null] as const);
  return Object.fromEntries(members.filter(([, value]) => value !== null));
}
