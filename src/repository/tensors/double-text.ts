/**
 * How does RapidJSON write a number with a fraction? Grisu2 as its `dtoa.h` (1.1.0) has it, whose last digit is not always the
 * nearest: 0.3 of 32 bits is 0.30000001192092898 there. Halves of 64 bits are numbers, since bigints would cost ten times as much.
 */

const HALF = 2 ** 32;
const DOUBLE = new Float64Array(1);
const WORDS = new Uint32Array(DOUBLE.buffer);

/** 64 bits by a power of two. */
interface Scaled {
  readonly high: number;
  readonly low: number;
  readonly exponent: number;
}

/** Every eighth power of ten from 1e-348 on, as it is needed. */
const POWERS: (Scaled | undefined)[] = [];
const FIRST_POWER = -348;
const POWER_STEP = 8;

function powerAt(index: number): Scaled {
  const made = POWERS[index] ?? powerOfTen(FIRST_POWER + POWER_STEP * index);
  POWERS[index] = made;
  return made;
}

/** The nearest of 64 bits, the highest of which is set. */
function powerOfTen(of: number): Scaled {
  const ten = 10n ** BigInt(Math.abs(of));
  const bits = ten.toString(2).length;
  // So many bits more than 64 that rounding finds its bit.
  const shift = of >= 0 ? bits - 66 : -(bits + 66);
  const exact = of >= 0 ? (shift >= 0 ? ten >> BigInt(shift) : ten << BigInt(-shift)) : (1n << BigInt(-shift)) / ten;
  const over = exact.toString(2).length - 64;
  const rounded = (exact + (1n << BigInt(over - 1))) >> BigInt(over);
  return { high: Number(rounded >> 32n), low: Number(rounded & 0xffffffffn), exponent: shift + over };
}

/** What `multiply` gives. */
let high = 0;
let low = 0;
/** What `product` gives. */
let upper = 0;
let lower = 0;

function product(a: number, b: number): void {
  const first = a * (b & 0xffff);
  const second = a * (b >>> 16) + Math.floor(first / 65_536);
  upper = Math.floor(second / 65_536);
  lower = (second % 65_536) * 65_536 + (first % 65_536);
}

/** The upper 64 bits of a product, rounded. */
function multiply(aHigh: number, aLow: number, { high: bHigh, low: bLow }: Scaled): void {
  product(aLow, bLow);
  let middle = upper;
  product(aLow, bHigh);
  middle += lower;
  let above = upper;
  product(aHigh, bLow);
  middle += lower;
  above += upper;
  product(aHigh, bHigh);
  const round = middle % HALF >= HALF / 2 ? 1 : 0;
  above += lower + Math.floor(middle / HALF) + round;
  low = above % HALF;
  high = upper + Math.floor(above / HALF);
}

const whole = (ofHigh: number, ofLow: number): bigint => (BigInt(ofHigh) << 32n) | BigInt(ofLow);

/** Digits and the power of ten that they are by, of a number above 0. */
function digitsOf(value: number): { readonly digits: string; readonly power: number } {
  DOUBLE[0] = value;
  const biased = WORDS[1]! >>> 20;
  let exponent = biased === 0 ? -1074 : biased - 1075;
  let top = (WORDS[1]! & 0xfffff) + (biased === 0 ? 0 : 0x100000);
  let rest = WORDS[0]!;
  const isPower = biased !== 0 && top === 0x100000 && rest === 0;
  // The significand's highest bit becomes the highest of 64.
  const up = top === 0 ? 32 + Math.clz32(rest) : Math.clz32(top);
  if (up >= 32) [top, rest] = [rest << (up - 32), 0];
  else [top, rest] = [(top << up) | (rest >>> (32 - up)), rest << up];
  top >>>= 0;
  rest >>>= 0;
  exponent -= up;
  const estimate = (-61 - exponent) * 0.301_029_995_663_981_14 + 347;
  const index = (Math.ceil(estimate) >> 3) + 1;
  const power = powerAt(index);
  multiply(top, rest, power);
  const middle = { high, low };
  // Half a place above and below; below a power of two a quarter.
  const half = 2 ** (up - 1);
  multiply(...shifted(top, rest, half), power);
  const [mostHigh, mostLow] = low === 0 ? [high - 1, HALF - 1] : [high, low - 1];
  multiply(...shifted(top, rest, isPower ? -half / 2 : -half), power);
  const [leastHigh, leastLow] = low === HALF - 1 ? [high + 1, 0] : [high, low + 1];
  const borrow = mostLow < leastLow ? 1 : 0;
  const made = generate(
    { high: mostHigh, low: mostLow, exponent: exponent + power.exponent + 64 },
    { high: mostHigh - leastHigh - borrow, low: mostLow - leastLow + borrow * HALF },
    middle,
  );
  return { digits: made.digits, power: made.power - (FIRST_POWER + POWER_STEP * index) };
}

