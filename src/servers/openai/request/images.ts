/**
 * Turns images into prompt tokens. With `--image-tokens N` an image is N tokens in front of the text of its message. Equal images
 * have equal tokens, so that the prefix cache finds them. Images are neither decoded nor fetched. Without the option they are
 * refused, as by a model that reads only text.
 */
import type { RenderChat } from "../../../text/tokens/chat-template.ts";
import type { PromptPart, Vocabulary } from "../../../text/tokens/types.ts";
import type { OpenAiKernel } from "./openai-config.ts";

/** Encloses the number of an image in a text until the template is rendered. A private character, which users hardly send. */
const MARK = "\u{10fffc}";
const MARKED = /\u{10fffc}([0-9a-f]{8})\u{10fffc}/u;

/** Returns the text that stands for an image in its message. */
export function imageMark(url: string): string {
  return `${MARK}${new Bun.CryptoHasher("sha1").update(url).digest("hex").slice(0, 8)}${MARK}`;
}

/** Returns the kernel with a template that renders images. Without `--image-tokens`, returns it unchanged. */
export function withImages(kernel: OpenAiKernel): OpenAiKernel {
  const tokens = kernel.config.openai.requests.imageTokens;
  if (tokens === undefined) return kernel;
  const { model } = kernel.text;
  const { renderChat, vocabulary } = model;
  const render: RenderChat = (...given) => renderChat(...given).flatMap((part) => expanded(part, tokens, vocabulary));
  return { ...kernel, text: { ...kernel.text, model: { ...model, renderChat: render } } };
}

function expanded(part: PromptPart, tokens: number, vocabulary: Vocabulary): PromptPart[] {
  if (typeof part === "number" || !part.includes(MARK)) return [part];
  return part.split(MARKED).flatMap((piece, i): PromptPart[] => {
    if (i % 2 === 0) return piece === "" ? [] : [piece];
    return new Array(tokens).fill(tokenOf(Number.parseInt(piece, 16), vocabulary));
  });
}

/** Returns the tokens of an image for a prompt without a chat template. */
export function imageIds(image: string, tokens: number, vocabulary: Vocabulary): number[] {
  const hash = new Bun.CryptoHasher("sha1").update(image).digest().readUInt32BE();
  return new Array(tokens).fill(tokenOf(hash, vocabulary));
}

/** Turns a hash into the id of an ordinary token. A special one would act as a control token of the template. */
function tokenOf(hash: number, vocabulary: Vocabulary): number {
  let id = hash % vocabulary.size;
  for (let tries = 0; tries < vocabulary.size && vocabulary.isSpecial(id); tries++) id = (id + 1) % vocabulary.size;
  return id;
}
