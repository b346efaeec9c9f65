/**
 * How does one process show its numbers to others that never ask it? In a file that all map: two slots, of which one is
 * current. The writer fills the other one and then turns over, so a process that is killed at any point leaves a whole
 * slot behind. One writer at a time, any number of readers.
 *
 * The word `Turns` is the sequence number: it is read before and after a copy, and a copy counts only if it did not move.
 * Between processes that alone orders loads and stores on x86; on ARM the plain loads of a copy may pass the second look,
 * and plain stores the turn before. So each slot carries a checksum of its numbers, and a copy that does not have it is
 * taken again, whatever the order of memory was.
 */
import { writeFileSync } from "node:fs";

/** Words of the head. The first slot begins behind it, on a cache line of its own. */
enum Head {
  /** `FORMAT`, then the number of doubles in a slot. */
  Format = 0,
  Length = 1,
  Turns = 2,
  /** Checksums of the two slots. */
  Sums = 3,
}
const HEAD_BYTES = 64;
const FORMAT = 0x55440001;

/** A copy is taken again at most so often; between two, after the first few, the thread sleeps a little. */
const TRIES = 1000;
const TRIES_AWAKE = 8;
const NAP_MS = 1;

/** Bytes of a page for `length` doubles. */
const bytesOf = (length: number) => HEAD_BYTES + 2 * 8 * length;

/** A page of zeros. */
export function emptyPage(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(bytesOf(length));
  const head = new Int32Array(bytes.buffer);
  head[Head.Format] = FORMAT;
  head[Head.Length] = length;
  head[Head.Sums] = checksum(new Int32Array(bytes.buffer, HEAD_BYTES, 2 * length));
  head[Head.Sums + 1] = head[Head.Sums]!;
  return bytes;
}

/**
 * Writes a page of zeros as a new file. The bytes are really written, so that a full disk is an error here and no SIGBUS
 * later.
 */
export function createPage(path: string, length: number): void {
  writeFileSync(path, emptyPage(length), { mode: 0o600, flag: "wx" });
}

export class SharedPage {
  /** Doubles in a slot. */
  readonly length: number;
  readonly #head: Int32Array;
  readonly #slots: readonly [Float64Array, Float64Array];
  readonly #words: readonly [Int32Array, Int32Array];
  readonly #nap = new Int32Array(new SharedArrayBuffer(4));

  /** `bytes` is the mapped file, or any memory of its size. Throws when it is no page for `length` doubles. */
  constructor(bytes: Uint8Array, length: number) {
    const { buffer, byteOffset } = bytes;
    this.length = length;
    this.#head = new Int32Array(buffer, byteOffset, HEAD_BYTES / 4);
    if (bytes.length !== bytesOf(length) || this.#head[Head.Format] !== FORMAT || this.#head[Head.Length] !== length) {
      throw new Error(`no page of ${length} numbers`);
    }
    const at = (slot: 0 | 1) => byteOffset + HEAD_BYTES + slot * 8 * length;
    this.#slots = [new Float64Array(buffer, at(0), length), new Float64Array(buffer, at(1), length)];
    this.#words = [new Int32Array(buffer, at(0), 2 * length), new Int32Array(buffer, at(1), 2 * length)];
  }

  /** How often it was written. */
  get turns(): number {
    return Atomics.load(this.#head, Head.Turns);
  }

  /** `fill` gets the slot that nobody reads, with old numbers in it, and sets all of them. Allocates nothing. */
  write(fill: (numbers: Float64Array) => void): void {
    const next = ((Atomics.load(this.#head, Head.Turns) + 1) & 1) as 0 | 1;
    fill(this.#slots[next]);
    Atomics.store(this.#head, Head.Sums + next, checksum(this.#words[next]));
    Atomics.add(this.#head, Head.Turns, 1);
  }

  /** Copies the current numbers to `into` from `at` on; false: the writer came in between, ask again. */
  tryRead(into: Float64Array, at = 0): boolean {
    const before = Atomics.load(this.#head, Head.Turns);
    const slot = (before & 1) as 0 | 1;
    const sum = Atomics.load(this.#head, Head.Sums + slot);
    into.set(this.#slots[slot], at);
    if (Atomics.load(this.#head, Head.Turns) !== before) return false;
    return checksum(new Int32Array(into.buffer, into.byteOffset + 8 * at, 2 * this.length)) === sum;
  }

  /** Reads until it succeeds; may sleep, so not for the loop's thread. Throws when the page is never whole. */
  read(into: Float64Array, at = 0): void {
    for (let tries = 0; tries < TRIES; tries++) {
      if (this.tryRead(into, at)) return;
      if (tries >= TRIES_AWAKE) Atomics.wait(this.#nap, 0, 0, NAP_MS);
    }
    throw new Error("a worker's page of numbers is damaged");
  }
}

/**
 * Fletcher's, over 32-bit words. A change of one word by d, k words before the end, changes it by d(1 + k·even), never 0;
 * any other change all but surely.
 */
function checksum(words: Int32Array): number {
  let a = 1;
  let b = 0;
  for (let i = 0; i < words.length; i++) {
    a = (a + words[i]!) | 0;
    b = (b + a) | 0;
  }
  return (a + Math.imul(b, 0x9e3779b2)) | 0;
}
