/** The encoder's thread: first message the vocabulary, then prompts; one answer to each, in order. */
import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { BpeEncoder } from "./bpe.ts";
import type { PromptPart } from "./types.ts";

/** The packed vocabulary. */
export type EncoderStart = Uint8Array;
/** Flat, because an array of text and numbers is posted four times faster than anything nested (Bun 1.4.5: 0.05 ms for 500 KB). */
export type EncoderRequest = readonly [allowSpecial: boolean, ...parts: PromptPart[]];
export type EncoderReply = Uint32Array | { readonly failed: string };

declare const self: Worker;

/** Streams are due to the microsecond, prompts are not. */
const NICE = 10;

let bpe: BpeEncoder | undefined;
lowerPriority();

self.onmessage = ({ data }: MessageEvent<EncoderStart | EncoderRequest>) => {
  if (data instanceof Uint8Array) {
    bpe = new BpeEncoder(data);
    return;
  }
  const [allowSpecial, ...parts] = data;
  try {
    const ids = bpe!.encode(parts, allowSpecial);
    self.postMessage(ids satisfies EncoderReply, [ids.buffer]);
  } catch (error) {
    self.postMessage({ failed: String(error) } satisfies EncoderReply);
  }
};

/** Linux gives each thread its own nice value; elsewhere there is no such thing, and nothing is done. */
function lowerPriority(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICE);
  } catch {
    // No /proc (a container may hide it): the thread runs at normal priority.
  }
}
