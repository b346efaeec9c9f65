/** Writes a value that fits a JSON Schema as text. */
import type { Draws } from "./draws.ts";
import { jsonText } from "./json-text.ts";
import { TEXT_MOST } from "./pattern.ts";
import type { Schema } from "./schema.ts";
import { ValueDrawer } from "./values.ts";

/** Any JSON object, as `json_object` asks for it. */
export const ANY_OBJECT: Schema = {
  type: "object",
  additionalProperties: { type: ["string", "integer", "boolean"] },
  minProperties: 1,
};

/** The text of a value that fits. */
export function schemaText(schema: Schema, draws: Draws): string {
  const values = new ValueDrawer(schema);
  return values.endless ? values.drawEndless(draws, jsonText, TEXT_MOST) : jsonText(values.draw(draws));
}
