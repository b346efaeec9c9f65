/**
 * How does a prompt become token ids without holding up the streams?
 *
 * In a thread of its own at low priority, started with the first prompt: until then it costs nothing. The thread gets a
 * copy of the packed vocabulary; ids come back without a copy.
 *
 * Short texts cost less than the two messages: once the thread is there and has lent its index, they are encoded here.
 */

import { BrokenStructure } from "../structured/broken.ts";
import type { Structure } from "../structured/structure.ts";
import { BpeEncoder } from "./bpe.ts";
import type {
  BuiltIn,
  EncoderOrder,
  EncoderReply,
  EncoderRequest,
  EncoderStart,
  PackedRequest,
} from "./encoder-worker.ts";
import type { ModelFolder } from "./model-folder.ts";
import type { PackedParts } from "./packed-parts.ts";
import type { TokenIndex } from "./token-ids.ts";
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
  resolve(ids: never): void;
  reject(error: Error): void;
}

/** Characters whose encoding takes about as long as a message to the thread: 5 us. */
const SHORT_CHARACTERS = 256;

/** What the thread says it cannot do. */
export class EncoderFailure extends Error {
  override readonly name = "EncoderFailure";
}

class WorkerEncoder implements Encoder {
  readonly #first: EncoderStart;
  readonly #script: URL;
  #worker: Worker | undefined;
  #closed = false;
  #near: BpeEncoder | null = null;
  front = 0;
  /** In order of the calls; the worker answers in that order. */
  #waiting: Waiting[] = [];
  #answered = 0;

  constructor(first: EncoderStart, script: URL) {
    this.#first = first;
    this.#script = script;
  }

  async encode(parts: readonly PromptPart[], allowSpecial: boolean, addSpecial = false): Promise<Uint32Array> {
    return this.#ask<Uint32Array>(this.#running(), [allowSpecial, addSpecial, ...parts] satisfies EncoderRequest);
  }

  async encodePacked(parts: PackedParts, allowSpecial: boolean, addSpecial: boolean): Promise<Uint32Array> {
    return this.#ask<Uint32Array>(this.#running(), { parts, allowSpecial, addSpecial });
  }

  async write(structure: Structure, seeds: readonly number[]): Promise<Uint32Array[]> {
    const { written } = await this.#ask<{ written: Uint32Array[] }>(this.#running(), { structure, seeds });
    return written;
  }

  #running(): Worker {
    if (this.#closed) throw new Error("the encoder is closed");
    // A thread that takes the place of a dead one reads the folder again; its answer comes before this one's.
    if (this.#worker === undefined && "folder" in this.#first) void this.open().catch(() => {});
    this.#worker ??= this.#start();
    return this.#worker;
  }

  short(parts: readonly PromptPart[], allowSpecial: boolean): Uint32Array | null {
    if (this.#near === null || this.#closed) return null;
    let characters = 0;
    for (const part of parts) characters += typeof part === "number" ? 1 : part.length;
    return characters > SHORT_CHARACTERS ? null : this.#near.encode(parts, allowSpecial);
  }

  /** For a folder: starts the thread, and says what it read. */
  async open(): Promise<ModelFolder> {
    this.#worker = this.#start();
    const folder = await this.#ask<ModelFolder>(this.#worker, this.#first);
    this.front = folder.front;
    return folder;
  }

  #ask<T>(worker: Worker, message: EncoderRequest | PackedRequest | EncoderStart | EncoderOrder): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (this.#answered === this.#waiting.length) worker.ref(); // the process stays while an answer is due
    this.#waiting.push({ resolve, reject });
    worker.postMessage(message);
    return promise;
  }

  close(): void {
    this.#closed = true;
    this.#fail("the encoder was closed");
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<EncoderReply>) => {
      if (worker !== this.#worker) return;
      if ("slots" in data) this.#near ??= new BpeEncoder((this.#first as BuiltIn).vocabulary, data);
      else this.#answer(worker, data);
    };
    // The next call starts a new thread.
    const died = (why: string) => {
      if (worker === this.#worker) this.#fail(why);
    };
    worker.onerror = ({ message }) => died(`the encoder thread failed: ${message}`);
    worker.addEventListener("close", () => died("the encoder thread ended"));
    if ("vocabulary" in this.#first) worker.postMessage(this.#first);
    return worker;
  }

  #answer(worker: Worker, reply: Exclude<EncoderReply, TokenIndex>): void {
    const { resolve, reject } = this.#waiting[this.#answered++]!;
    if (this.#answered === this.#waiting.length) {
      this.#waiting = [];
      this.#answered = 0;
      worker.unref();
    }
    if ("failed" in reply) reject(reply.broken ? new BrokenStructure(reply.failed) : new EncoderFailure(reply.failed));
    else resolve(reply as never);
  }

  #fail(why: string): void {
    const lost = this.#waiting.slice(this.#answered);
    this.#waiting = [];
    this.#answered = 0;
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const { reject } of lost) reject(new Error(why));
  }
}
