/** Reads JSON from outside the program, whose members may have any type. */

// biome-ignore lint/suspicious/noExplicitAny: its members may be anything, and are looked at one by one
export type LooseObject = Record<string, any>;

/** Returns the value if it is an object. Returns null for every other value, including lists. */
export const looseObject = (value: unknown): LooseObject | null => (isObject(value) ? value : null);

/** Returns true if the value is an object, and not a list. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the value if it is a list. Returns an empty list for every other value. */
export const looseList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Returns a value as JSON. Returns a remark instead if the value is nested too deeply for the runtime. */
export function shownJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return "JSON that cannot be shown";
  }
}

/** Returns the value of a JSON text, or undefined if the text is not JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the object in a JSON text. Returns null if the text is not JSON or contains another type of value. */
export const jsonObjectIn = (text: string | null): LooseObject | null => looseObject(parsedJson(text ?? ""));
