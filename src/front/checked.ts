/** How is a request answered that no engine is needed for? Its body is read and checked as any other; what is made of it is the caller's. */
import { TemplateRefusal } from "../content/chat-template.ts";
import { badRequest, Refused } from "../python/errors.ts";
import { inTurns, isLarge, type Pieces, turn } from "../python/pieces.ts";
import { readJson } from "../python/read-body.ts";
import type { Limits } from "../python/request.ts";
import { FAIL, State, type Type } from "../python/types.ts";
import { validationErrors } from "../python/validate.ts";
import type { PythonDict, PythonValue } from "../python/value.ts";
import type { Bodies } from "./body.ts";
import type { OpenAiOptions } from "./front.ts";
import type { Context, Http } from "./http.ts";
import { checkModel } from "./models.ts";

/** Fields that were given, by name. */
export type CheckedFields = ReadonlyMap<string, unknown>;

export interface Desk {
  readonly options: OpenAiOptions;
  readonly http: Http;
  readonly limits: Limits;
  readonly bodies: Bodies;
}

/** `check` and `made` may throw `Refused`; `made` gives the JSON of the answer. */
export async function answered(
  context: Context,
  { options, http, limits, bodies }: Desk,
  check: (body: PythonValue) => Pieces<CheckedFields>,
  made: (checked: CheckedFields, body: PythonDict) => string | Promise<string>,
): Promise<Response> {
  const { backend } = options;
  const { request } = context;
  const bytes = await bodies.read(context);
  if ("status" in bytes) return http.error(context, bytes);
  if (isLarge(bytes)) await backend.spare();
  const read = await inTurns(readJson(bytes, request.headers.get("content-type")), backend);
  if ("error" in read) return http.error(context, read.error);
  try {
    const checked = await inTurns(check(read.value), backend);
    checkModel((checked.get("model") ?? null) as string | null, limits);
    if (isLarge(bytes)) await turn(backend);
    return http.json(context, await made(checked, read.value as PythonDict));
  } catch (refusal) {
    if (refusal instanceof Refused) return http.error(context, refusal.answer);
    if (refusal instanceof TemplateRefusal) return http.error(context, badRequest(refusal.message));
    throw refusal;
  }
}

/** Throws `Refused`. */
export function* fitting(type: Type<CheckedFields>, body: PythonValue): Pieces<CheckedFields> {
  const state = new State(true);
  const checked = yield* type.pieces!(body, state);
  if (checked !== FAIL) return checked;
  state.prefix(0, "body");
  throw new Refused(validationErrors(state.errors!));
}
