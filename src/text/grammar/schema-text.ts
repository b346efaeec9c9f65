/** Draws the text of a value that fits a JSON Schema. */
import type { Draws } from "./draws.ts";
import { jsonText } from "./json-text.ts";
import { TEXT_MOST } from "./pattern.ts";
import type { Schema } from "./schema.ts";
import { ValueDrawer } from "./values.ts";

/** Schema of any JSON object, for `json_object`. */
export const ANY_OBJECT: Schema = {
  type: "object",
  additionalProperties: { type: ["string", "integer", "boolean"] },
  minProperties: 1,
};

/** Returns the text of a value that fits. Cuts a value without an end at `TEXT_MOST` characters. */
export function schemaText(schema: Schema, draws: Draws): string {
  const values = new ValueDrawer(schema);
  return values.endless ? values.drawEndless(draws, jsonText, TEXT_MOST) : jsonText(values.draw(draws));
}
