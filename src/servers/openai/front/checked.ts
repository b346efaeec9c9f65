/** Reads and checks the bodies of requests that need no engine, such as `/tokenize`. The caller makes the answer. */

import { inTurns, isLarge, type Pieces, turn } from "../../../base/pieces.ts";
import { TemplateRefusal } from "../../../text/tokens/chat-template.ts";
import type { PackedParts } from "../../../text/tokens/packed-parts.ts";
import { readJson } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, RefusedRequest, refuse } from "../../pydantic/refusals.ts";
import { FAIL, State, type Type } from "../../pydantic/types.ts";
import { validationErrors } from "../../pydantic/validate.ts";
import type { PythonDict, PythonValue } from "../../pydantic/value.ts";
import { badRequest } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import type { Limits } from "../request/request.ts";
import type { Bodies } from "./admission.ts";
import type { Context, Http } from "./http.ts";
import { checkModel } from "./models.ts";
import type { PromptToEncode } from "./reading/messages.ts";
import { BodyReading, type ReadingThread } from "./reading/thread.ts";
import type { AnswerParts } from "./send-parts.ts";

/** Checked values of the fields that a body has, by name. */
export type CheckedFields = ReadonlyMap<string, unknown>;

/** Objects that the routes of a server share. Made once per server. */
export interface RouteDeps {
  readonly kernel: OpenAiKernel;
  readonly http: Http;
  readonly limits: Limits;
  readonly bodies: Bodies;
  /** Thread that reads the largest bodies. Null if there is none. */
  readonly thread: ReadingThread | null;
}

/** The JSON of an answer, long JSON in parts. */
type Json = string | AnswerParts;

/** Makes the answer of a body. Each function may throw `RefusedRequest`. */
interface BodyAnswerer {
  readonly check: (body: PythonValue) => Pieces<CheckedFields>;
  /** Makes the answer from the checked fields and the whole body. */
  readonly made: (checked: CheckedFields, body: PythonDict) => Json | Promise<Json>;
  /** Answers a large body that consists of token ids, which the reading thread has checked. */
  readonly ofIds?: (ids: Uint32Array<ArrayBuffer>) => Promise<Json>;
  /** Answers a large body whose prompt the reading thread has rendered. */
  readonly ofPrompt?: (prompt: PromptToEncode<PackedParts>) => Promise<Json>;
}

/** Answers a request, also if its body is refused or its prompt does not fit the chat template. */
export async function answered(context: Context, deps: RouteDeps, answering: BodyAnswerer): Promise<Response> {
  const { http } = deps;
  try {
    const json = await answerOf(context, deps, answering);
    return typeof json === "object" && "status" in json ? http.error(context, json) : http.json(context, json);
  } catch (refusal) {
    if (refusal instanceof RefusedRequest) return http.error(context, refusal.answer);
    if (refusal instanceof TemplateRefusal) return http.error(context, badRequest(refusal.message));
    throw refusal;
  }
}

async function answerOf(
  context: Context,
  { kernel: { backend }, limits, bodies, thread }: RouteDeps,
  { check, made, ofIds, ofPrompt }: BodyAnswerer,
): Promise<Json | ErrorAnswer> {
  const contentType = context.request.headers.get("content-type");
  const kind = ofIds ? "tokens" : ofPrompt ? "prompt" : "text";
  const came = await bodies.read(context, () => thread?.begin({ kind, contentType, limits }) ?? null);
  if ("status" in came) return came;
  const answer = came instanceof BodyReading ? await came.answer() : { text: came };
  if ("error" in answer) return answer.error;
  if ("tokens" in answer) return ofIds!(answer.tokens);
  if ("prompt" in answer) return ofPrompt!(answer.prompt);
  if (!("text" in answer))
    throw new Error("the reading thread returned a generation request for a body of another kind");
  if (isLarge(answer.text)) await backend.spare();
  const read = await inTurns(readJson(answer.text, contentType), backend);
  if ("error" in read) return read.error;
  const checked = await inTurns(check(read.value), backend);
  checkModelOf(checked, limits);
  if (isLarge(answer.text)) await turn(backend);
  return made(checked, read.value as PythonDict);
}

/** Checks the field `model` of a body. Throws `RefusedRequest`. */
export const checkModelOf = (checked: CheckedFields, limits: Limits): void =>
  checkModel((checked.get("model") ?? null) as string | null, limits);

/** Checks a body against the types of its fields. Throws `RefusedRequest` with all errors. */
export function* fitting(type: Type<CheckedFields>, body: PythonValue): Pieces<CheckedFields> {
  const state = new State(true);
  const checked = yield* type.pieces!(body, state);
  if (checked !== FAIL) return checked;
  state.prefix(0, "body");
  refuse(validationErrors(state.errors!, state.count));
}
