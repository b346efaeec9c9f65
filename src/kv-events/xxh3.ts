/**
 * Computes the 128-bit XXH3 hash with seed 0, whose bytes are those of Python's `xxhash.xxh3_128_digest`. Source: the
 * specification of XXH3 in xxHash 0.8.3 (doc/xxhash_spec.md). BigInt is slow, about 10 µs per hash, but few use this algorithm.
 */

const MASK = (1n << 64n) - 1n;
const MASK_32 = (1n << 32n) - 1n;
const PRIME32_1 = 0x9e3779b1n;
const PRIME32_2 = 0x85ebca77n;
const PRIME32_3 = 0xc2b2ae3dn;
const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME64_4 = 0x85ebca77c2b2ae63n;
const PRIME64_5 = 0x27d4eb2f165667c5n;
const PRIME_MX1 = 0x165667919e3779f9n;
const PRIME_MX2 = 0x9fb21c651e98df25n;

const SECRET = Buffer.from(
  "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee0359" +
    "0e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcd" +
    "b45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031" +
    "ce45cb3a8f95160428afd7fbcabb4b407e",
  "hex",
);
const STRIPE = 64;
const BLOCK = 1024;
/** Offset in the secret of the stripe that ends a block. */
const LAST_STRIPE = SECRET.length - STRIPE;
/** The secret's 64-bit words by offset. */
const KEYS = Array.from({ length: SECRET.length - 7 }, (_, at) => SECRET.readBigUInt64LE(at));

/** Low and high half of a hash. */
type Halves = readonly [low: bigint, high: bigint];

/** Returns the 16 bytes, the high half first, each in big endian. */
export function xxh3Digest(input: Buffer): Buffer {
  const [low, high] = halves(input);
  const bytes = Buffer.allocUnsafe(16);
  bytes.writeBigUInt64BE(high, 0);
  bytes.writeBigUInt64BE(low, 8);
  return bytes;
}

function halves(input: Buffer): Halves {
  const { length } = input;
  if (length === 0) return [avalanche64(key(64) ^ key(72)), avalanche64(key(80) ^ key(88))];
  if (length < 4) return upTo3(input);
  if (length < 9) return upTo8(input);
  if (length < 17) return upTo16(input);
  if (length < 241) return upTo240(input);
  return longer(input);
}

function upTo3(input: Buffer): Halves {
  const { length } = input;
  const low = ((input[0]! << 16) | (input[length >> 1]! << 24) | input[length - 1]! | (length << 8)) >>> 0;
  const swapped = BigInt(swap32(low));
  const high = ((swapped << 13n) | (swapped >> 19n)) & MASK_32;
  const keyOf = (at: number) => BigInt((SECRET.readUInt32LE(at) ^ SECRET.readUInt32LE(at + 4)) >>> 0);
  return [avalanche64(BigInt(low) ^ keyOf(0)), avalanche64(high ^ keyOf(8))];
}

function upTo8(input: Buffer): Halves {
  const { length } = input;
  const whole = BigInt(input.readUInt32LE(0)) | (BigInt(input.readUInt32LE(length - 4)) << 32n);
  const product = (whole ^ key(16) ^ key(24)) * (PRIME64_1 + BigInt(length << 2));
  let low = product & MASK;
  const high = ((product >> 64n) + (low << 1n)) & MASK;
  low ^= high >> 3n;
  low ^= low >> 35n;
  low = (low * PRIME_MX2) & MASK;
  return [low ^ (low >> 28n), avalanche(high)];
}

function upTo16(input: Buffer): Halves {
  const { length } = input;
  const first = word(input, 0);
  const last = word(input, length - 8);
  const product = (first ^ last ^ key(32) ^ key(40)) * PRIME64_1;
  const keyed = last ^ key(48) ^ key(56);
  const high = ((product >> 64n) + keyed + (keyed & MASK_32) * (PRIME32_2 - 1n)) & MASK;
  const low = ((product + (BigInt(length - 1) << 54n)) & MASK) ^ swap64(high);
  const mixed = low * PRIME64_2;
  return [avalanche(mixed & MASK), avalanche(((mixed >> 64n) + high * PRIME64_2) & MASK)];
}

