/** Recognizes JSON Schemas among the objects of a prompt, in the forms in which libraries write them. */
import { type FoundObject, InWords, isFoundObject, type LooseValue, OneOf } from "./loose-json.ts";
import { type Keywords, TYPES } from "./schema.ts";

/** Keywords of JSON Schema and OpenAPI. An object with a `type` and any other key is an example, not a schema. */
const KEYWORDS = new Set(
  (
    "$schema $id $ref $defs $anchor $comment id definitions type enum const title description default examples example deprecated " +
    "readOnly writeOnly nullable discriminator properties required additionalProperties patternProperties propertyNames " +
    "unevaluatedProperties minProperties maxProperties dependentRequired dependentSchemas dependencies items prefixItems " +
    "additionalItems contains minContains maxContains minItems maxItems uniqueItems allOf anyOf oneOf not if then else minimum " +
    "maximum exclusiveMinimum exclusiveMaximum multipleOf pattern format minLength maxLength contentEncoding contentMediaType strict"
  ).split(" "),
);

/** Keys of objects around a schema: OpenAI's `response_format`, and a schema with its name. */
const AROUND = ["json_schema", "schema"];

/** Returns the value itself or a member under one of those keys if it is a schema, else null. */
export function schemaIn(value: LooseValue): Keywords | null {
  if (!isFoundObject(value)) return null;
  if (isLikeSchema(value) && isSchema(withoutComments(value))) return plain(value) as Keywords;
  for (const key of AROUND) {
    const inside = Object.hasOwn(value, key) ? schemaIn(value[key]!) : null;
    if (inside !== null) return inside;
  }
  return null;
}

function isSchema(value: LooseValue): boolean {
  if (!isFoundObject(value)) return false;
  const has = (key: string) => Object.hasOwn(value, key);
  const { type, properties, $ref } = value;
  const types = [type].flat();
  const isTyped = has("type") && types.length > 0 && types.every((name) => TYPES.includes(name as never));
  if (has("type") && !isTyped) return false;
  if (isFoundObject(properties) && Object.values(properties).every(isPropertySchema)) return true;
  if (has("$schema") && typeof value.$schema === "string") return true;
  if (typeof $ref === "string" && (isFoundObject(value.$defs) || isFoundObject(value.definitions))) return true;
  if (!Object.keys(value).every((key) => KEYWORDS.has(key) || key.startsWith("x-"))) return false;
  if (isTyped) return true;
  if (["anyOf", "oneOf", "allOf"].some((key) => Array.isArray(value[key]) && value[key].every(isFoundObject)))
    return true;
  return typeof $ref === "string" ? $ref.startsWith("#") : Array.isArray(value.enum);
}

/** Reports whether a value may be the schema of a property: a boolean, an empty object, or an object with a keyword. */
function isPropertySchema(value: LooseValue): boolean {
  return (
    typeof value === "boolean" || (isFoundObject(value) && (Object.keys(value).length === 0 || isLikeSchema(value)))
  );
}

const isLikeSchema = (value: FoundObject) => Object.keys(value).some((key) => KEYWORDS.has(key));

/** Returns an object whose members lack the comments about them. */
function withoutComments(value: FoundObject): FoundObject {
  const entries = Object.entries(value).map(([key, inner]) => [key, uncommented(inner)]);
  return Object.fromEntries(entries);
}

const uncommented = (value: LooseValue) =>
  value instanceof InWords && value.example !== undefined ? value.example : value;

/** Converts to plain JSON. Values in words, such as descriptions and defaults, become texts. */
function plain(value: LooseValue): unknown {
  if (value instanceof InWords) return value.example ?? value.words;
  if (value instanceof OneOf) return plain(value.values[0]!);
  if (Array.isArray(value)) return value.map(plain);
  if (!isFoundObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}
