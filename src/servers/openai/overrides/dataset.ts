/** Answers requests from a dataset (docs/how-to/dataset.md), except choices that a schema or a tool call has written already. */

import { mix } from "../../../base/random.ts";
import { nextToken } from "../../../text/answers/answers.ts";
import type { AnswerDataset } from "../../../text/canned/dataset/dataset.ts";
import type { TextModel } from "../../../text/text-model.ts";
import type { Encoder } from "../../../text/tokens/types.ts";
import type { ChoiceWriter } from "../request/constrained.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import type { GenerationRequest, Limits } from "../request/request.ts";
import { checkPrompt } from "../request/sampling.ts";

/** Salt that makes the draw of a row independent of those for text and calls. */
const ROW = 0x6a09e667;
/** Rows that are read without a pause. Each takes 30 to 45 µs. */
const ROWS_AT_A_TIME = 32;

/** Returns the writer of a request's answers. `writing`: writes choices that must have a form, which the dataset then skips. */
export function fromDataset(
  dataset: Pick<AnswerDataset, "answerTo">,
  request: GenerationRequest,
  writing: ChoiceWriter | null,
  { backend, text: { model } }: OpenAiKernel,
  limits: Limits,
): ChoiceWriter {
  return async (seeds, prompts) => {
    const written = writing === null ? { answers: [] } : await writing(seeds, prompts);
    if ("error" in written) return written;
    const answers: (Uint32Array | null)[] = [];
    for (const [i, seed] of seeds.entries()) {
      if (i % ROWS_AT_A_TIME === ROWS_AT_A_TIME - 1) await backend.spare();
      const at = Math.floor(i / request.n);
      answers.push(written.answers[i] ?? (await rowFor(dataset, request, prompts[at]!, at, seed, model, limits)));
    }
    return { answers };
  };
}

/** Returns the ids of the answer to a prompt. Null: the dataset has none, and the answer is drawn as usual. */
async function rowFor(
  dataset: Pick<AnswerDataset, "answerTo">,
  request: GenerationRequest,
  promptIds: Uint32Array,
  at: number,
  seed: number,
  { answers, encoder }: TextModel,
  limits: Limits,
): Promise<Uint32Array | null> {
  const fromText = request.kind === "chat" || typeof request.prompts[at] === "string";
  const checked = checkPrompt(request, promptIds.length, fromText, limits);
  // No answer is needed, because the request will be refused.
  if ("error" in checked) return null;
  const { maxTokens } = checked;
  const found = dataset.answerTo(promptIds, { tokens: maxTokens, exactly: request.ignoreEos }, mix(seed ^ ROW, 0));
  if (found === null) return null;
  const ids = typeof found === "string" ? await encoded(encoder, found, maxTokens * limits.maxTokenCharacters) : found;
  if (!request.ignoreEos || ids.length >= maxTokens) return ids.subarray(0, maxTokens);
  return Uint32Array.from({ length: maxTokens }, (_, position) => ids[position] ?? nextToken(answers, seed, position));
}

/** Encodes the first `characters` characters of a text, because more cannot fit into the answer. */
function encoded(encoder: Encoder, text: string, characters: number): Uint32Array | Promise<Uint32Array> {
  const part = [text.slice(0, characters).toWellFormed()];
  return encoder.short?.(part, false) ?? encoder.encode(part, false);
}
