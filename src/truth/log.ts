/**
 * The truth log. Rows are collected in pages on the event loop's thread. A thread of its own writes the pages, so that
 * a slow or full disk never delays serving. In replays and tests, the caller writes them.
 */
import { accessSync, constants, statSync } from "node:fs";
import { dirname } from "node:path";
import { onThreadEnd } from "../base/thread-end.ts";
import type { TruthDropped } from "../engine/interface/types.ts";
import type { Observer } from "../engine/observer.ts";
import { TruthFile } from "./file.ts";
import { formatPage } from "./format.ts";
import { Page } from "./page.ts";
import { RING, Ring, type RingLimits } from "./ring.ts";
import type { LogHeader } from "./schema.ts";
import type { TruthLogConfig } from "./truth-config.ts";
import type { TruthOrder, TruthReply } from "./worker.ts";

export interface TruthLog {
  /** Returns the observer for the engine with this index. */
  observer(engine: number): Observer;
  /** Writes a line about a disturbed answer: JSON in ASCII. */
  fault(line: string): void;
  /** Returns the rows and runs lost since the start, because buffers were full or the disk failed. */
  dropped(): TruthDropped;
  /** Writes everything that is left. Call it after the engines have stopped. */
  close(): Promise<void>;
}

/**
 * Creates a log that a thread writes. `warn` gets at most one line, about a failing disk. `busy` is called for each
 * page that is sent to the thread and returned.
 */
export function createTruthLog(
  config: TruthLogConfig,
  about: LogHeader,
  warn: (line: string) => void,
  limits: RingLimits = RING,
  busy: (busy: boolean) => void = () => {},
): TruthLog {
  return new WorkerLog(config, about, warn, limits, busy);
}

/** Creates a log that the calling thread writes, page by page, for replays and tests. Only the disk can lose rows. */
export function createInlineTruthLog(config: TruthLogConfig, about: LogHeader, warn: (line: string) => void): TruthLog {
  const file = new TruthFile(config, about, (why) => warn(warning(config, why)));
  const write = (page: Page) => {
    formatPage(page, (text, kind, runs) => file.line(text, kind, runs));
    ring.returned(page);
  };
  const ring: Ring = new Ring({ ...RING, lingerUs: Number.POSITIVE_INFINITY }, write);
  return {
    observer: (engine) => ring.observer(engine),
    fault: (line) => ring.fault(line),
    dropped: () => sum(ring.dropped, file.lost),
    close: async () => {
      ring.flush();
      file.close(ring.dropped);
    },
  };
}

/** Returns the reason why the file cannot be written, or undefined. Call it before the start. */
export function unwritable(file: string): string | undefined {
  try {
    const stat = statSync(file, { throwIfNoEntry: false });
    if (stat?.isDirectory()) return "it is a folder";
    if (stat && !stat.isFile()) return undefined;
    const folder = dirname(file);
    if (!statSync(folder).isDirectory()) return `${folder} is not a folder`;
    // Rotation renames files, so the folder must be writable, too.
    accessSync(folder, constants.W_OK);
    if (stat) accessSync(file, constants.W_OK);
    return undefined;
  } catch (error) {
    const { code } = error as { code?: string };
    return code === "ENOENT" ? `there is no folder ${dirname(file)}` : `not allowed there (${code ?? String(error)})`;
  }
}

const NOTHING: TruthDropped = { run: 0, step: 0, request: 0 };

class WorkerLog implements TruthLog {
  readonly #ring: Ring;
  readonly #worker: Worker;
  readonly #warn: (why: string) => void;
  /** Rows lost by the disk, and rows in pages that were in the thread when it ended. */
  #lost = NOTHING;
  #gone = NOTHING;
  /** Rows in the pages that the thread has, oldest page first. */
  readonly #away: TruthDropped[] = [];
  #dead = false;
  readonly #closed = Promise.withResolvers<void>();

  constructor(
    config: TruthLogConfig,
    about: LogHeader,
    warn: (line: string) => void,
    limits: RingLimits,
    readonly busy: (busy: boolean) => void,
  ) {
    this.#warn = (why) => warn(warning(config, why));
    this.#ring = new Ring(limits, (page) => this.#send(page));
    this.#worker = new Worker(new URL("./worker.ts", import.meta.url));
    this.#worker.unref();
    this.#worker.onmessage = ({ data }: MessageEvent<TruthReply>) => this.#take(data);
    onThreadEnd(this.#worker, (why) => this.#died(`the writing thread ended (${why})`));
    this.#post({ config, about });
  }

  observer(engine: number): Observer {
    return this.#ring.observer(engine);
  }

  fault(line: string): void {
    this.#ring.fault(line);
  }

  dropped(): TruthDropped {
    return sum(sum(this.#ring.dropped, this.#lost), this.#gone);
  }

  async close(): Promise<void> {
    this.#ring.drain();
    if (!this.#dead) {
      this.#worker.ref();
      this.#post({ close: this.#ring.dropped });
      await this.#closed.promise;
    }
    this.#dead = true;
    this.#worker.terminate();
  }

  #send(page: Page): void {
    const rows = { run: page.runs, step: page.steps, request: page.requests };
    if (this.#dead) {
      this.#gone = sum(this.#gone, rows);
      this.#ring.returned(page);
      return;
    }
    this.#away.push(rows);
    this.busy(true);
    this.#post({ words: page.words, used: page.used }, [page.words.buffer]);
  }

  #post(order: TruthOrder, handOver: ArrayBuffer[] = []): void {
    this.#worker.postMessage(order, handOver);
  }

  #take(reply: TruthReply): void {
    if ("warning" in reply) {
      this.#warn(reply.warning);
      return;
    }
    this.#lost = reply.lost;
    if ("closed" in reply) {
      this.#closed.resolve();
      return;
    }
    this.#away.shift();
    this.busy(false);
    this.#ring.returned(new Page(reply.words));
  }

  #died(why: string): void {
    if (this.#dead) return;
    this.#dead = true;
    this.#gone = this.#away.reduce(sum, NOTHING);
    this.#warn(why);
    this.#closed.resolve();
  }
}

function sum(a: TruthDropped, b: TruthDropped): TruthDropped {
  return { run: a.run + b.run, step: a.step + b.step, request: a.request + b.request };
}

function warning({ file }: TruthLogConfig, why: string): string {
  return `--truth-log ${file}: ${why}; serving continues, and lost rows are counted in understudy_truth_dropped_total`;
}
