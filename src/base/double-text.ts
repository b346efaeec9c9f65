/**
 * Prints floating-point numbers like RapidJSON 1.1.0, with Grisu2 as in its `dtoa.h`. The last digit is not always the nearest:
 * 0.3 in FP32 prints as 0.30000001192092898. 64-bit integers are pairs of numbers, because bigints would take ten times as
 * long.
 */

const HALF = 2 ** 32;
const DOUBLE = new Float64Array(1);
const WORDS = new Uint32Array(DOUBLE.buffer);

/** A 64-bit integer times a power of two. */
interface ScaledInteger {
  readonly high: number;
  readonly low: number;
  readonly exponent: number;
}

/** Every eighth power of ten, starting at 1e-348. Filled on first use. */
const POWERS: (ScaledInteger | undefined)[] = [];
const FIRST_POWER = -348;
const POWER_STEP = 8;

function powerAt(index: number): ScaledInteger {
  const made = POWERS[index] ?? powerOfTen(FIRST_POWER + POWER_STEP * index);
  POWERS[index] = made;
  return made;
}

/** Returns 10 to the power `of`, rounded to 64 bits. The highest bit is set. */
function powerOfTen(of: number): ScaledInteger {
  const ten = 10n ** BigInt(Math.abs(of));
  const bits = ten.toString(2).length;
  // Keep more than 64 bits, so that the rounding sees the next bit.
  const shift = of >= 0 ? bits - 66 : -(bits + 66);
  const exact = of >= 0 ? (shift >= 0 ? ten >> BigInt(shift) : ten << BigInt(-shift)) : (1n << BigInt(-shift)) / ten;
  const over = exact.toString(2).length - 64;
  const rounded = (exact + (1n << BigInt(over - 1))) >> BigInt(over);
  return { high: Number(rounded >> 32n), low: Number(rounded & 0xffffffffn), exponent: shift + over };
}

/** Adds `by` to a 64-bit integer. `by` may be negative and is below 2^53 in size. */
function shifted(ofHigh: number, ofLow: number, by: number): [number, number] {
  const sum = ofLow + (by % HALF);
  const carry = Math.floor(sum / HALF);
  return [ofHigh + Math.trunc(by / HALF) + carry, sum - carry * HALF];
}

type Halves = Omit<ScaledInteger, "exponent">;

/** After this many decimal places Grisu2 does not correct the last digit any more. */
const TAIL_DIGITS = -9;

const joined = (before: string, tail: number, digits: number): string =>
  before === "0" ? `${tail}` : before + (digits === 0 ? "" : `${tail}`.padStart(digits, "0"));

/** Compares two 64-bit integers: returns true if the first is smaller. */
const less = (aHigh: number, aLow: number, bHigh: number, bLow: number): boolean =>
  aHigh < bHigh || (aHigh === bHigh && aLow < bLow);

/**
 * Finds the decimal digits of a number. Results of 64-bit products are fields, because an object per product would create
 * garbage.
 */
class Grisu {
  /** Upper 64 bits of the last product of `multiply`, or the result of `farBelow`. */
  #high = 0;
  #low = 0;
  /** Upper and lower 32 bits of the last product of `product`. */
  #upper = 0;
  #lower = 0;

  #product(a: number, b: number): void {
    // `%` on numbers above 32 bits would be a slow call.
    const first = a * (b & 0xffff);
    const carry = Math.floor(first / 65_536);
    const highProduct = a * (b >>> 16) + carry;
    this.#upper = Math.floor(highProduct / 65_536);
    this.#lower = (highProduct - this.#upper * 65_536) * 65_536 + (first - carry * 65_536);
  }

  /** Multiplies two 64-bit integers and keeps the upper 64 bits, rounded. */
  #multiply(aHigh: number, aLow: number, { high: bHigh, low: bLow }: ScaledInteger): void {
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

  /** Returns the digits of a positive number and the power of ten by which to multiply them. */
  digitsOf(value: number): { readonly digits: string; readonly power: number } {
    DOUBLE[0] = value;
    const biased = WORDS[1]! >>> 20;
    let exponent = biased === 0 ? -1074 : biased - 1075;
    let top = (WORDS[1]! & 0xfffff) + (biased === 0 ? 0 : 0x100000);
    let rest = WORDS[0]!;
    const isPower = biased !== 0 && top === 0x100000 && rest === 0;
    // Shift the significand so that its highest bit is the highest of 64.
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
    // The interval that rounds to this number: half a unit to both sides, but a quarter below a power of two.
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

  /** Generates digits of `most` until the remainder is at most `delta`. */
  #generate(most: ScaledInteger, delta: Halves, middle: Halves) {
    const shift = -most.exponent;
    const place = 2 ** (shift - 32);
    let front = Math.floor(most.high / place);
    let backHigh = most.high - front * place;
    let backLow = most.low;
    // A number, because a string would grow digit by digit.
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
    // All digits together may exceed the precision of a number.
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

  /** Stores in `#high` and `#low` how far the number is below `most`, multiplied by `times`. */
  #farBelow(most: Halves, middle: Halves, times: number): void {
    const borrow = most.low < middle.low ? 1 : 0;
    const aboveHigh = most.high - middle.high - borrow;
    this.#product(most.low - middle.low + borrow * HALF, times);
    this.#high = aboveHigh * times + this.#upper;
    this.#low = this.#lower;
  }

  /**
   * Returns by how much to lower the last digit to get nearest to the number, which is `#high` and `#low` below. `unit`: the
   * high half of the value of one digit step; the low half is 0.
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

  /** Reports whether the number is nearer to the next lower digit than to the current digit. */
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

/** Integers below this have at most 15 digits, so that JavaScript's digits are the same. */
const PLAIN_MOST = 1e15;
/** Largest number of digits before the point, and of zeros after it, that are printed without an exponent. */
const WHOLE_MOST = 21;
const ZEROS_MOST = 6;

/** Prints a number, for example `1.0`, `0.1`, `1e30`, `NaN` or `Infinity`. */
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