function upTo240(input: Buffer): Halves {
  const { length } = input;
  let low = (BigInt(length) * PRIME64_1) & MASK;
  let high = 0n;
  const mix = (at1: number, at2: number, secret: number) => {
    low = ((low + mix16(input, at1, secret)) & MASK) ^ ((word(input, at2) + word(input, at2 + 8)) & MASK);
    high = ((high + mix16(input, at2, secret + 16)) & MASK) ^ ((word(input, at1) + word(input, at1 + 8)) & MASK);
  };
  if (length <= 128) {
    for (let part = Math.ceil(length / 32) - 1; part >= 0; part--) mix(part * 16, length - 16 * (part + 1), part * 32);
  } else {
    for (let end = 32; end < 160; end += 32) mix(end - 32, end - 16, end - 32);
    low = avalanche(low);
    high = avalanche(high);
    for (let end = 160; end <= length; end += 32) mix(end - 32, end - 16, 3 + end - 160);
    mix(length - 16, length - 32, 136 - 17 - 16);
  }
  const mixed = (low * PRIME64_1 + high * PRIME64_4 + BigInt(length) * PRIME64_2) & MASK;
  return [avalanche((low + high) & MASK), -avalanche(mixed) & MASK];
}

function longer(input: Buffer): Halves {
  const { length } = input;
  const sums = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
  const take = (at: number, secret: number) => {
    for (let lane = 0; lane < 8; lane++) {
      const value = word(input, at + 8 * lane);
      const keyed = value ^ key(secret + 8 * lane);
      sums[lane ^ 1] = (sums[lane ^ 1]! + value) & MASK;
      sums[lane] = (sums[lane]! + (keyed & MASK_32) * (keyed >> 32n)) & MASK;
    }
  };
  for (let at = 0, left = length - 1; left >= STRIPE; at += STRIPE, left -= STRIPE) {
    take(at, (at % BLOCK) >> 3);
    if ((at + STRIPE) % BLOCK !== 0) continue;
    for (let lane = 0; lane < 8; lane++) {
      const sum = sums[lane]!;
      sums[lane] = ((sum ^ (sum >> 47n) ^ key(LAST_STRIPE + 8 * lane)) * PRIME32_1) & MASK;
    }
  }
  take(length - STRIPE, LAST_STRIPE - 7);
  const merged = (secret: number, start: bigint): bigint => {
    let sum = start;
    for (let pair = 0; pair < 4; pair++)
      sum += fold(sums[2 * pair]! ^ key(secret + 16 * pair), sums[2 * pair + 1]! ^ key(secret + 16 * pair + 8));
    return avalanche(sum & MASK);
  };
  const size = BigInt(length);
  return [merged(11, (size * PRIME64_1) & MASK), merged(LAST_STRIPE - 11, ~(size * PRIME64_2) & MASK)];
}

const key = (at: number): bigint => KEYS[at]!;
const word = (input: Buffer, at: number): bigint => input.readBigUInt64LE(at);

function mix16(input: Buffer, at: number, secret: number): bigint {
  return fold(word(input, at) ^ key(secret), word(input, at + 8) ^ key(secret + 8));
}

/** Returns the low half of a product, XOR its high half. */
function fold(left: bigint, right: bigint): bigint {
  const product = left * right;
  return (product & MASK) ^ (product >> 64n);
}

function avalanche(value: bigint): bigint {
  const mixed = ((value ^ (value >> 37n)) * PRIME_MX1) & MASK;
  return mixed ^ (mixed >> 32n);
}

function avalanche64(value: bigint): bigint {
  let mixed = ((value ^ (value >> 33n)) * PRIME64_2) & MASK;
  mixed = ((mixed ^ (mixed >> 29n)) * PRIME64_3) & MASK;
  return mixed ^ (mixed >> 32n);
}

function swap32(value: number): number {
  return ((value << 24) | ((value & 0xff00) << 8) | ((value >>> 8) & 0xff00) | (value >>> 24)) >>> 0;
}

function swap64(value: bigint): bigint {
  return (BigInt(swap32(Number(value & MASK_32))) << 32n) | BigInt(swap32(Number(value >> 32n)));
}
