/**
 * How does a prompt become token ids without holding up the streams?
 *
 * In a thread of its own at low priority, started with the first prompt: until then it costs nothing. The thread gets a
 * copy of the packed vocabulary; ids come back without a copy.
 *
 * Short texts cost less than the two messages: once the thread is there and has lent its index, they are encoded here.
 */

import { onThreadEnd } from "../../base/thread-end.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { BrokenStructure } from "../grammar/broken.ts";
import type { Structure } from "../grammar/structure.ts";
import { BpeEncoder } from "./bpe.ts";
import type {
  BuiltIn,
  EncoderAnswer,
  EncoderOrder,
  EncoderReply,
  EncoderRequest,
  FolderOrder,
  PackedRequest,
  Utf8Request,
} from "./encoder-worker.ts";
import type { ModelFolder } from "./model-folder.ts";
import type { PackedParts } from "./packed-parts.ts";
import type { Encoder, PromptPart } from "./types.ts";

/**
 * Encodes in a worker thread. `vocabulary`: the packed file. `due`: the page of a loop on the same processor, which the
 * thread makes way for. `script`: the thread's program; only tests give another.
 */
export function createEncoder(
  vocabulary: Uint8Array,
  due: SharedArrayBuffer | null = null,
  script: URL = new URL("./encoder-worker.ts", import.meta.url),
): Encoder {
  return new WorkerEncoder({ vocabulary, due }, script);
}

/**
 * Encodes with the tokenizer of a Hugging Face folder, in a worker thread that is started at once, and says what the folder
 * holds. Rejects with what is wrong with it.
 */
export async function openFolder(path: string): Promise<{ readonly encoder: Encoder; readonly folder: ModelFolder }> {
  const encoder = new WorkerEncoder({ folder: path }, new URL("./encoder-worker.ts", import.meta.url));
  try {
    return { encoder, folder: await encoder.open() };
  } catch (error) {
    encoder.close();
    throw error;
  }
}

interface Waiting {
  resolve(answer: EncoderAnswer): void;
  reject(error: Error): void;
}

/** The first message to each thread; of a folder without its number. */
type First = BuiltIn | Omit<FolderOrder, "id">;
type Order = EncoderRequest | PackedRequest | Utf8Request | FolderOrder | EncoderOrder;

/** Characters whose encoding takes about as long as a message to the thread: 5 us. */
const SHORT_CHARACTERS = 256;

/** Error of the thread, in its words. */
export class EncoderFailure extends Error {
  override readonly name = "EncoderFailure";
}

class WorkerEncoder implements Encoder {
  readonly #first: First;
  readonly #script: URL;
  #worker: Worker | undefined;
  #closed = false;
  #near: BpeEncoder | null = null;
  front = 0;
  /** Orders without an answer, by their numbers. */
  readonly #waiting = new Map<number, Waiting>();
  #orders = 0;
  #forgetThread = () => {};

  constructor(first: First, script: URL) {
    this.#first = first;
    this.#script = script;
  }

  async encode(parts: readonly PromptPart[], allowSpecial: boolean, addSpecial = false): Promise<Uint32Array> {
    return this.#ids((id) => [id, allowSpecial, addSpecial, ...parts]);
  }

  async encodePacked(parts: PackedParts, allowSpecial: boolean, addSpecial: boolean): Promise<Uint32Array> {
    return this.#ids((id) => ({ id, parts, allowSpecial, addSpecial }));
  }

  async encodeUtf8(
    { buffer }: Uint8Array<ArrayBuffer>,
    allowSpecial: boolean,
    addSpecial: boolean,
  ): Promise<Uint32Array> {
    return this.#ids((id) => ({ id, utf8: buffer, allowSpecial, addSpecial }), [buffer]);
  }

  async #ids(
    order: (id: number) => EncoderRequest | PackedRequest | Utf8Request,
    given: ArrayBuffer[] = [],
  ): Promise<Uint32Array> {
    const answer = await this.#done(order, given);
    return (answer as { readonly ids: Uint32Array }).ids;
  }

  async write(structure: Structure, seeds: readonly number[]): Promise<(Uint32Array | null)[]> {
    const answer = await this.#done((id) => ({ id, structure, seeds }));
    return [...(answer as { readonly written: readonly (Uint32Array | null)[] }).written];
  }

  /**
   * Has the thread do it. Logs what the thread cannot do, because not every caller logs the errors of its requests: models
   * of a Triton server put them into their answers.
   */
  async #done(order: (id: number) => Order, given: ArrayBuffer[] = []): Promise<EncoderAnswer> {
    try {
      return await this.#ask(this.#running(), order, given);
    } catch (error) {
      if (error instanceof EncoderFailure) logUnexpected("a prompt cannot be encoded, and its request fails", error);
      throw error;
    }
  }

  #running(): Worker {
    if (this.#closed) throw new Error("the encoder is closed");
    // A thread that takes the place of a dead one reads the folder again before its first prompt. If it cannot, the next
    // call tries again with another.
    if (this.#worker === undefined && "folder" in this.#first)
      void this.open().catch((error: Error) => this.#fail(error));
    this.#worker ??= this.#start();
    return this.#worker;
  }

  short(parts: readonly PromptPart[], allowSpecial: boolean): Uint32Array | null {
    if (this.#near === null || this.#closed) return null;
    let characters = 0;
    for (const part of parts) characters += typeof part === "number" ? 1 : part.length;
    return characters > SHORT_CHARACTERS ? null : this.#near.encode(parts, allowSpecial);
  }

  /** For a folder: starts the thread, and returns what it read. */
  async open(): Promise<ModelFolder> {
    const { folder: path } = this.#first as Omit<FolderOrder, "id">;
    this.#worker = this.#start();
    const answer = await this.#ask(this.#worker, (id) => ({ id, folder: path }));
    const { folder } = answer as { readonly folder: ModelFolder };
    this.front = folder.front;
    return folder;
  }

  /** `given`: memory that the order hands over. */
  #ask(worker: Worker, order: (id: number) => Order, given: ArrayBuffer[] = []): Promise<EncoderAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<EncoderAnswer>();
    if (this.#waiting.size === 0) worker.ref(); // the process stays while an answer is due
    const id = this.#orders++;
    this.#waiting.set(id, { resolve, reject });
    worker.postMessage(order(id), given);
    return promise;
  }

  close(): void {
    this.#closed = true;
    this.#fail(new Error("the encoder was closed"));
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<EncoderReply>) => {
      if (worker !== this.#worker) return;
      if ("slots" in data) this.#near ??= new BpeEncoder((this.#first as BuiltIn).vocabulary, data);
      else this.#answer(worker, data);
    };
    this.#forgetThread = onThreadEnd(worker, (why) => {
      const error = new Error(`the encoder thread ended: ${why}`);
      logUnexpected("prompts that were being encoded get 500, and the next one starts a new thread", error);
      this.#fail(error);
    });
    if ("vocabulary" in this.#first) worker.postMessage(this.#first);
    return worker;
  }

  #answer(worker: Worker, answer: EncoderAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    if (waiting === undefined) return; // a second answer, or one that nobody asked for
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) worker.unref();
    if ("failed" in answer)
      waiting.reject(answer.broken ? new BrokenStructure(answer.failed) : new EncoderFailure(answer.failed));
    else waiting.resolve(answer);
  }

  #fail(error: Error): void {
    const lost = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#forgetThread();
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const { reject } of lost) reject(error);
  }
}
