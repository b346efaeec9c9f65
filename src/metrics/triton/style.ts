/** Prints like prometheus-cpp 1.0.1 (`text_serializer.cc`): labels by name with `le` and `quantile` last, numbers as C's `%.16g`, `Nan`. */
import type { Labels, Style } from "../rows/text.ts";

const DIGITS = 16;
const LAST = ["le", "quantile"];

/** Examples: `1`, `0.5`, `85899345920`, `1e+16`, `0.07000000000000001`, `+Inf`, `Nan`. */
export function printG16(value: number): string {
  if (Number.isNaN(value)) return "Nan";
  if (!Number.isFinite(value)) return value < 0 ? "-Inf" : "+Inf";
  if (Number.isSafeInteger(value) && Math.abs(value) < 1e15) return Object.is(value, -0) ? "-0" : `${value}`;
  const [mantissa, power] = rounded(value).split("e") as [string, string];
  const exponent = Number(power);
  if (exponent < -4 || exponent >= DIGITS) {
    const sign = exponent < 0 ? "-" : "+";
    return `${withoutZeros(mantissa)}e${sign}${`${Math.abs(exponent)}`.padStart(2, "0")}`;
  }
  const sign = mantissa.startsWith("-") ? "-" : "";
  const digits = mantissa.replace(/[-.]/g, "");
  const text =
    exponent < 0
      ? `0.${"0".repeat(-exponent - 1)}${digits}`
      : `${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`;
  return sign + withoutZeros(text);
}

/** Rounds to 16 digits. If the value is exactly between two, C takes the even one and JavaScript the larger. */
function rounded(value: number): string {
  const middle = /^(-?\d\.\d{14}[02468])50*(e.*)$/.exec(value.toExponential(50));
  return middle ? middle[1]! + middle[2]! : value.toExponential(DIGITS - 1);
}

const withoutZeros = (text: string) => (text.includes(".") ? text.replace(/\.?0*$/, "") : text);

function labelNames(labels: Labels): readonly string[] {
  const names = Object.keys(labels);
  const last = names.filter((name) => LAST.includes(name));
  return [...names.filter((name) => !LAST.includes(name)).sort(), ...last];
}

export const prometheusCpp: Style = { float: printG16, labelNames };