/** With so much more or less, which is less than 2^53. */
function shifted(ofHigh: number, ofLow: number, by: number): [number, number] {
  const sum = ofLow + (by % HALF);
  const carry = Math.floor(sum / HALF);
  return [ofHigh + Math.trunc(by / HALF) + carry, sum - carry * HALF];
}

type Halves = Omit<Scaled, "exponent">;

/** Digits of `most` until what is left is no more than `delta`. */
function generate(most: Scaled, delta: Halves, middle: Halves) {
  const shift = -most.exponent;
  const place = 2 ** (shift - 32);
  let front = Math.floor(most.high / place);
  let backHigh = most.high % place;
  let backLow = most.low;
  let digits = "";
  let kappa = front >= 1e8 ? 9 : `${front}`.length;
  const above = () => whole(most.high, most.low) - whole(middle.high, middle.low);
  while (kappa > 0) {
    const ten = 10 ** (kappa - 1);
    const digit = Math.floor(front / ten);
    front %= ten;
    if (digit !== 0 || digits !== "") digits += String.fromCharCode(48 + digit);
    kappa--;
    const leftHigh = front * place + backHigh;
    if (leftHigh < delta.high || (leftHigh === delta.high && backLow <= delta.low)) {
      const unit = BigInt(10 ** kappa) << BigInt(shift);
      return {
        digits: nearer(digits, whole(delta.high, delta.low), whole(leftHigh, backLow), unit, above()),
        power: kappa,
      };
    }
  }
  let [deltaHigh, deltaLow] = [delta.high, delta.low];
  for (;;) {
    let times = backLow * 10;
    backLow = times % HALF;
    backHigh = backHigh * 10 + Math.floor(times / HALF);
    times = deltaLow * 10;
    deltaLow = times % HALF;
    deltaHigh = deltaHigh * 10 + Math.floor(times / HALF);
    const digit = Math.floor(backHigh / place);
    if (digit !== 0 || digits !== "") digits += String.fromCharCode(48 + digit);
    backHigh %= place;
    kappa--;
    if (backHigh > deltaHigh || (backHigh === deltaHigh && backLow >= deltaLow)) continue;
    // Behind the ninth place nothing is made nearer.
    if (kappa <= -9) return { digits, power: kappa };
    const far = above() * BigInt(10 ** -kappa);
    const unit = 1n << BigInt(shift);
    return { digits: nearer(digits, whole(deltaHigh, deltaLow), whole(backHigh, backLow), unit, far), power: kappa };
  }
}

/** The last digit as much smaller as brings it nearer to the number, which is `far` below. */
function nearer(digits: string, delta: bigint, from: bigint, unit: bigint, far: bigint): string {
  let rest = from;
  let less = 0;
  while (rest < far && delta - rest >= unit && (rest + unit < far || far - rest > rest + unit - far)) {
    less++;
    rest += unit;
  }
  if (less === 0) return digits;
  return digits.slice(0, -1) + String.fromCharCode(digits.charCodeAt(digits.length - 1) - less);
}

/** Whole numbers up to here have no other digits than their own. */
const PLAIN_MOST = 1e15;
/** Digits before the point with which there is no exponent yet, and zeros behind it. */
const WHOLE_MOST = 21;
const ZEROS_MOST = 6;

/** `1.0`, `0.1`, `1e30`, `NaN`, `Infinity`. */
export function doubleText(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < PLAIN_MOST) return Object.is(value, -0) ? "-0.0" : `${value}.0`;
  if (!Number.isFinite(value)) return `${value}`;
  const { digits, power } = digitsOf(Math.abs(value));
  return (value < 0 ? "-" : "") + placed(digits, power);
}

function placed(digits: string, power: number): string {
  const before = digits.length + power;
  if (power >= 0 && before <= WHOLE_MOST) return `${digits}${"0".repeat(power)}.0`;
  if (before > 0 && before <= WHOLE_MOST) return `${digits.slice(0, before)}.${digits.slice(before)}`;
  if (before > -ZEROS_MOST && before <= 0) return `0.${"0".repeat(-before)}${digits}`;
  return `${digits[0]}${digits.length > 1 ? "." : ""}${digits.slice(1)}e${before - 1}`;
}
