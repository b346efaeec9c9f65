/** The encoder's thread: first message the vocabulary or a model's folder, then prompts; one answer to each, in order. */
import { DueTime } from "../host/due-time.ts";
import { lowerPriority } from "../host/low-priority.ts";
import { MakingWay } from "../host/making-way.ts";
import type { Structure } from "../structured/structure.ts";
import { BpeEncoder } from "./bpe.ts";
import type { ModelFolder } from "./model-folder.ts";
import { type PackedParts, unpacked } from "./packed-parts.ts";
import type { TokenIndex } from "./token-ids.ts";
import type { PromptPart } from "./types.ts";

/**
 * The packed vocabulary, with the page of the loop that it makes way for, or the path of a folder, whose answer is what it
 * says.
 */
export type EncoderStart = BuiltIn | { readonly folder: string };
export interface BuiltIn {
  readonly vocabulary: Uint8Array;
  readonly due: SharedArrayBuffer | null;
}
/** Flat, because an array of text and numbers is posted four times faster than anything nested (Bun 1.4.5: 0.05 ms for 500 KB). */
export type EncoderRequest = readonly [allowSpecial: boolean, addSpecial: boolean, ...parts: PromptPart[]];
export interface PackedRequest {
  readonly parts: PackedParts;
  readonly allowSpecial: boolean;
  readonly addSpecial: boolean;
}
/** The index of a vocabulary comes unasked, once. */
export type EncoderReply =
  | Uint32Array
  | ModelFolder
  | TokenIndex
  | { readonly written: readonly Uint32Array[] }
  | { readonly failed: string; readonly broken?: boolean };
/** Texts of a constraint, one for each seed. */
export interface EncoderOrder {
  readonly structure: Structure;
  readonly seeds: readonly number[];
}

declare const self: Worker;

type Encode = (parts: readonly PromptPart[], allowSpecial: boolean, addSpecial: boolean) => Uint32Array<ArrayBuffer>;

let encode: Encode | undefined;
lowerPriority();

type Message = EncoderStart | EncoderRequest | PackedRequest | EncoderOrder;

/** Messages that came while the writers were being loaded: answers keep the order of the calls. */
const behind: Message[] = [];
let loading = false;

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
    void open(data.folder);
    return;
  }
  if ("structure" in data) {
    write(data);
    return;
  }
  if ("parts" in data) {
    reply(unpacked(data.parts), data.allowSpecial, data.addSpecial);
    return;
  }
  const [allowSpecial, addSpecial, ...parts] = data;
  reply(parts, allowSpecial, addSpecial);
}

function reply(...[parts, allowSpecial, addSpecial]: Parameters<Encode>): void {
  try {
    const ids = encode!(parts, allowSpecial, addSpecial);
    self.postMessage(ids satisfies EncoderReply, [ids.buffer]);
  } catch (error) {
    self.postMessage({ failed: String(error) } satisfies EncoderReply);
  }
}

let writers: typeof import("../structured/structure.ts") | undefined;

/** What writes is loaded with the first order. */
function write(order: EncoderOrder): void {
  if (writers !== undefined) {
    self.postMessage(answer(order, writers));
    return;
  }
  loading = true;
  void import("../structured/structure.ts").then((loaded) => {
    writers = loaded;
    loading = false;
    self.postMessage(answer(order, loaded));
    for (let next = behind.shift(); next !== undefined && !loading; next = behind.shift()) take(next);
  });
}

function answer({ structure, seeds }: EncoderOrder, { writerOf }: NonNullable<typeof writers>): EncoderReply {
  try {
    const text = writerOf(structure);
    const allowSpecial = structure.kind === "calls" || structure.kind === "tags";
    return { written: seeds.map((seed, index) => encode!([text(seed, index)], allowSpecial, false)) };
  } catch (error) {
    const broken = (error as Error).name === "BrokenStructure";
    return { failed: (error as Error).message, broken };
  }
}

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
