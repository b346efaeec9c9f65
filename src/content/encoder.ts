/**
 * How does a prompt become token ids without holding up the streams?
 *
 * In a thread of its own at low priority, started with the first prompt: until then it costs nothing. The thread gets a
 * copy of the packed vocabulary; ids come back without a copy.
 */
import { BpeEncoder } from "./bpe.ts";
import type { EncoderReply, EncoderRequest, EncoderStart } from "./encoder-worker.ts";
import type { Encoder, PromptPart } from "./types.ts";

/** Encodes in a worker thread. `vocabulary`: the packed file. `script`: the thread's program; only tests give another. */
export function createEncoder(
  vocabulary: Uint8Array,
  script: URL = new URL("./encoder-worker.ts", import.meta.url),
): Encoder {
  return new WorkerEncoder(vocabulary, script);
}

/** Encodes in the calling thread, for tests and tools. */
export function createInlineEncoder(vocabulary: Uint8Array): Encoder {
  const bpe = new BpeEncoder(vocabulary);
  return { encode: async (parts, allowSpecial) => bpe.encode(parts, allowSpecial), close() {} };
}

interface Waiting {
  resolve(ids: Uint32Array): void;
  reject(error: Error): void;
}

class WorkerEncoder implements Encoder {
  readonly #vocabulary: Uint8Array;
  readonly #script: URL;
  #worker: Worker | undefined;
  #closed = false;
  /** In order of the calls; the worker answers in that order. */
  #waiting: Waiting[] = [];
  #answered = 0;

  constructor(vocabulary: Uint8Array, script: URL) {
    this.#vocabulary = vocabulary;
    this.#script = script;
  }

  encode(parts: readonly PromptPart[], allowSpecial: boolean): Promise<Uint32Array> {
    if (this.#closed) return Promise.reject(new Error("the encoder is closed"));
    this.#worker ??= this.#start();
    const { promise, resolve, reject } = Promise.withResolvers<Uint32Array>();
    if (this.#answered === this.#waiting.length) this.#worker.ref(); // the process stays while an answer is due
    this.#waiting.push({ resolve, reject });
    this.#worker.postMessage([allowSpecial, ...parts] satisfies EncoderRequest);
    return promise;
  }

  close(): void {
    this.#closed = true;
    this.#fail("the encoder was closed");
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<EncoderReply>) => {
      if (worker === this.#worker) this.#answer(worker, data);
    };
    // The next call starts a new thread.
    const died = (why: string) => {
      if (worker === this.#worker) this.#fail(why);
    };
    worker.onerror = ({ message }) => died(`the encoder thread failed: ${message}`);
    worker.addEventListener("close", () => died("the encoder thread ended"));
    worker.postMessage(this.#vocabulary satisfies EncoderStart);
    return worker;
  }

  #answer(worker: Worker, reply: EncoderReply): void {
    const { resolve, reject } = this.#waiting[this.#answered++]!;
    if (this.#answered === this.#waiting.length) {
      this.#waiting = [];
      this.#answered = 0;
      worker.unref();
    }
    if (reply instanceof Uint32Array) resolve(reply);
    else reject(new Error(`the prompt could not be encoded: ${reply.failed}`));
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
