/**
 * Writes numbers with a fraction as RapidJSON does. Grisu2 as its `dtoa.h` (1.1.0) has it, whose last digit is not always the
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

/** With so much more or less, which is less than 2^53. */
function shifted(ofHigh: number, ofLow: number, by: number): [number, number] {
  const sum = ofLow + (by % HALF);
  const carry = Math.floor(sum / HALF);
  return [ofHigh + Math.trunc(by / HALF) + carry, sum - carry * HALF];
}

type Halves = Omit<Scaled, "exponent">;

/** Behind so many digits of a fraction nothing is made nearer. */
const TAIL_DIGITS = -9;

const joined = (before: string, tail: number, digits: number): string =>
  before === "0" ? `${tail}` : before + (digits === 0 ? "" : `${tail}`.padStart(digits, "0"));

/** Is the first less than the second? */
const less = (aHigh: number, aLow: number, bHigh: number, bLow: number): boolean =>
  aHigh < bHigh || (aHigh === bHigh && aLow < bLow);

/** Finds the digits of one number. Products of 64 bits are two fields, because a pair for each would be garbage. */
class Grisu {
  /** The upper 64 bits of the last product of `multiply`, or the number of `farBelow`. */
  #high = 0;
  #low = 0;
  /** The halves of the last product of `product`. */
  #upper = 0;
  #lower = 0;

