/** What does a dataset say to a request of these prompts? All choices that nothing else has written: no schema, no call. */

import { mix } from "../../../base/random.ts";
import { nextToken } from "../../../text/answers/answers.ts";
import type { AnswerDataset } from "../../../text/canned/dataset/dataset.ts";
import type { TextModel } from "../../../text/text-model.ts";
import type { Encoder } from "../../../text/tokens/types.ts";
import type { Writing } from "../request/constrained.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import type { ChatRequest, CompletionRequest, Limits } from "../request/request.ts";
import { checkPrompt } from "../request/sampling.ts";

type Asking = ChatRequest | CompletionRequest;

/** Separates the draw of the row from those of text and calls. */
const ROW = 0x6a09e667;
/** Rows that are read in one go: 30 to 45 µs each. */
const ROWS_AT_A_TIME = 32;

/** `writing`: what is written first; null: nothing. */
export function fromDataset(
  dataset: Pick<AnswerDataset, "answerTo">,
  request: Asking,
  writing: Writing | null,
  { backend, text: { model } }: OpenAiKernel,
  limits: Limits,
): Writing {
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

/** null: the answer is drawn as ever. */
async function rowFor(
  dataset: Pick<AnswerDataset, "answerTo">,
  request: Asking,
  promptIds: Uint32Array,
  at: number,
  seed: number,
  { answers, encoder }: TextModel,
  limits: Limits,
): Promise<Uint32Array | null> {
  const fromText = request.kind === "chat" || typeof request.prompts[at] === "string";
  const checked = checkPrompt(request, promptIds.length, fromText, limits);
  // The request is refused before long.
  if ("error" in checked) return null;
  const { maxTokens } = checked;
  const found = dataset.answerTo(promptIds, { tokens: maxTokens, exactly: request.ignoreEos }, mix(seed ^ ROW, 0));
  if (found === null) return null;
  const ids = typeof found === "string" ? await encoded(encoder, found, maxTokens * limits.maxTokenCharacters) : found;
  if (!request.ignoreEos || ids.length >= maxTokens) return ids.subarray(0, maxTokens);
  return Uint32Array.from({ length: maxTokens }, (_, position) => ids[position] ?? nextToken(answers, seed, position));
}

/** What is beyond so many characters is cut anyway. */
function encoded(encoder: Encoder, text: string, characters: number): Uint32Array | Promise<Uint32Array> {
  const part = [text.slice(0, characters).toWellFormed()];
  return encoder.short?.(part, false) ?? encoder.encode(part, false);
}
