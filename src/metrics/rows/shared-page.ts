/**
 * Shows a process's numbers to other processes through a memory-mapped file. It has two slots, one of which is current.
 * The writer fills the other slot and then switches, so a process that is killed at any point leaves a complete slot
 * behind. There is one writer at a time and any number of readers.
 *
 * The word `Turns` is a sequence number. It is read before and after a copy, and the copy is valid only if it has not
 * changed. Between processes, this is sufficient on x86, where loads and stores keep their order. On ARM, loads of a
 * copy may be reordered after the second check, and stores before the switch. Therefore each slot also has a checksum
 * of its numbers, and a copy with a wrong checksum is repeated.
 */
import { writeFileSync } from "node:fs";

/** Words of the head. The first slot follows on a cache line of its own. */
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

/** Largest number of attempts to read. After the first few, the thread sleeps between attempts. */
const TRIES = 1000;
const TRIES_AWAKE = 8;
const NAP_MS = 1;

/** Returns the bytes of a page for `length` doubles. */
const bytesOf = (length: number) => HEAD_BYTES + 2 * 8 * length;

/** Returns a page of zeros. */
export function emptyPage(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(bytesOf(length));
  const head = new Int32Array(bytes.buffer);
  head[Head.Format] = FORMAT;
  head[Head.Length] = length;
  head[Head.Sums] = checksum(new Int32Array(bytes.buffer, HEAD_BYTES, 2 * length));
  head[Head.Sums + 1] = head[Head.Sums]!;
  return bytes;
}

/** Writes a page of zeros to a new file. All bytes are written, so that a full disk is an error here and not a SIGBUS later. */
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

  /** `bytes` is the mapped file, or memory of the same size. Throws if it is not a page for `length` doubles. */
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

  /** Number of writes so far. */
  get turns(): number {
    return Atomics.load(this.#head, Head.Turns);
  }

  /** Calls `fill` with the slot that no reader uses. `fill` must set all numbers. Allocates nothing. */
  write(fill: (numbers: Float64Array) => void): void {
    const next = ((Atomics.load(this.#head, Head.Turns) + 1) & 1) as 0 | 1;
    fill(this.#slots[next]);
    Atomics.store(this.#head, Head.Sums + next, checksum(this.#words[next]));
    Atomics.add(this.#head, Head.Turns, 1);
  }

  /** Copies the current numbers into `into` from `at` on. Returns false if the writer interfered, so that the caller must try again. */
  tryRead(into: Float64Array, at = 0): boolean {
    const before = Atomics.load(this.#head, Head.Turns);
    const slot = (before & 1) as 0 | 1;
    const sum = Atomics.load(this.#head, Head.Sums + slot);
    into.set(this.#slots[slot], at);
    if (Atomics.load(this.#head, Head.Turns) !== before) return false;
    return checksum(new Int32Array(into.buffer, into.byteOffset + 8 * at, 2 * this.length)) === sum;
  }

  /** Reads until it succeeds. May sleep, so the event loop's thread must not call it. Throws if the page stays invalid. */
  read(into: Float64Array, at = 0): void {
    for (let tries = 0; tries < TRIES; tries++) {
      if (this.tryRead(into, at)) return;
      if (tries >= TRIES_AWAKE) Atomics.wait(this.#nap, 0, 0, NAP_MS);
    }
    throw new Error("a worker's page of numbers is damaged");
  }
}

/**
 * Fletcher's checksum over 32-bit words. A change d of one word, k words before the end, changes the sum by d(1 +
 * k·even), which is never 0. Other changes are almost always detected.
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
