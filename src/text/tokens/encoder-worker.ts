/**
 * The script of the encoder's thread. The first message has the vocabulary or the path of a model's folder. Others have prompts
 * or constraints. Each order has a number and gets one answer with that number, in the order of the messages.
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

/** The first message. Only a folder gets an answer. */
type EncoderStart = BuiltInStart | FolderOrder;
/** The path of a model's folder. The answer has its content. */
export interface FolderOrder {
  readonly id: number;
  readonly folder: string;
}
/** The packed vocabulary, and the shared memory in which the main thread writes when its next step is due. */
export interface BuiltInStart {
  readonly vocabulary: Uint8Array;
  readonly due: SharedArrayBuffer | null;
}
/** A prompt. Flat, because such an array is sent four times faster than nested data (Bun 1.4.5: 0.05 ms for 500 KB). */
export type EncoderRequest = readonly [id: number, allowSpecial: boolean, addSpecial: boolean, ...parts: PromptPart[]];
/** A prompt of many parts, as one text. */
export interface PackedRequest {
  readonly id: number;
  readonly parts: PackedParts;
  readonly allowSpecial: boolean;
  readonly addSpecial: boolean;
}
/** A prompt in UTF-8. Its memory is moved to the thread. */
export interface Utf8Request {
  readonly id: number;
  readonly utf8: ArrayBuffer;
  readonly allowSpecial: boolean;
  readonly addSpecial: boolean;
}
/** An answer, or the index of the built-in vocabulary, which is sent once at the start. */
export type EncoderReply = TokenIndex | EncoderAnswer;
/** The answer to an order. */
export type EncoderAnswer = { readonly id: number } & (
  | { readonly ids: Uint32Array }
  | { readonly folder: ModelFolder }
  | { readonly written: readonly (Uint32Array | null)[] }
  /** `broken`: true if the error is in the constraint. */
  | { readonly failed: string; readonly broken?: boolean }
);
/** An order for texts that fit a constraint, one per seed. */
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

/** Takes messages in order. While a folder or the writers are loaded, later messages wait, so that answers keep the order. */
class Inbox {
  readonly #waiting: Message[] = [];
  #isLoading = false;

  receive(message: Message): void {
    if (this.#isLoading) this.#waiting.push(message);
    else take(message);
  }

  /** Makes later messages wait. Throws if something is loaded already. */
  startLoading(): void {
    if (this.#isLoading) throw new Error("the encoder thread loads two things at once");
    this.#isLoading = true;
  }

  /** Takes the waiting messages, until one of them has to load something. */
  endLoading(): void {
    this.#isLoading = false;
    while (!this.#isLoading && this.#waiting.length > 0) take(this.#waiting.shift()!);
  }
}

const inbox = new Inbox();
self.onmessage = ({ data }: MessageEvent<Message>) => inbox.receive(data);

function take(data: Message): void {
  if ("vocabulary" in data) {
    const { vocabulary, due } = data;
    const bpe = new BpeEncoder(vocabulary, undefined, due === null ? undefined : new MakingWay(new DueTime(due)).pass);
    encode = (parts, allowSpecial) => bpe.encode(parts, allowSpecial);
    self.postMessage(bpe.index satisfies EncoderReply);
  } else if ("folder" in data) void open(data);
  else if ("structure" in data) write(data);
  else if ("parts" in data) reply(data.id, unpacked(data.parts), data.allowSpecial, data.addSpecial);
  else if ("utf8" in data) {
    const text = Buffer.from(data.utf8).toString();
    // Frees the memory at once.
    data.utf8.transfer(0);
    reply(data.id, [text], data.allowSpecial, data.addSpecial);
  } else {
    const [id, allowSpecial, addSpecial, ...parts] = data;
    reply(id, parts, allowSpecial, addSpecial);
  }
}

/** Encodes a prompt and sends the answer. */
function reply(id: number, ...[parts, allowSpecial, addSpecial]: Parameters<Encode>): void {
  try {
    const ids = encode!(parts, allowSpecial, addSpecial);
    self.postMessage({ id, ids } satisfies EncoderReply, [ids.buffer]);
  } catch (error) {
    self.postMessage({ id, failed: String(error) } satisfies EncoderReply);
  }
}

let writers: typeof import("../grammar/structure.ts") | undefined;

/** Answers an order for texts. Loads the writers with the first such order. */
function write(order: EncoderOrder): void {
  if (writers !== undefined) {
    self.postMessage(answer(order, writers));
    return;
  }
  inbox.startLoading();
  void import("../grammar/structure.ts").then((module) => {
    writers = module;
    self.postMessage(answer(order, module));
    inbox.endLoading();
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

/** Reads a folder and sends its content. Imports the reader here, because only servers with a folder need it. */
async function open({ id, folder: path }: FolderOrder): Promise<void> {
  inbox.startLoading();
  try {
    const { openModel } = await import("./model-tokenizer.ts");
    const { folder, encode: encodeWithModel } = openModel(path);
    encode = encodeWithModel;
    self.postMessage({ id, folder } satisfies EncoderReply, [folder.vocabulary.buffer]);
  } catch (error) {
    self.postMessage({ id, failed: (error as Error).message } satisfies EncoderReply);
  }
  inbox.endLoading();
}
