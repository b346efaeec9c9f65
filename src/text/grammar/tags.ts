/**
 * Writes answers for structural tags, which are tags around values of schemas. Reads both forms that vLLM 0.33 accepts:
 * `structures` with `triggers`, and the formats of xgrammar 0.2.
 */
import { parsedJson } from "../../base/json-object.ts";
import { BrokenStructure } from "./broken.ts";
import type { Draws } from "./draws.ts";
import { drawGrammar, readGbnf } from "./grammar.ts";
import { Pattern } from "./pattern.ts";
import { asSchema, isKeywords, type Keywords, type Schema } from "./schema.ts";
import { words } from "./words.ts";

type SchemaText = (schema: Schema, draws: Draws) => string;

const NO_TAG = new BrokenStructure("Invalid grammar specification: 'triggers'");
/** Most characters of free text. */
const FREE_TEXT = 60;

/** Returns the writer for a structural tag. `schemaText` draws the values. Throws `BrokenStructure`. */
export function tagWriter(text: string, schemaText: SchemaText): (draws: Draws) => string {
  const tag = parsedJson(text);
  if (tag === undefined)
    throw new BrokenStructure("Invalid grammar specification: Expecting value: line 1 column 1 (char 0)");
  if (!isKeywords(tag)) throw NO_TAG;
  if (Array.isArray(tag.structures)) return legacy(tag, schemaText);
  const format = tag.format;
  if (!isKeywords(format)) throw NO_TAG;
  const write = (draws: Draws) => formatText(format, draws, schemaText);
  return write;
}

function legacy({ structures, triggers }: Keywords, schemaText: SchemaText): (draws: Draws) => string {
  const list = structures as { begin: string; schema?: unknown; end: string }[];
  const starts = Array.isArray(triggers) ? (triggers as string[]) : [];
  if (list.length === 0) throw new BrokenStructure("No structural tags found in the grammar spec.");
  const unknown = list.find(({ begin }) => !starts.some((trigger) => begin.startsWith(trigger)));
  if (unknown !== undefined) {
    const shown = starts.map((trigger) => `'${trigger}'`).join(", ");
    throw new BrokenStructure(`Trigger ${unknown.begin} not found in triggers [${shown}]`);
  }
  return (draws) => {
    const { begin, schema, end } = draws.pick(list);
    const before = draws.chance(0.5) ? `${words(draws, 0, FREE_TEXT)} ` : "";
    return `${before}${begin}${schemaText(asSchema(schema), draws)}${end}`;
  };
}

function formatText(format: Keywords, draws: Draws, schemaText: SchemaText): string {
  const inner = (part: unknown): string => {
    if (!isKeywords(part)) throw NO_TAG;
    return formatText(part, draws, schemaText);
  };
  const list = (key: string) => (Array.isArray(format[key]) ? (format[key] as unknown[]) : []);
  switch (format.type) {
    case "const_string":
      return String(format.value);
    case "json_schema":
    case "qwen_xml_parameter":
      return schemaText(asSchema(format.json_schema), draws);
    case "regex":
      return new Pattern(String(format.pattern)).draw(draws);
    case "grammar":
      return drawGrammar(readGbnf(String(format.grammar)), draws);
    case "any_text":
      return words(draws, 0, FREE_TEXT);
    case "sequence":
      return list("elements").map(inner).join("");
    case "or":
      return inner(draws.pick(list("elements")));
    case "tag":
      return `${[format.begin].flat()[0]}${inner(format.content)}${[format.end].flat()[0]}`;
    case "triggered_tags":
    case "tags_with_separator": {
      const separated = format.type === "tags_with_separator";
      const most = format.stop_after_first === true ? 1 : 3;
      const least = format.at_least_one === true || separated ? 1 : 0;
      const count = Math.min(most, least + draws.below(3));
      const texts = Array.from({ length: count }, () => inner(draws.pick(list("tags"))));
      if (separated) return texts.join(String(format.separator ?? ""));
      return count === 0 ? words(draws, 0, FREE_TEXT) : texts.join(" ");
    }
    default:
      throw NO_TAG;
  }
}
