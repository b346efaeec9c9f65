/**
 * Encodes prompts in a thread of low priority, so that streams are not delayed.
 *
 * The thread starts with the first prompt. It gets a copy of the packed vocabulary. IDs come back without a copy. Short texts are
 * encoded on the main thread as soon as the thread has shared its index, because two messages would cost more.
 */

import { onThreadEnd } from "../../base/thread-end.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { BrokenStructure } from "../grammar/broken.ts";
import type { Structure } from "../grammar/structure.ts";
import { BpeEncoder } from "./bpe.ts";
import type {
  BuiltInStart,
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
 * Returns an encoder with its own thread. `vocabulary`: the packed file. `due`: shared memory with the time of the next step on
 * the same processor, for which the thread pauses, or null. `script`: the thread's script, for tests.
 */
export function createEncoder(
  vocabulary: Uint8Array,
  due: SharedArrayBuffer | null = null,
  script: URL = new URL("./encoder-worker.ts", import.meta.url),
): Encoder {
  return new WorkerEncoder({ vocabulary, due }, script);
}

/**
 * Starts an encoder with the tokenizer of a Hugging Face folder. Returns it with the content of the folder. Rejects if the folder
 * cannot be used.
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

/** The promise of an order without an answer. */
interface PendingOrder {
  resolve(answer: EncoderAnswer): void;
  reject(error: Error): void;
}

/** The first message to each thread. The number of a folder's order is added later. */
type FirstMessage = BuiltInStart | Omit<FolderOrder, "id">;
type Order = EncoderRequest | PackedRequest | Utf8Request | FolderOrder | EncoderOrder;

/** Characters that are encoded in the time of a message to the thread, about 5 us. */
const SHORT_CHARACTERS = 256;

/** Error that the thread reports. */
export class EncoderFailure extends Error {
  override readonly name = "EncoderFailure";
}

class WorkerEncoder implements Encoder {
  #worker: Worker | undefined;
  #closed = false;
  /** Encoder of short texts on this thread. Null until the thread has shared its index. */
  #shortTexts: BpeEncoder | null = null;
  front = 0;
  /** Orders without an answer, by number. */
  readonly #waiting = new Map<number, PendingOrder>();
  #orders = 0;
  #forgetThread = () => {};

  constructor(
    private readonly first: FirstMessage,
    private readonly script: URL,
  ) {}

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
    moved: ArrayBuffer[] = [],
  ): Promise<Uint32Array> {
    const answer = await this.#done(order, moved);
    return (answer as { readonly ids: Uint32Array }).ids;
  }

  async write(structure: Structure, seeds: readonly number[]): Promise<(Uint32Array | null)[]> {
    const answer = await this.#done((id) => ({ id, structure, seeds }));
    return [...(answer as { readonly written: readonly (Uint32Array | null)[] }).written];
  }

  /**
   * Sends an order and returns its answer. Logs failures of the thread, because not every caller does: models of a Triton server
   * put them into their answers. `moved`: buffers that are moved to the thread.
   */
  async #done(order: (id: number) => Order, moved: ArrayBuffer[] = []): Promise<EncoderAnswer> {
    try {
      return await this.#ask(this.#running(), order, moved);
    } catch (error) {
      if (error instanceof EncoderFailure) logUnexpected("a prompt cannot be encoded, and its request fails", error);
      throw error;
    }
  }

  /** Returns the thread, and starts it if necessary. */
  #running(): Worker {
    if (this.#closed) throw new Error("the encoder is closed");
    // A thread that replaces a dead one reads the folder again before its first prompt. If that fails, the next call starts
    // another thread.
    if (this.#worker === undefined && "folder" in this.first)
      void this.open().catch((error: Error) => this.#fail(error));
    this.#worker ??= this.#start();
    return this.#worker;
  }

  short(parts: readonly PromptPart[], allowSpecial: boolean): Uint32Array | null {
    if (this.#shortTexts === null || this.#closed) return null;
    let characters = 0;
    for (const part of parts) characters += typeof part === "number" ? 1 : part.length;
    return characters > SHORT_CHARACTERS ? null : this.#shortTexts.encode(parts, allowSpecial);
  }

  /** Starts the thread of a folder. Returns the folder's content. */
  async open(): Promise<ModelFolder> {
    const { folder: path } = this.first as Omit<FolderOrder, "id">;
    this.#worker = this.#start();
    const answer = await this.#ask(this.#worker, (id) => ({ id, folder: path }));
    const { folder } = answer as { readonly folder: ModelFolder };
    this.front = folder.front;
    return folder;
  }

  /** `moved`: buffers that are moved to the thread. */
  #ask(worker: Worker, order: (id: number) => Order, moved: ArrayBuffer[] = []): Promise<EncoderAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<EncoderAnswer>();
    // The process must not end before the answer.
    if (this.#waiting.size === 0) worker.ref();
    const id = this.#orders++;
    this.#waiting.set(id, { resolve, reject });
    worker.postMessage(order(id), moved);
    return promise;
  }

  close(): void {
    this.#closed = true;
    this.#fail(new Error("the encoder was closed"));
  }

  #start(): Worker {
    const worker = new Worker(this.script, { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<EncoderReply>) => {
      if (worker !== this.#worker) return;
      if ("slots" in data) this.#shortTexts ??= new BpeEncoder((this.first as BuiltInStart).vocabulary, data);
      else this.#answer(worker, data);
    };
    this.#forgetThread = onThreadEnd(worker, (why) => {
      const error = new Error(`the encoder thread ended: ${why}`);
      logUnexpected("prompts that were being encoded get 500, and the next one starts a new thread", error);
      this.#fail(error);
    });
    if ("vocabulary" in this.first) worker.postMessage(this.first);
    return worker;
  }

  #answer(worker: Worker, answer: EncoderAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    // A second answer, or one without an order.
    if (waiting === undefined) return;
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) worker.unref();
    if ("failed" in answer)
      waiting.reject(answer.broken ? new BrokenStructure(answer.failed) : new EncoderFailure(answer.failed));
    else waiting.resolve(answer);
  }

  /** Ends the thread, and rejects all orders without an answer. */
  #fail(error: Error): void {
    const lost = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#forgetThread();
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const { reject } of lost) reject(error);
  }
}
