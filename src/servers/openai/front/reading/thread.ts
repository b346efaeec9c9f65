/**
 * Reads the largest bodies on another thread, which has a low priority and its own heap. So parsing megabytes costs the event
 * loop neither time nor garbage collections, and the memory is free again when the idle thread ends. The thread gets a body part
 * by part. It returns a refusal, or the values that the loop needs: token ids, and texts in one piece.
 */
import { onThreadEnd } from "../../../../base/thread-end.ts";
import { logUnexpected } from "../../../../base/unexpected.ts";
import type { Backend } from "../../../../kernel/backend.ts";
import { LongError } from "../../../pydantic/refusals.ts";
import type { FromThread, ThreadAnswer, ThreadOrder, ThreadStart, ToThread } from "./messages.ts";

/** Idle time after which the thread ends, so that its memory is free again. */
const IDLE_US = 5_000_000;
/** After reading this many bytes the thread ends as soon as it is idle, because its heap keeps some of their memory. */
const RETIRES_BYTES = 64 * 2 ** 20;
/** If a collection leaves more on its heap, the thread ends as soon as it is idle, too. About two megabytes are its code. */
const KEPT_BYTES = 16 * 2 ** 20;

export class ReadingThread {
  #worker: Worker | null = null;
  readonly #waiting = new Map<number, { resolve(answer: ThreadAnswer): void; reject(error: Error): void }>();
  /** Announced bodies that are neither answered nor given up. */
  #open = 0;
  /** Bytes of bodies that the thread has read so far. */
  #bytes = 0;
  #ids = 0;
  #idle: (() => void) | null = null;

  constructor(
    private readonly script: URL,
    private readonly start: ThreadStart,
    private readonly backend: Pick<Backend, "after">,
  ) {}

  /** Announces a body. The caller pushes its parts to the result. Starts the thread if there is none. */
  begin(order: Omit<ThreadOrder, "id">): BodyReading {
    this.#idle?.();
    this.#idle = null;
    const id = this.#ids++;
    this.#open++;
    this.#worker ??= this.#started();
    this.#worker.postMessage({ ...order, id } satisfies ToThread);
    return new BodyReading(this, id);
  }

  /** Posts a message to the thread, if it still runs. For `BodyReading`. */
  post(message: ToThread, transferred: ArrayBuffer[] = []): void {
    this.#worker?.postMessage(message, transferred);
  }

  /** Returns the answer to a complete body. Rejects if the thread ends first. For `BodyReading`. */
  answer(id: number): Promise<ThreadAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#worker === null) return reject(new Error("the reading thread ended"));
      if (this.#waiting.size === 0) this.#worker.ref(); // keeps the process alive while an answer is due
      this.#waiting.set(id, { resolve, reject });
      this.post({ id, ended: true });
    });
  }

  /** Notes that a body of this many bytes is answered or given up. For `BodyReading`. */
  left(bytes: number): void {
    this.#bytes += bytes;
    if (--this.#open > 0) return;
    if (this.#bytes >= RETIRES_BYTES) this.#end(new Error("retired"));
    else this.#idle = this.backend.after?.(IDLE_US, () => this.#end(new Error("idle"))) ?? null;
  }

  /** Ends the thread as soon as it is idle. */
  #retire(): void {
    this.#bytes = RETIRES_BYTES;
    if (this.#open === 0) this.#end(new Error("retired"));
  }

  #started(): Worker {
    const worker = new Worker(this.script, { type: "module" });
    worker.unref();
    worker.onmessage = ({ data }: MessageEvent<FromThread>) => {
      if ("keptBytes" in data) {
        if (worker === this.#worker && data.keptBytes > KEPT_BYTES) this.#retire();
        return;
      }
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (this.#waiting.size === 0) worker.unref();
      if ("failed" in data) waiting?.reject(new Error(data.failed));
      else if ("long" in data) waiting?.resolve({ error: new LongError(data.long, data.bytes) });
      else waiting?.resolve(data);
    };
    onThreadEnd(worker, (why) => {
      if (worker !== this.#worker) return;
      const error = new Error(`the reading thread ended: ${why}`);
      logUnexpected("bodies that it was reading get 500, and the next one starts a new thread", error);
      this.#end(error);
    });
    worker.postMessage(this.start satisfies ToThread);
    return worker;
  }

  #end(why: Error): void {
    const worker = this.#worker;
    this.#worker = null;
    this.#bytes = 0;
    this.#idle?.();
    this.#idle = null;
    worker?.terminate();
    const lost = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of lost) reject(why);
  }
}

const PAGE_BYTES = 262_144;
const NO_PAGE = new Uint8Array();

/** Sends a body to the thread, and gets its answer. */
export class BodyReading {
  bytes = 0;
  #over = false;
  /** Bytes of the next message. Its memory moves with the message, because a copy would be garbage on both sides. */
  #page = new Uint8Array(PAGE_BYTES);
  #filled = 0;

  constructor(
    private readonly thread: ReadingThread,
    private readonly id: number,
  ) {}

  /** Adds a part of the body. Copies its bytes. */
  push(part: Uint8Array): void {
    if (this.#over) return;
    this.bytes += part.length;
    for (let at = 0; at < part.length; ) {
      const some = part.subarray(at, at + PAGE_BYTES - this.#filled);
      this.#page.set(some, this.#filled);
      this.#filled += some.length;
      at += some.length;
      if (this.#filled === PAGE_BYTES) this.#send(new Uint8Array(PAGE_BYTES));
    }
  }

  #send(next: Uint8Array<ArrayBuffer>): void {
    const part = this.#page.subarray(0, this.#filled);
    this.#page = next;
    this.#filled = 0;
    this.thread.post({ id: this.id, part }, [part.buffer]);
  }

  /** Ends the body and returns the thread's answer. Rejects if the thread ends first. */
  async answer(): Promise<ThreadAnswer> {
    try {
      this.#send(NO_PAGE);
      return await this.thread.answer(this.id);
    } finally {
      this.#leave();
    }
  }

  /** Gives the body up, because it is incomplete or its answer is not needed. */
  drop(): void {
    if (this.#over) return;
    this.thread.post({ id: this.id, ended: false });
    this.#leave();
  }

  #leave(): void {
    if (this.#over) return;
    this.#over = true;
    this.thread.left(this.bytes);
  }
}
