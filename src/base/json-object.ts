/** Reads JSON from outside, whose members may have any type. */

// biome-ignore lint/suspicious/noExplicitAny: its members may be anything, and are looked at one by one
export type LooseObject = Record<string, any>;

/** Returns the value if it is an object, null if it is a list, null, a text, a number or a boolean. */
export const looseObject = (value: unknown): LooseObject | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as LooseObject) : null;

/** Returns the value if it is a list, else an empty list. */
export const looseList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Returns the JSON of a value, or a remark if it is nested too deeply for the runtime. */
export function shownJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return "JSON that cannot be shown";
  }
}

/** Returns the object in a JSON text, or null if the text is not JSON, or not an object. */
export function jsonObjectIn(text: string | null): LooseObject | null {
  try {
    return looseObject(JSON.parse(text ?? ""));
  } catch {
    return null;
  }
}