  #product(a: number, b: number): void {
    // `%` of a number beyond 32 bits is a call.
    const first = a * (b & 0xffff);
    const carry = Math.floor(first / 65_536);
    const second = a * (b >>> 16) + carry;
    this.#upper = Math.floor(second / 65_536);
    this.#lower = (second - this.#upper * 65_536) * 65_536 + (first - carry * 65_536);
  }

  /** Multiplies to the upper 64 bits, rounded. */
  #multiply(aHigh: number, aLow: number, { high: bHigh, low: bLow }: Scaled): void {
    this.#product(aLow, bLow);
    let middle = this.#upper;
    this.#product(aLow, bHigh);
    middle += this.#lower;
    let above = this.#upper;
    this.#product(aHigh, bLow);
    middle += this.#lower;
    above += this.#upper;
    this.#product(aHigh, bHigh);
    const carry = Math.floor(middle / HALF);
    const round = middle - carry * HALF >= HALF / 2 ? 1 : 0;
    above += this.#lower + carry + round;
    const more = Math.floor(above / HALF);
    this.#low = above - more * HALF;
    this.#high = this.#upper + more;
  }

  /** Digits and the power of ten that they are by, of a number above 0. */
  digitsOf(value: number): { readonly digits: string; readonly power: number } {
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
    this.#multiply(top, rest, power);
    const middle = { high: this.#high, low: this.#low };
    // Half a place above and below; below a power of two a quarter.
    const half = 2 ** (up - 1);
    this.#multiply(...shifted(top, rest, half), power);
    const [mostHigh, mostLow] = this.#low === 0 ? [this.#high - 1, HALF - 1] : [this.#high, this.#low - 1];
    this.#multiply(...shifted(top, rest, isPower ? -half / 2 : -half), power);
    const [leastHigh, leastLow] = this.#low === HALF - 1 ? [this.#high + 1, 0] : [this.#high, this.#low + 1];
    const borrow = mostLow < leastLow ? 1 : 0;
    const made = this.#generate(
      { high: mostHigh, low: mostLow, exponent: exponent + power.exponent + 64 },
      { high: mostHigh - leastHigh - borrow, low: mostLow - leastLow + borrow * HALF },
      middle,
    );
    return { digits: made.digits, power: made.power - (FIRST_POWER + POWER_STEP * index) };
  }

  /** Digits of `most` until what is left is no more than `delta`. */
  #generate(most: Scaled, delta: Halves, middle: Halves) {
    const shift = -most.exponent;
    const place = 2 ** (shift - 32);
    let front = Math.floor(most.high / place);
    let backHigh = most.high - front * place;
    let backLow = most.low;
    // As a number: a text would be put together digit by digit.
    let head = 0;
    let kappa = front >= 1e8 ? 9 : `${front}`.length;
    while (kappa > 0) {
      const ten = 10 ** (kappa - 1);
      const digit = Math.floor(front / ten);
      front -= digit * ten;
      head = head * 10 + digit;
      kappa--;
      const leftHigh = front * place + backHigh;
      if (leftHigh < delta.high || (leftHigh === delta.high && backLow <= delta.low)) {
        this.#farBelow(most, middle, 1);
        head -= this.#steps(delta.high, delta.low, leftHigh, backLow, ten * place);
        return { digits: `${head}`, power: kappa };
      }
    }
    // All together may be more than a number holds.
    let before = `${head}`;
    let tail = 0;
    let [deltaHigh, deltaLow] = [delta.high, delta.low];
    for (;;) {
      let carry = Math.floor((backLow * 10) / HALF);
      backLow = backLow * 10 - carry * HALF;
      backHigh = backHigh * 10 + carry;
      carry = Math.floor((deltaLow * 10) / HALF);
      deltaLow = deltaLow * 10 - carry * HALF;
      deltaHigh = deltaHigh * 10 + carry;
      const digit = Math.floor(backHigh / place);
      tail = tail * 10 + digit;
      backHigh -= digit * place;
      kappa--;
      if (kappa === TAIL_DIGITS) {
        before = joined(before, tail, -kappa);
        tail = 0;
      }
      if (backHigh > deltaHigh || (backHigh === deltaHigh && backLow >= deltaLow)) continue;
      if (kappa > TAIL_DIGITS) {
        this.#farBelow(most, middle, 10 ** -kappa);
        tail -= this.#steps(deltaHigh, deltaLow, backHigh, backLow, place);
      }
      return { digits: joined(before, tail, kappa > TAIL_DIGITS ? -kappa : TAIL_DIGITS - kappa), power: kappa };
    }
  }

  /** How far the number is below the most, in `#high` and `#low`, so many times. */
  #farBelow(most: Halves, middle: Halves, times: number): void {
    const borrow = most.low < middle.low ? 1 : 0;
    const aboveHigh = most.high - middle.high - borrow;
    this.#product(most.low - middle.low + borrow * HALF, times);
    this.#high = aboveHigh * times + this.#upper;
    this.#low = this.#lower;
  }

  /**
   * Returns by how much the last digit must be smaller, so that the digits are nearest to the number, which is `#high` and `#low`
   * below. `unit`: the high half of the value of a digit; the low half is 0.
   */
  #steps(deltaHigh: number, deltaLow: number, fromHigh: number, rest: number, unit: number): number {
    let at = fromHigh;
    let count = 0;
    while (less(at, rest, this.#high, this.#low) && !less(deltaHigh, deltaLow, at + unit, rest)) {
      if (!less(at + unit, rest, this.#high, this.#low) && !this.#isBeyondHalf(at, rest, unit)) break;
      count++;
      at += unit;
    }
    return count;
  }

  /** Is the number nearer to the next digit than to this one? */
  #isBeyondHalf(at: number, rest: number, unit: number): boolean {
    const [carry, carryOfFar] = [rest >= HALF / 2 ? 1 : 0, this.#low >= HALF / 2 ? 1 : 0];
    return less(
      2 * at + unit + carry,
      2 * rest - carry * HALF,
      2 * this.#high + carryOfFar,
      2 * this.#low - carryOfFar * HALF,
    );
  }
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
  const { digits, power } = new Grisu().digitsOf(Math.abs(value));
  return (value < 0 ? "-" : "") + placed(digits, power);
}

function placed(digits: string, power: number): string {
  const before = digits.length + power;
  if (power >= 0 && before <= WHOLE_MOST) return `${digits}${"0".repeat(power)}.0`;
  if (before > 0 && before <= WHOLE_MOST) return `${digits.slice(0, before)}.${digits.slice(before)}`;
  if (before > -ZEROS_MOST && before <= 0) return `0.${"0".repeat(-before)}${digits}`;
  return `${digits[0]}${digits.length > 1 ? "." : ""}${digits.slice(1)}e${before - 1}`;
}
