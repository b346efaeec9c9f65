/**
 * Reads tool calls that a fixture or a script orders. Their text is written only when a request is answered, because its form
 * depends on the tool parser, and some forms number the calls of the whole conversation.
 */

/** A tool call that is ordered. */
export interface GivenCall {
  readonly name: string;
  /** JSON of an object, or any text. Kept as a text, because objects change when they are sent between threads. */
  readonly arguments: string;
  /** True if the order has the arguments as a text, which is written unchanged, even if it is not JSON. */
  readonly isText: boolean;
}

/** An error in a list of calls. `at`: keys and indexes of its place. */
interface CallMistake {
  readonly at: readonly (string | number)[];
  readonly message: string;
}

/** Most tool calls of an answer. */
export const CALLS_MAX = 128;
/** Most levels of objects and arrays in the arguments of a call, as in a constraint. */
const NESTING_MOST = 64;
const KEYS = ["name", "arguments"];

/** Reads a list of `{name, arguments}`. `arguments` is an object or a text. It may be absent if there are none. */
export function givenCallsIn(value: unknown): GivenCall[] | CallMistake {
  if (!Array.isArray(value) || value.length === 0 || value.length > CALLS_MAX)
    return { at: [], message: `takes a list of 1 to ${CALLS_MAX} calls, each { name, arguments }` };
  const calls: GivenCall[] = [];
  for (const [at, call] of value.entries()) {
    const read = givenCallIn(call);
    if ("message" in read) return { ...read, at: [at, ...read.at] };
    calls.push(read);
  }
  return calls;
}

function givenCallIn(call: unknown): GivenCall | CallMistake {
  if (!isObject(call)) return { at: [], message: "takes { name, arguments }" };
  const other = Object.keys(call).find((key) => !KEYS.includes(key));
  if (other !== undefined) return { at: [other], message: `not known; it takes ${KEYS.join(", ")}` };
  const { name, arguments: args = {} } = call;
  if (typeof name !== "string" || name === "") return { at: ["name"], message: "takes the name of a tool" };
  if (typeof args === "string") return { name, arguments: args, isText: true };
  if (!isObject(args)) return { at: ["arguments"], message: "takes an object, or a text that is written unchanged" };
  if (nestsDeeper(args, NESTING_MOST))
    return { at: ["arguments"], message: `objects and lists may nest at most ${NESTING_MOST} levels` };
  if (!isJson(args)) return { at: ["arguments"], message: "takes a value that JSON can express" };
  return { name, arguments: JSON.stringify(args), isText: false };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reports whether JSON can express the value. YAML also has infinities and NaN. */
function isJson(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.values(value).every(isJson);
  return typeof value !== "number" || Number.isFinite(value);
}

function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => nestsDeeper(inner, levels - 1));
}
