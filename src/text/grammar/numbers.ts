/** Draws numbers that fit `minimum`, `maximum`, their exclusive forms and `multipleOf`. */
import type { Draws } from "./draws.ts";
import { type Keywords, numberOr, Unsatisfiable } from "./schema.ts";

type Bounds = readonly [from: number, to: number];

/** Width of a range that the schema leaves open. */
const WIDTH = 1000;
/** Most attempts to draw a multiple of a fraction that divides without a remainder in floating point. */
const ROUNDINGS = 32;
const SAFE = Number.MAX_SAFE_INTEGER;

/** Draws a whole number. `open`: bounds to use if the schema has none. Throws `Unsatisfiable`. */
export function drawInteger(draws: Draws, schema: Keywords, open?: Bounds): number {
  const step = numberOr(schema.multipleOf, 1);
  const [from, to] = range(schema, true, open);
  if (!Number.isInteger(step)) return drawMultiple(draws, Math.ceil(from), Math.floor(to), whole(step));
  return drawMultiple(draws, from, to, Math.max(1, Math.abs(step)));
}

/** Draws a number. `open`: bounds to use if the schema has none. Throws `Unsatisfiable`. */
export function drawNumber(draws: Draws, schema: Keywords, open?: Bounds): number {
  const [from, to] = range(schema, false, open);
  if (typeof schema.multipleOf === "number" && schema.multipleOf > 0)
    return drawMultiple(draws, from, to, schema.multipleOf);
  if (from > to) throw new Unsatisfiable(`minimum (${from}) is greater than maximum (${to})`);
  const drawn = from + draws.unit() * (to - from);
  // Prefer few digits, as people write numbers.
  for (const digits of [1, 2, 4, 8]) {
    const rounded = Number(drawn.toFixed(digits));
    if (rounded > from && rounded < to) return rounded;
  }
  return drawn > from && drawn < to ? drawn : inside(from, to, schema);
}

/** Returns both ends of the range, also if the schema leaves them open. */
function range(schema: Keywords, integers: boolean, open?: Bounds): [number, number] {
  const { exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  let from = numberOr(schema.minimum, Number.NEGATIVE_INFINITY);
  let to = numberOr(schema.maximum, Number.POSITIVE_INFINITY);
  // In draft 4 the exclusive bounds are flags.
  const strictly = (flag: unknown) => flag === true;
  if (integers) {
    from = strictly(above) ? Math.floor(from) + 1 : Math.ceil(from);
    to = strictly(below) ? Math.ceil(to) - 1 : Math.floor(to);
    if (typeof above === "number") from = Math.max(from, Math.floor(above) + 1);
    if (typeof below === "number") to = Math.min(to, Math.ceil(below) - 1);
  } else {
    if (typeof above === "number") from = Math.max(from, above);
    if (typeof below === "number") to = Math.min(to, below);
  }
  const step = Math.abs(numberOr(schema.multipleOf, 1)) || 1;
  // llguidance accepts no negative multiples, so they are drawn only if there are no others.
  if (schema.multipleOf !== undefined && to >= 0) from = Math.max(from, 0);
  // Not with `multipleOf`, because these bounds may have no multiple.
  if (open !== undefined && schema.multipleOf === undefined) {
    if (from === Number.NEGATIVE_INFINITY) from = Math.min(open[0], to);
    if (to === Number.POSITIVE_INFINITY) to = Math.max(open[1], from);
  }
  const width = WIDTH * Math.max(1, step);
  if (from === Number.NEGATIVE_INFINITY) from = to === Number.POSITIVE_INFINITY ? 0 : Math.min(0, to - width);
  if (to === Number.POSITIVE_INFINITY) to = Math.max(from, 0) + width;
  return [Math.max(from, -SAFE), Math.min(to, SAFE)];
}

function drawMultiple(draws: Draws, from: number, to: number, step: number): number {
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  if (first > last)
    throw new Unsatisfiable(`range [${first * step}, ${last * step}] does not contain a multiple of ${step}`);
  const span = last - first + 1;
  for (let attempt = 0; ; attempt++) {
    const at = first + (span > 2 ** 32 ? Math.floor(draws.unit() * span) : draws.below(span));
    if (Number.isInteger(step)) return at * step + 0;
    // Rounded, and drawn again unless the division is exact: 0.29 / 0.01 is not a whole number.
    const drawn = Number((at * step).toPrecision(12));
    if (Number.isInteger(drawn / step) || attempt === ROUNDINGS) return drawn;
  }
}

/** Returns the least multiple of a fraction that is a whole number. Throws `Unsatisfiable`. */
function whole(step: number): number {
  for (let times = 1; times <= 1000; times++)
    if (Math.abs(step * times - Math.round(step * times)) < 1e-9) return Math.round(step * times);
  throw new Unsatisfiable(`no whole number is a multiple of ${step}`);
}

function inside(from: number, to: number, { exclusiveMinimum, exclusiveMaximum }: Keywords): number {
  const open = exclusiveMinimum === from && exclusiveMinimum !== undefined;
  if (!open) return from;
  const middle = from + (to - from) / 2;
  if (middle > from && (middle < to || exclusiveMaximum !== to)) return middle;
  throw new Unsatisfiable(`no number between ${from} and ${to}`);
}
