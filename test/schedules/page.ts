/**
 * Memory that a test shares with every thread of the programs that it starts: the seed of the delays, and an order to fail.
 * It is a mapped file, because that works for worker threads and for worker processes.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Words of the page. */
export const Word = {
  /** Seed of the delays. 0 means no delays. */
  Seed: 0,
  /** `hashOf` the name of the thread that must fail. 0 for none. */
  Victim: 1,
  /** Points that the victim still passes before it fails. */
  Left: 2,
  /** Index in `FAILURES`. */
  Failure: 3,
  /** Failures so far. */
  Failed: 4,
  /** Number of seeds set, including equal ones. Each new seed restarts the delays. */
  Run: 5,
} as const;

const WORDS = 16;

/**
 * Environment variable with the path of the page. It lacks the program's prefix, because the program would report it as an
 * unknown option.
 */
export const PAGE_PATH = "SCHEDULES_PAGE";

/** Ways in which a thread fails. `start`: during the evaluation of its module, at each start. */
export const FAILURES = ["throw", "reject", "timer", "exit", "start"] as const;
export type Failure = (typeof FAILURES)[number];

/** Hash of up to three words, as an unsigned 32-bit number (murmur3's mixing). */
export function mix(a: number, b: number, c = 0): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b ^ 0x27d4eb2f, 0xc2b2ae35) ^ Math.imul(c, 0x165667b1);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hash of a name, never 0. */
export function hashOf(name: string): number {
  return Number(Bun.hash.xxHash32(name) & 0x7fffffff) || 1;
}

/** Maps the page at `path`. */
export const mapPage = (path: string): Int32Array => new Int32Array(Bun.mmap(path, { shared: true }).buffer);

/** A page in a separate folder. */
export class Page {
  readonly folder = mkdtempSync(join(tmpdir(), "schedules-"));
  readonly path = join(this.folder, "page");
  readonly #words: Int32Array;

  constructor() {
    writeFileSync(this.path, new Uint8Array(WORDS * Int32Array.BYTES_PER_ELEMENT));
    this.#words = mapPage(this.path);
  }

  /** The environment of a program whose threads read this page. */
  get env(): Record<string, string> {
    return { [PAGE_PATH]: this.path };
  }

  set seed(seed: number) {
    Atomics.store(this.#words, Word.Seed, seed);
    Atomics.add(this.#words, Word.Run, 1);
  }

  get failed(): number {
    return Atomics.load(this.#words, Word.Failed);
  }

  /** Makes the thread fail after it has passed `points` more points. */
  fail(thread: string, failure: Failure, points: number): void {
    Atomics.store(this.#words, Word.Failure, FAILURES.indexOf(failure));
    Atomics.store(this.#words, Word.Left, points);
    Atomics.store(this.#words, Word.Victim, hashOf(thread));
  }

  failNone(): void {
    Atomics.store(this.#words, Word.Victim, 0);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
