/**
 * What does an image cost? With `--image-tokens N` each is N tokens of its prompt, in front of its message's text; equal
 * images are equal tokens, so that they find each other in the prefix cache, and different ones are not. Nobody looks
 * into them, and nothing is fetched. Without the option they are refused, as by a model of text.
 */
import type { RenderChat } from "../../../text/tokens/chat-template.ts";
import type { PromptPart, Vocabulary } from "../../../text/tokens/types.ts";
import type { OpenAiKernel } from "./openai-config.ts";

/** Around an image's number in a text, until the template has put it into its place; no text of a user's holds it but by intent. */
const MARK = "\u{10fffc}";
const MARKED = /\u{10fffc}([0-9a-f]{8})\u{10fffc}/u;

/** Stands for an image in the text of its message. */
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

/** The ids that stand for an image where no template puts it into its place. */
export function imageIds(image: string, tokens: number, vocabulary: Vocabulary): number[] {
  const hash = new Bun.CryptoHasher("sha1").update(image).digest().readUInt32BE();
  return new Array(tokens).fill(tokenOf(hash, vocabulary));
}

/** An ordinary token: a special one would be a control token of the template. */
function tokenOf(hash: number, vocabulary: Vocabulary): number {
  let id = hash % vocabulary.size;
  for (let tries = 0; tries < vocabulary.size && vocabulary.isSpecial(id); tries++) id = (id + 1) % vocabulary.size;
  return id;
}
