/** Is this text a JSON object? What somebody else wrote may be anything. */

// biome-ignore lint/suspicious/noExplicitAny: its members may be anything, and are looked at one by one
export type LooseObject = Record<string, any>;

/** Null: it is no JSON, or no object. */
export function jsonObjectIn(text: string | null): LooseObject | null {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
