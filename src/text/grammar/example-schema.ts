/**
 * Makes a JSON Schema of an example, or of a description that is partly JSON, so that answers have the example's shape. Answers
 * repeat short words of an example, because a client may accept no others (`"verdict": "no"`). Prose is drawn anew.
 */
import { findJson, InWords, isFoundObject, type LooseValue, OneOf } from "./loose-json.ts";
import { schemaIn } from "./prompt-schema.ts";
import type { Keywords, Schema } from "./schema.ts";

type Scalar = string | number | boolean | null;

/** Most levels of descriptions in descriptions, such as a schema in a text of an example. */
const WORDS_MOST = 3;
/** Items of a list that are read. An answer needs no more. */
const ITEMS_MOST = 100;
/** Members of an object that are read. */
const MEMBERS_MOST = 200;

/** Returns a schema for the shape of an example. */
export function schemaOfExample(value: LooseValue): Schema {
  return schemaOf([value], 0);
}

/** Returns a schema for values in the same place of an example, at least one. `inside`: number of descriptions around it. */
function schemaOf(values: readonly LooseValue[], inside: number): Schema {
  const all = values.flatMap((value) => (value instanceof OneOf ? [...value.values] : [value]));
  const schemas: Schema[] = [];
  const lists = all.filter((value) => Array.isArray(value));
  if (lists.length > 0) {
    const items = lists.flatMap((list) => list.slice(0, ITEMS_MOST)).slice(0, ITEMS_MOST);
    schemas.push({ type: "array", items: items.length === 0 ? TEXT : schemaOf(items, inside), minItems: 1 });
  }
  for (const value of all.filter(isFoundObject)) {
    const schema = schemaIn(value);
    if (schema !== null) return schema;
  }
  const objects = all.filter(isFoundObject);
  if (objects.length > 0) schemas.push(schemaOfObjects(objects, inside));
  for (const value of all) if (value instanceof InWords) schemas.push(schemaOfWords(value, inside));
  const rest = all.filter((value) => value === null || typeof value !== "object") as Scalar[];
  schemas.push(...schemasOfScalars(rest, inside));
  if (schemas.length === 1) return schemas[0]!;
  const different = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  return different.length === 1 ? different[0]! : { anyOf: different };
}

/** Returns a schema for objects. Members that all of them have are required. */
function schemaOfObjects(objects: readonly { readonly [key: string]: LooseValue }[], inside: number): Keywords {
  const members = new Map<string, LooseValue[]>();
  for (const object of objects)
    for (const [key, value] of Object.entries(object).slice(0, MEMBERS_MOST)) {
      const values = members.get(key);
      if (values !== undefined) values.push(value);
      else if (members.size < MEMBERS_MOST) members.set(key, [value]);
    }
  return {
    type: "object",
    properties: Object.fromEntries([...members].map(([key, values]) => [key, schemaOf(values, inside)])),
    required: [...members].filter(([, values]) => values.length === objects.length).map(([key]) => key),
    additionalProperties: false,
  };
}

const TEXT: Keywords = { type: "string" };
/** Matches a choice written as one text: `positive|negative`. */
const CHOICE = /^[^|\n]{1,60}(?:\|[^|\n]{1,60})+$/;
/** Matches a placeholder for a text. */
const STANDS_FOR = /^[{<[(].*[}>\])]|\.{3}|…|# note:/s;
const NAME_OF_TYPE =
  /^(?:str(?:ing)?|text|int(?:eger)?|long|float|double|number|bool(?:ean)?|date(?:-?time)?|uuid|email|ur[il]|(?:list|array)\b.{0,60}|.{0,40}\[\])$/i;
const SHORT_WORD = /^[\w.:+-]{1,24}$/;

