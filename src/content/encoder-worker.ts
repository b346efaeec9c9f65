/** The encoder's thread: first message the vocabulary or a model's folder, then prompts; one answer to each, in order. */
import { BpeEncoder } from "./bpe.ts";
import { lowerPriority } from "./low-priority.ts";
import type { ModelFolder } from "./model-folder.ts";
import type { TokenIndex } from "./token-ids.ts";
import type { PromptPart } from "./types.ts";

/** The packed vocabulary, or the path of a folder, whose answer is what it says. */
export type EncoderStart = Uint8Array | { readonly folder: string };
/** Flat, because an array of text and numbers is posted four times faster than anything nested (Bun 1.4.5: 0.05 ms for 500 KB). */
export type EncoderRequest = readonly [allowSpecial: boolean, addSpecial: boolean, ...parts: PromptPart[]];
/** The index of a vocabulary comes unasked, once. */
export type EncoderReply = Uint32Array | ModelFolder | TokenIndex | { readonly failed: string };

declare const self: Worker;

type Encode = (parts: readonly PromptPart[], allowSpecial: boolean, addSpecial: boolean) => Uint32Array<ArrayBuffer>;

let encode: Encode | undefined;
lowerPriority();

self.onmessage = ({ data }: MessageEvent<EncoderStart | EncoderRequest>) => {
  if (data instanceof Uint8Array) {
    const bpe = new BpeEncoder(data);
    encode = (parts, allowSpecial) => bpe.encode(parts, allowSpecial);
    self.postMessage(bpe.index satisfies EncoderReply);
    return;
  }
  if ("folder" in data) return void open(data.folder);
  const [allowSpecial, addSpecial, ...parts] = data;
  try {
    const ids = encode!(parts, allowSpecial, addSpecial);
    self.postMessage(ids satisfies EncoderReply, [ids.buffer]);
  } catch (error) {
    self.postMessage({ failed: String(error) } satisfies EncoderReply);
  }
};

/** Only a server that was given a folder loads what reads it. */
async function open(path: string): Promise<void> {
  try {
    const { openModel } = await import("./model-tokenizer.ts");
    const { folder, encode: made } = openModel(path);
    encode = made;
    self.postMessage(folder satisfies EncoderReply, [folder.vocabulary.buffer]);
  } catch (error) {
    self.postMessage({ failed: (error as Error).message } satisfies EncoderReply);
  }
}
