/**
 * The encoder's thread. The first message holds the vocabulary or the path of a model's folder; then come prompts and
 * constraints. Each order has a number and is answered once, with that number, in the order of the calls.
 */

import { DueTime } from "../../base/time/due-time.ts";
import { lowerPriority } from "../../base/time/low-priority.ts";
import { MakingWay } from "../../base/time/making-way.ts";
import { BrokenStructure } from "../grammar/broken.ts";
import type { Structure } from "../grammar/structure.ts";
import { BpeEncoder, type TokenIndex } from "./bpe.ts";
import type { ModelFolder } from "./model-folder.ts";
import { type PackedParts, unpacked } from "./packed-parts.ts";
import type { PromptPart } from "./types.ts";

/** The first message. Only a folder is answered, with its content. */
export type EncoderStart = BuiltIn | FolderOrder;
export interface FolderOrder {
  readonly id: number;
  readonly folder: string;
}
/** The packed vocabulary, and the memory in which its loop says when it is due. */
export interface BuiltIn {
  readonly vocabulary: Uint8Array;
  readonly due: SharedArrayBuffer | null;
}
/** Flat, because an array of text and numbers is posted four times faster than anything nested (Bun 1.4.5: 0.05 ms for 500 KB). */
export type EncoderRequest = readonly [id: number, allowSpecial: boolean, addSpecial: boolean, ...parts: PromptPart[]];
export interface PackedRequest {
  readonly id: number;
  readonly parts: PackedParts;
  readonly allowSpecial: boolean;
  readonly addSpecial: boolean;
}
/** A text of UTF-8, in memory that is the thread's from then on. */
export interface Utf8Request {
  readonly id: number;
  readonly utf8: ArrayBuffer;
  readonly allowSpecial: boolean;
  readonly addSpecial: boolean;
}
/** An answer, or the index of a vocabulary, which is sent once without an order. */
export type EncoderReply = TokenIndex | EncoderAnswer;
export type EncoderAnswer = { readonly id: number } & (
  | { readonly ids: Uint32Array }
  | { readonly folder: ModelFolder }
  | { readonly written: readonly (Uint32Array | null)[] }
  /** `broken`: the constraint cannot be fulfilled. */
  | { readonly failed: string; readonly broken?: boolean }
);
/** Texts of a constraint, one for each seed. */
export interface EncoderOrder {
  readonly id: number;
  readonly structure: Structure;
  readonly seeds: readonly number[];
}

declare const self: Worker;

type Encode = (parts: readonly PromptPart[], allowSpecial: boolean, addSpecial: boolean) => Uint32Array<ArrayBuffer>;

let encode: Encode | undefined;
lowerPriority();

type Message = EncoderStart | EncoderRequest | PackedRequest | Utf8Request | EncoderOrder;

/** Messages that came while a folder or the writers were being loaded. Answers keep the order of the calls. */
const behind: Message[] = [];
let loading = false;

/** Takes the messages that came meanwhile, until one of them loads something itself. */
function loaded(): void {
  loading = false;
  while (!loading && behind.length > 0) take(behind.shift()!);
}

self.onmessage = ({ data }: MessageEvent<Message>) => {
  if (loading) behind.push(data);
  else take(data);
};

function take(data: Message): void {
  if ("vocabulary" in data) {
    const { vocabulary, due } = data;
    const bpe = new BpeEncoder(vocabulary, undefined, due === null ? undefined : new MakingWay(new DueTime(due)).pass);
    encode = (parts, allowSpecial) => bpe.encode(parts, allowSpecial);
    self.postMessage(bpe.index satisfies EncoderReply);
    return;
  }
  if ("folder" in data) {
    void open(data);
    return;
  }
  if ("structure" in data) {
    write(data);
    return;
  }
  if ("parts" in data) {
    reply(data.id, unpacked(data.parts), data.allowSpecial, data.addSpecial);
    return;
  }
  if ("utf8" in data) {
    const text = Buffer.from(data.utf8).toString();
    data.utf8.transfer(0); // frees it at once
    reply(data.id, [text], data.allowSpecial, data.addSpecial);
    return;
  }
  const [id, allowSpecial, addSpecial, ...parts] = data;
  reply(id, parts, allowSpecial, addSpecial);
}

function reply(id: number, ...[parts, allowSpecial, addSpecial]: Parameters<Encode>): void {
  try {
    const ids = encode!(parts, allowSpecial, addSpecial);
    self.postMessage({ id, ids } satisfies EncoderReply, [ids.buffer]);
  } catch (error) {
    self.postMessage({ id, failed: String(error) } satisfies EncoderReply);
  }
}

let writers: typeof import("../grammar/structure.ts") | undefined;

/** Writes answers under a constraint. The module that does so is loaded with the first order. */
function write(order: EncoderOrder): void {
  if (writers !== undefined) {
    self.postMessage(answer(order, writers));
    return;
  }
  loading = true;
  void import("../grammar/structure.ts").then((module) => {
    writers = module;
    self.postMessage(answer(order, module));
    loaded();
  });
}

function answer(
  { id, structure, seeds }: EncoderOrder,
  { allowsSpecial, writerOf }: NonNullable<typeof writers>,
): EncoderReply {
  try {
    const write = writerOf(structure);
    const ids = (text: string | null) =>
      text === null ? null : encode!([text], allowsSpecial(structure, text), false);
    return { id, written: seeds.map((seed, index) => ids(write(seed, index))) };
  } catch (error) {
    const broken = error instanceof BrokenStructure;
    return { id, failed: (error as Error).message, broken };
  }
}

/** Only a server that was given a folder loads the module that reads it. Prompts may come while that takes place. */
async function open({ id, folder: path }: FolderOrder): Promise<void> {
  loading = true;
  try {
    const { openModel } = await import("./model-tokenizer.ts");
    const { folder, encode: made } = openModel(path);
    encode = made;
    self.postMessage({ id, folder } satisfies EncoderReply, [folder.vocabulary.buffer]);
  } catch (error) {
    self.postMessage({ id, failed: (error as Error).message } satisfies EncoderReply);
  }
  loaded();
}