function schemasOfScalars(values: readonly Scalar[], inside: number): Schema[] {
  const texts = values.filter((value) => typeof value === "string");
  const numbers = values.filter((value) => typeof value === "number");
  const schemas: Schema[] = [];
  const described = texts.find((text) => STANDS_FOR.test(text) || NAME_OF_TYPE.test(text.trim()));
  if (described !== undefined) schemas.push(schemaOfWords(new InWords(described), inside));
  else if (texts.length > 0) schemas.push(schemaOfTexts(texts));
  if (numbers.length > 0) schemas.push(schemaOfNumbers(numbers));
  if (values.some((value) => typeof value === "boolean")) schemas.push({ type: "boolean" });
  if (values.includes(null)) schemas.push({ type: "null" });
  return schemas;
}

function schemaOfTexts(texts: readonly string[]): Keywords {
  const all = texts.flatMap((text) => (CHOICE.test(text) ? text.split("|").map((choice) => choice.trim()) : [text]));
  return all.every((text) => SHORT_WORD.test(text)) ? { enum: [...new Set(all)] } : TEXT;
}

/** Returns a schema for numbers: from 0 or the least to the largest, but at least to 10, or to 1 if there are fractions. */
function schemaOfNumbers(numbers: readonly number[]): Keywords {
  const isWhole = numbers.every(Number.isInteger);
  return {
    type: isWhole ? "integer" : "number",
    minimum: numbers.reduce((least, number) => Math.min(least, number), 0),
    maximum: numbers.reduce((most, number) => Math.max(most, number), isWhole ? 10 : 1),
  };
}

const RANGE = /(-?\d+(?:\.\d+)?)\s*(?:-|–|\.\.|to|and)\s*(-?\d+(?:\.\d+)?)/;
const CHOICES = /\bone of:?\s*([^\n]{1,2000})/i;
const FORMATS: readonly (readonly [RegExp, Keywords])[] = [
  [/\bdate-?time\b|\btimestamp\b/i, { type: "string", format: "date-time" }],
  [/\bdate\b|\bYYYY-MM-DD\b/i, { type: "string", format: "date" }],
  [/\buuid\b/i, { type: "string", format: "uuid" }],
  [/\be-?mail\b/i, { type: "string", format: "email" }],
  [/\bur[il]\b/i, { type: "string", format: "uri" }],
];

/** Returns the schema that a description contains, or that of the type that it names, else the schema of texts. */
function schemaOfWords({ words, example }: InWords, inside: number): Schema {
  if (inside < WORDS_MOST) {
    const found = findJson(words).findLast(({ value }) => isFoundObject(value));
    if (found !== undefined) return schemaOf([found.value], inside + 1);
  }
  const named = typeNamed(words);
  if (named !== null) return named;
  return example === undefined ? TEXT : (schemasOfScalars([example], inside)[0] ?? TEXT);
}

/** Returns the schema of the type that the words name, or null. */
export function typeNamed(words: string): Keywords | null {
  const list = /\b(?:list|array)\b|\[\]/i.exec(words);
  if (list !== null) {
    const item = typeNamed(words.slice(0, list.index) + words.slice(list.index + list[0].length));
    return { type: "array", items: item ?? TEXT, minItems: 1 };
  }
  const [, choices] = CHOICES.exec(words) ?? [];
  const listed = choices?.split(/[;,|]/).map((choice) => choice.trim().replace(/^\W+|\W+$/g, ""));
  const named = listed?.filter((choice) => choice !== "") ?? [];
  if (named.length > 1) return { enum: named };
  if (/\bbool(?:ean)?\b|\btrue\b.{0,8}\bfalse\b/i.test(words)) return { type: "boolean" };
  const [, least, most] = RANGE.exec(words) ?? [];
  const bounds =
    least !== undefined && Number(least) < Number(most) ? { minimum: Number(least), maximum: Number(most) } : {};
  if (/\b(?:int(?:eger)?|long|whole number)\b/i.test(words)) return { type: "integer", ...bounds };
  if (/\b(?:float|double|number|numeric|decimal)\b/i.test(words)) return { type: "number", ...bounds };
  for (const [name, schema] of FORMATS) if (name.test(words)) return schema;
  return /\b(?:str(?:ing)?|text)\b/i.test(words) ? TEXT : null;
}
