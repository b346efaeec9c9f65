/** Writes lines to a stream without blocking. If the reader is slow, lines wait up to a limit, and further lines are dropped. */
import { nextTurn } from "./clock.ts";

/** Most bytes of text per stream that wait for a reader. Further lines are dropped and counted. */
const MAX_WAITING_BYTES = 1 << 20;

/** Most bytes per write. Writes of this size to a pipe are not mixed with writes of other processes (PIPE_BUF of Linux). */
const MAX_WRITE_BYTES = 4096;

/** Most milliseconds that the process waits for a slow reader when it ends. */
const MAX_EXIT_WAIT_MS = 100;
const EXIT_RETRY_MS = 5;

/** The members of a writable stream that the writer uses. `write` returns false if the stream still holds the text. */
export interface LineStream {
  write(text: string, done: (error?: Error | null) => void): boolean;
}

interface Waiting {
  readonly text: string;
  readonly bytes: number;
}

/** Number of lines that all writers of this process have dropped. */
let droppedInProcess = 0;

/** Returns the number of log lines that this process has dropped since it started. */
export const droppedLogLines = (): number => droppedInProcess;

/** Writes whole lines in the order of `add`. The lines of one turn of the event loop are written together. */
export class LineWriter {
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #scheduled = false;
  /** The unfinished write: its callback has not been called yet. Null if all writes are finished. */
  #writing: { readonly text: string; readonly left: boolean } | null = null;
  /**
   * True from the first dropped line until all waiting lines have been written. Then the notice stands where lines are missing.
   */
  #full = false;
  /** Number of dropped lines that no notice has reported. */
  #unreported = 0;

  /** `notice` returns the text of the line that reports dropped lines. */
  constructor(
    private readonly stream: LineStream,
    private readonly notice: (dropped: number) => string,
  ) {}

  /** Adds text that ends with a newline. Drops the text if more than 1 MiB waits. Never blocks, never throws. */
  add(text: string): void {
    const bytes = Buffer.byteLength(text);
    if (this.#full || this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      this.#full = true;
      this.#drop(text);
    } else {
      this.#push(text, bytes);
    }
    this.#schedule();
  }

  /**
   * Writes the waiting lines before the process ends. Waits at most 100 ms for a reader of a full pipe. `write` writes bytes at
   * once and returns the number of accepted bytes. It throws EAGAIN if the pipe is full.
   */
  finish(write: (bytes: Uint8Array) => number): void {
    const unwritten = this.#writing?.left === false ? this.#writing.text : "";
    if (this.#full) this.#endFull();
    let rest: Uint8Array = Buffer.from(unwritten + this.#waiting.map(({ text }) => text).join(""));
    this.#waiting = [];
    this.#waitingBytes = 0;
    let waitMs = MAX_EXIT_WAIT_MS;
    while (rest.length > 0) {
      try {
        rest = rest.subarray(write(rest.subarray(0, MAX_WRITE_BYTES)));
      } catch (error) {
        if ((error as { code?: string }).code !== "EAGAIN" || waitMs <= 0) return;
        waitMs -= EXIT_RETRY_MS;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, EXIT_RETRY_MS);
      }
    }
  }

  #push(text: string, bytes: number): void {
    this.#waiting.push({ text, bytes });
    this.#waitingBytes += bytes;
  }

  #drop(text: string): void {
    const lines = Math.max(1, text.split("\n").length - 1);
    this.#unreported += lines;
    droppedInProcess += lines;
  }

  #schedule(): void {
    if (this.#scheduled || this.#writing !== null || this.#waiting.length === 0) return;
    this.#scheduled = true;
    nextTurn(() => {
      this.#scheduled = false;
      this.#writeNext();
    });
  }

  /** Removes the next texts from the queue and returns them: several of at most 4 KiB together, or one longer text. */
  #take(): string {
    let count = 0;
    let bytes = 0;
    for (const waiting of this.#waiting) {
      if (count > 0 && bytes + waiting.bytes > MAX_WRITE_BYTES) break;
      bytes += waiting.bytes;
      count++;
    }
    this.#waitingBytes -= bytes;
    const taken = this.#waiting.splice(0, count);
    return taken.length === 1 ? taken[0]!.text : taken.map(({ text }) => text).join("");
  }

  #writeNext(): void {
    if (this.#writing !== null || this.#waiting.length === 0) return;
    const text = this.#take();
    // After a failed write, the notice is the first line that is written. It leaves together with the line that follows it.
    const reported = this.#full ? 0 : this.#unreported;
    const whole = reported > 0 ? `${this.notice(reported)}\n${text}` : text;
    this.#unreported -= reported;
    this.#writing = { text: whole, left: false };
    const left = this.stream.write(whole, (error) => this.#written(text, reported, error ?? null));
    if (this.#writing !== null) this.#writing = { text: whole, left };
  }

  #written(text: string, reported: number, error: Error | null): void {
    this.#writing = null;
    if (error !== null) {
      this.#unreported += reported;
      this.#failed(text);
    } else if (this.#waiting.length === 0 && this.#full) {
      this.#endFull();
      this.#schedule();
    } else {
      this.#writeNext();
    }
  }

  /** Drops the waiting lines after a failed write, because nothing reads the stream. The next line tries again. */
  #failed(text: string): void {
    this.#drop(text);
    for (const waiting of this.#waiting) this.#drop(waiting.text);
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#full = false;
  }

  /** Puts the notice after the last line that precedes the dropped ones. */
  #endFull(): void {
    this.#full = false;
    const notice = `${this.notice(this.#unreported)}\n`;
    this.#unreported = 0;
    this.#push(notice, Buffer.byteLength(notice));
  }
}
