/**
 * Converts decimal digits to a double like RapidJSON without its full-precision flag (`reader.h`, `strtod.h`, 1.1.0). Long
 * numbers may differ from the nearest double in the last place, because the digits are added one by one and then scaled once.
 */

import { Code } from "./json-codes.ts";

const FORM = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Up to this many digits the result is rounded only once. */
const SHORT_DIGITS = 15;
const UNSIGNED_MOST = 2n ** 64n - 1n;
const SIGNED_MOST = 2n ** 63n;
/** Up to this value, adding a digit of the fraction is exact. */
const EXACT_MOST = Number.MAX_SAFE_INTEGER;
const EXACT_DIGITS = 16;
const SIGNIFICANT_MOST = 17;
const EXPONENT_MOST = 308;
const TOO_MUCH = 1.797_693_134_862_315_8e307;

/** Converts a well-formed number. Returns null if it is too large for a double. */
export function rapidDouble(text: string): number | null {
  if (text.length <= SHORT_DIGITS && !/[eE]/.test(text)) return Number(text);
  const [, whole = "", fraction = "", exponent = "0"] = FORM.exec(text)!;
  const negative = text.startsWith("-");
  const read = whole.length <= SHORT_DIGITS ? shortWhole(whole, fraction) : longWhole(whole, fraction, negative);
  const power = Number(exponent);
  if (read === null || power > EXPONENT_MOST - read.scale) return null;
  const made = scaled(read.value, power + read.scale);
  if (!Number.isFinite(made)) return null;
  return negative ? -made : made;
}

/** The number `value × 10^scale`. */
interface DecimalValue {
  readonly value: number;
  readonly scale: number;
}

function shortWhole(whole: string, fraction: string): DecimalValue {
  const lead = whole === "0" ? "" : whole;
  const zeros = lead === "" ? /^0*/.exec(fraction)![0].length : 0;
  let digitsUsed = zeros + EXACT_DIGITS - lead.length;
  let value = Number(lead + fraction.slice(0, digitsUsed));
  if (digitsUsed < fraction.length && value <= EXACT_MOST) value = Number(lead + fraction.slice(0, ++digitsUsed));
  digitsUsed = Math.min(digitsUsed, fraction.length);
  return rounded(value, fraction, digitsUsed, digitsUsed - zeros + Math.max(0, lead.length - 1));
}

function longWhole(whole: string, fraction: string, negative: boolean): DecimalValue | null {
  const most = negative ? SIGNED_MOST : UNSIGNED_MOST;
  let at = 1;
  let exact = BigInt(whole[0]!);
  for (; at < whole.length; at++) {
    const next = exact * 10n + BigInt(whole[at]!);
    if (next > most) break;
    exact = next;
  }
  const significant = at - 1;
  let value = Number(exact);
  if (at === whole.length && exact <= EXACT_MOST && fraction !== "") {
    let digitsUsed = 0;
    for (; digitsUsed < fraction.length && exact <= EXACT_MOST; digitsUsed++)
      exact = exact * 10n + BigInt(fraction[digitsUsed]!);
    return rounded(Number(exact), fraction, digitsUsed, significant + digitsUsed);
  }
  for (; at < whole.length; at++) {
    if (value >= TOO_MUCH) return null;
    value = value * 10 + Number(whole[at]);
  }
  return rounded(value, fraction, 0, significant);
}

/**
 * Adds the digits of the fraction after the first `taken` ones and rounds after each, up to 17 significant digits. `counted`:
 * the significant digits so far, without the first.
 */
function rounded(from: number, fraction: string, taken: number, counted: number): DecimalValue {
  let [value, at, significant] = [from, taken, counted];
  for (; at < fraction.length && significant < SIGNIFICANT_MOST; at++) {
    value = value * 10 + Number(fraction[at]);
    if (value > 0) significant++;
  }
  return { value, scale: at === 0 ? 0 : -at };
}

function scaled(value: number, power: number): number {
  return power < -EXPONENT_MOST ? byTens(byTens(value, -EXPONENT_MOST), power + EXPONENT_MOST) : byTens(value, power);
}

function byTens(value: number, power: number): number {
  if (power < -EXPONENT_MOST) return 0;
  // JavaScript rounds `1eN` to the nearest double.
  return power >= 0 ? value * Number(`1e${power}`) : value / Number(`1e${-power}`);
}

/** Returns the end of a well-formed number with a fraction or an exponent that starts at `from`, or -1. */
export function realEnd(text: string, from: number): number {
  const whole = text.charCodeAt(from) === Code.Minus ? from + 1 : from;
  let at = digitsEnd(text, whole);
  if (at === whole || (text.charCodeAt(whole) === Code.Zero && at > whole + 1)) return -1;
  let next = text.charCodeAt(at);
  if (next !== Code.Point && next !== Code.SmallE && next !== Code.LargeE) return -1;
  if (next === Code.Point) {
    const fraction = at + 1;
    at = digitsEnd(text, fraction);
    if (at === fraction) return -1;
    next = text.charCodeAt(at);
  }
  if (next !== Code.SmallE && next !== Code.LargeE) return at;
  const sign = text.charCodeAt(++at);
  if (sign === Code.Plus || sign === Code.Minus) at++;
  const end = digitsEnd(text, at);
  return end === at ? -1 : end;
}

function digitsEnd(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code >= Code.Zero && code <= Code.Nine; code = text.charCodeAt(at)) at++;
  return at;
}
