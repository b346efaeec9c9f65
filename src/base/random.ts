/** Where does chance come from? A seeded generator that is handed to whoever draws; nothing else in `src/` is random. */

/** Whole numbers of 32 bits; same seed, same sequence (mulberry32). */
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

/** Chance from the system, fetched for hundreds of requests at a time: each fetch costs as much as all else about an id. */
const FETCHED = 4096;
/** Made when it is first needed: a browser has no Buffer, and never asks. */
let fetched: Buffer | null = null;
let used = FETCHED;

/** Where the next so many bytes of `fetched` are. */
function fresh(bytes: number): number {
  if (used + bytes > FETCHED) {
    fetched ??= Buffer.alloc(FETCHED);
    crypto.getRandomValues(fetched);
    used = 0;
  }
  used += bytes;
  return used - bytes;
}

/** `bytes` random bytes, 4096 at most, as lower-case hex, for ids that must not repeat between processes. */
export function randomHex(bytes: number): string {
  const at = fresh(bytes);
  return fetched!.toString("hex", at, at + bytes);
}

/** 32 bits of chance from the system, where a request brings no seed. */
export function randomSeed(): number {
  const at = fresh(4);
  return fetched!.readUInt32LE(at);
}

/** Makes the hex digits of an id: so many bytes. */
export type Ids = (bytes: number) => string;

/** By chance, so that two servers never hand out the same ids; with a seed they repeat from one start to the next. */
export function idsOf(seed: number | null): Ids {
  if (seed === null) return randomHex;
  const next = seeded(seed ^ IDS_SALT);
  return (bytes) => {
    let hex = "";
    while (hex.length < 2 * bytes) hex += next().toString(16).padStart(8, "0");
    return hex.slice(0, 2 * bytes);
  };
}

/** Separates the draws of ids from those of requests' seeds. */
const IDS_SALT = 0x3c6ef372;

/** 32 well-mixed bits of a 32-bit seed and a position, unsigned. */
export function mix(seed: number, position: number): number {
  let hash = Math.imul(seed ^ Math.imul(position + 1, 0x9e3779b9), 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  hash ^= hash >>> 16;
  return hash >>> 0;
}
