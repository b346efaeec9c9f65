/**
 * Answers POST `/v1/embeddings` with vectors that are made up, for clients that also use embeddings (`--embedding-dimensions`).
 * The form is OpenAI's, the errors are vLLM 0.33's. No such request reaches the engine.
 */

import { inTurns, mapped, type Pieces } from "../../../base/pieces.ts";
import { embedding } from "../../../text/answers/embedding.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { answered, type CheckedFields, fitting, type RouteDeps } from "../../openai/front/checked.ts";
import type { Context } from "../../openai/front/http.ts";
import { JsonParts } from "../../openai/front/send-parts.ts";
import { badRequest, engineDead, refuseValue } from "../../openai/request/errors.ts";
import { checkPromptText } from "../../openai/request/prompts.ts";
import { emptyPrompt, promptTooLong, unknownId } from "../../openai/request/sampling.ts";
import { type ErrorAnswer, refuse } from "../../pydantic/refusals.ts";
import { optional, record, required, union } from "../../pydantic/structures.ts";
import { int, list, literal, nullable, type Type, text } from "../../pydantic/types.ts";
import type { Int } from "../../pydantic/value.ts";
import { readPrompts } from "./translate.ts";

type Input = Int[] | Int[][] | string | string[];

const ids = list(int({ ge: 0 }));

export const embeddingBody: Type<CheckedFields> = record("EmbeddingCompletionRequest", {
  model: optional(nullable(text)),
  input: required(union<Input>(ids, list(ids), text, list(text))),
  encoding_format: optional(literal("float", "base64")),
  dimensions: optional(nullable(int())),
  user: optional(nullable(text)),
});

/** Most inputs of a request: OpenAI's limit, not vLLM's. */
const INPUTS_MOST = 2048;
/** Most dimensions, because a vector is drawn in one go. */
const DIMENSIONS_MOST = 65_536;
/** Most numbers in an answer, which are about 20 MB of JSON. */
const NUMBERS_MOST = INPUTS_MOST * 512;
/** Numbers that are written as JSON at a time. */
const NUMBERS_AT_A_TIME = 1024;

/** The handler of `/v1/embeddings`. */
export class Embeddings {
  /** `dimensions`: dimensions of a vector if the request names none. */
  constructor(
    private readonly deps: RouteDeps,
    private readonly dimensions: number,
  ) {}

  answer(context: Context): Promise<Response> {
    const made = (checked: CheckedFields) => this.#respond(context.request, checked);
    return answered(context, this.deps, { check: (body) => fitting(embeddingBody, body), made });
  }

  async #respond({ headers }: HttpRequest, checked: CheckedFields): Promise<JsonParts> {
    const { backend, chance, config, engines, time } = this.deps.kernel;
    if (!engines.alive.get()) refuse(engineDead);
    const dimensions = (checked.get("dimensions") as Int | null | undefined) ?? this.dimensions;
    if (dimensions < 1) refuse(badRequest("Dimensions must be greater than 0"));
    const { prompts, oversized } = readPrompts(checked.get("input") as Input);
    if (prompts.length === 0) refuseValue("You must pass at least one prompt", "input");
    checkSize(prompts.length, dimensions);
    const encoding = await inTurns(
      mapped(prompts, (prompt) => this.#encoded(prompt)),
      backend,
    );
    const all = await Promise.all(encoding);
    const error = await inTurns(this.#promptError(all, prompts, oversized), backend);
    if (error !== null) refuse(error);
    const base64 = checked.get("encoding_format") === "base64";
    const tokens = all.reduce((sum, { length }) => sum + length, 0);
    const model = JSON.stringify(
      (checked.get("model") as string | null | undefined) || config.models.servedModelNames[0],
    );
    const id = JSON.stringify(`embd-${headers.get("x-request-id") ?? chance.newId(8)}`);
    const json = new JsonParts();
    json.add(`{"id":${id},"object":"list","created":${Math.floor(time.epochSeconds())},"model":${model},"data":[`);
    await inTurns(vectors(json, all, Number(dimensions), config.engine.seed, base64), backend);
    json.add(
      `],"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens},"completion_tokens":0,"prompt_tokens_details":null,"completion_tokens_details":null}}`,
    );
    return json.end();
  }

  /** Returns the token IDs of a prompt, or a promise of them. Throws `RefusedRequest` if its text is too long. */
  #encoded(prompt: string | Uint32Array): Uint32Array | Promise<Uint32Array> {
    if (typeof prompt !== "string") return prompt;
    const error = checkPromptText(prompt, this.deps.limits);
    if (error !== null) refuse(error);
    const { encoder } = this.deps.kernel.text.model;
    return encoder.short?.([prompt], true) ?? encoder.encode([prompt], true, true);
  }

  /** Returns the error of the first prompt that has one, or null. */
  *#promptError(
    all: readonly Uint32Array[],
    prompts: readonly (string | Uint32Array)[],
    oversized: Int | null,
  ): Pieces<ErrorAnswer | null> {
    const { limits } = this.deps;
    const most = limits.maxModelLen;
    for (const [at, ids] of all.entries()) {
      const fromText = typeof prompts[at] === "string";
      if (ids.length === 0) return emptyPrompt;
      if (ids.length > most) return promptTooLong(fromText ? most + 1 : ids.length, most);
      const unknown = fromText ? null : yield* unknownId(ids, oversized, limits);
      if (unknown !== null) return unknown;
    }
    return null;
  }
}

function checkSize(inputs: number, dimensions: Int): void {
  if (inputs > INPUTS_MOST) refuseValue(`At most ${INPUTS_MOST} inputs are accepted`, "input", String(inputs));
  if (dimensions > DIMENSIONS_MOST)
    refuseValue(`At most ${DIMENSIONS_MOST} dimensions are accepted`, "dimensions", String(dimensions));
  if (inputs * Number(dimensions) > NUMBERS_MOST)
    refuseValue(
      `At most ${NUMBERS_MOST} numbers (inputs times dimensions) are returned`,
      "dimensions",
      String(dimensions),
    );
}

/** Adds the items of `data`, one per prompt, to `json`. */
function* vectors(
  json: JsonParts,
  prompts: readonly Uint32Array[],
  dimensions: number,
  seed: number,
  base64: boolean,
): Pieces<void> {
  for (const [index, ids] of prompts.entries()) {
    const vector = embedding(ids, dimensions, seed);
    yield;
    json.add(`${index > 0 ? "," : ""}{"index":${index},"object":"embedding","embedding":`);
    if (base64) json.add(`"${Buffer.from(vector.buffer).toString("base64")}"}`);
    else {
      for (let at = 0; at < vector.length; at += NUMBERS_AT_A_TIME) {
        json.add(`${at > 0 ? "," : "["}${vector.subarray(at, at + NUMBERS_AT_A_TIME).join()}`);
        yield;
      }
      json.add("]}");
    }
    yield;
  }
}
