/**
 * Makes random numbers with a seeded generator that callers pass on, and random ids from the system. All random numbers of
 * `src/` come from this file.
 */

/** Returns the next unsigned 32-bit integer of a sequence. The same seed gives the same sequence (mulberry32). */
export type Random = () => number;

export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return (x ^ (x >>> 14)) >>> 0;
  };
}

/**
 * Random bytes that one call of the system fetches. They suffice for hundreds of ids. A call takes as long as the rest of
 * making an id.
 */
const FETCHED = 4096;
/** Buffer of the fetched bytes. Created at the first use, because browsers have no Buffer and never use it. */
let fetched: Buffer | null = null;
let used = FETCHED;

/** Returns the offset of the next unused bytes in `fetched`. */
function fresh(bytes: number): number {
  if (used + bytes > FETCHED) {
    fetched ??= Buffer.alloc(FETCHED);
    crypto.getRandomValues(fetched);
    used = 0;
  }
  used += bytes;
  return used - bytes;
}

/** Returns random bytes from the system as lower-case hex, for ids that must differ between processes. `bytes`: at most 4096. */
export function randomHex(bytes: number): string {
  const at = fresh(bytes);
  return fetched!.toString("hex", at, at + bytes);
}

/** Returns 32 random bits from the system, for requests without a seed. */
export function randomSeed(): number {
  const at = fresh(4);
  return fetched!.readUInt32LE(at);
}

/** Returns a new id of `bytes` bytes as hex. */
export type Ids = (bytes: number) => string;

/**
 * Returns a source of ids. Without a seed, ids are random, so that servers never have the same ids. With a seed, they are the
 * same after each start.
 */
export function idsOf(seed: number | null): Ids {
  if (seed === null) return randomHex;
  const next = seeded(seed ^ IDS_SALT);
  return (bytes) => {
    let hex = "";
    while (hex.length < 2 * bytes) hex += next().toString(16).padStart(8, "0");
    return hex.slice(0, 2 * bytes);
  };
}

/** Makes the random numbers of ids differ from those of request seeds. */
const IDS_SALT = 0x3c6ef372;

/** Hashes a 32-bit seed and a position to an unsigned 32-bit integer. */
export function mix(seed: number, position: number): number {
  let hash = Math.imul(seed ^ Math.imul(position + 1, 0x9e3779b9), 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  hash ^= hash >>> 16;
  return hash >>> 0;
}
