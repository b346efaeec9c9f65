/**
 * Gives each hash id of a trace a small number, so that ids that differ in any way stay different. JSON.parse rounds whole
 * numbers from 2^53 on, so their digits are read from the text.
 */
import { jsonObjectIn, type LooseObject } from "../base/json-object.ts";
import { isCount, TraceError } from "./trace.ts";

/** Whole numbers below this take 4 bytes each, up to the largest. */
const SMALL_MOST = 1 << 24;
/** Largest number of different ids that are large numbers or texts. Each takes about 100 bytes. */
const IDENTITIES_MOST = 1 << 22;
/** Largest total length of the different ids that are texts, in characters. */
const IDENTITY_CHARACTERS_MOST = 1 << 27;
const UINT64_MOST = 2n ** 64n - 1n;

/** A text, or a whole number from 0 to 2^64 - 1, as a bigint from 2^53 on. */
type HashId = number | bigint | string;

export function isHashId(value: unknown): value is HashId {
  if (typeof value === "bigint") return value >= 0n && value <= UINT64_MOST;
  return typeof value === "string" || isCount(value, 0);
}

export class Identities {
  /** Number of each small id, plus 1. 0: no number yet. */
  #small = new Int32Array(1024);
  readonly #numbers = new Map<number | string, number>();
  readonly #most: number;
  readonly #charactersMost: number;
  #count = 0;
  #characters = 0;

  constructor(most = IDENTITIES_MOST, charactersMost = IDENTITY_CHARACTERS_MOST) {
    this.#most = most;
    this.#charactersMost = charactersMost;
  }

  /** Returns the number of an id: 0 for the first, 1 for the next that is different. Throws a TraceError at the limits. */
  of(id: HashId): number {
    if (typeof id === "number" && id < SMALL_MOST) return this.#ofSmall(id);
    // A text that looks like a number is a different id than the number.
    const key = typeof id === "string" ? `"${id}` : typeof id === "bigint" ? String(id) : id;
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (typeof key === "string") this.#characters += key.length;
    if (this.#numbers.size >= this.#most)
      throw new TraceError(
        `more than ${this.#most} different hash ids in a trace that are texts, or from ${SMALL_MOST} on`,
      );
    if (this.#characters > this.#charactersMost)
      throw new TraceError(`more than ${this.#charactersMost} characters of hash ids in a trace`);
    this.#numbers.set(key, this.#count);
    return this.#count++;
  }

  #ofSmall(id: number): number {
    if (id >= this.#small.length) {
      const larger = new Int32Array(2 ** Math.ceil(Math.log2(id + 1)));
      larger.set(this.#small);
      this.#small = larger;
    }
    const known = this.#small[id]!;
    if (known > 0) return known - 1;
    this.#small[id] = this.#count + 1;
    return this.#count++;
  }

  /** Forgets all ids: the same ids get new numbers from now on. */
  forget(): void {
    this.#small.fill(0);
    this.#numbers.clear();
    this.#characters = 0;
  }
}

/** Fields in which whole numbers are ids. */
const EXACT_FIELDS = ["hash_ids", "chat_id", "parent_chat_id"];
const LONG_NUMBER = /\d{16}/;

/** Parses a row. Whole numbers from 2^53 on are bigints in the fields that hold identities. Returns null if it is not an object. */
export function traceRowIn(text: string | null): LooseObject | null {
  const row = jsonObjectIn(text);
  if (row === null || !LONG_NUMBER.test(text!)) return row;
  const exact = exactObjectIn(text)!;
  for (const field of EXACT_FIELDS) if (Object.hasOwn(row, field)) row[field] = exact[field];
  return row;
}

/** Parses an object with all whole numbers from 2^53 on as bigints. Returns null if the text is not an object. */
export function exactObjectIn(text: string | null): LooseObject | null {
  if (text === null || !LONG_NUMBER.test(text)) return jsonObjectIn(text);
  try {
    return JSON.parse(text, (_, value, context?: { readonly source?: string }) => {
      if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
      const digits = context?.source ?? "";
      return /^\d+$/.test(digits) ? BigInt(digits) : value;
    });
  } catch {
    return null;
  }
}
