/**
 * Tool calls that a fixture or a script orders. They stay name and arguments until a request is answered: the form of their
 * text is the tool parser's, and some forms number the calls of the whole conversation.
 */

export interface GivenCall {
  readonly name: string;
  /** JSON text of an object, or any text. A text, because objects are changed on their way between threads. */
  readonly arguments: string;
  /** True if the arguments were given as a text, which is written as it stands, JSON or not. */
  readonly isText: boolean;
}

/** What is wrong with a list of calls, and the keys and places that lead to it. */
export interface CallMistake {
  readonly at: readonly (string | number)[];
  readonly message: string;
}

/** Tool calls of one answer. */
export const CALLS_MAX = 128;
/** Objects and arrays inside each other in the arguments of a call, as in a constraint. */
const NESTING_MOST = 64;
const KEYS = ["name", "arguments"];

/** Reads a list of `{name, arguments}`; `arguments` is an object, a text, or absent for none. */
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
  const { name, arguments: given = {} } = call;
  if (typeof name !== "string" || name === "") return { at: ["name"], message: "takes the name of a tool" };
  if (typeof given === "string") return { name, arguments: given, isText: true };
  if (!isObject(given))
    return { at: ["arguments"], message: "takes an object, or a text that is written as it stands" };
  if (nestsDeeper(given, NESTING_MOST))
    return { at: ["arguments"], message: `objects and lists may nest at most ${NESTING_MOST} levels` };
  if (!isJson(given)) return { at: ["arguments"], message: "takes what JSON can say" };
  return { name, arguments: JSON.stringify(given), isText: false };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** YAML has numbers that no JSON has. */
function isJson(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.values(value).every(isJson);
  return typeof value !== "number" || Number.isFinite(value);
}

function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => nestsDeeper(inner, levels - 1));
}
