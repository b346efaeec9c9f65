/**
 * Draws values that fit a JSON Schema. Over many seeds each optional property, each branch of a union and each length of an array
 * occurs. Deep or large values get their smallest form. Values are small and complete rather than realistic.
 */

import type { Draws } from "./draws.ts";
import { fits, patternsOf } from "./fits.ts";
import { STRING_FORMATS } from "./formats.ts";
import { fromPlain, type Json, listedValue, sameJson } from "./json-text.ts";
import { drawInteger, drawNumber } from "./numbers.ts";
import { Pattern, TEXT_MOST } from "./pattern.ts";
import {
  asSchema,
  both,
  impliedTypes,
  isKeywords,
  type Keywords,
  numberOr,
  pointed,
  properties,
  type Schema,
  schemas,
  type TypeName,
  typesOf,
  Unsatisfiable,
} from "./schema.ts";
import type { ToolHabits } from "./tool-habits.ts";
import { Weights } from "./weights.ts";
import { propertyName, words } from "./words.ts";
import { spend } from "./work.ts";

/** Depth from which values get their smallest form. */
const DEPTH_MOST = 8;
/** Number of values in an answer from which values get their smallest form. */
const VALUES_MOST = 400;
/** Most attempts for all values of an answer, before the schema is refused. */
const TRIES_MOST = 20_000;
/** Most attempts for one value. */
const RETRIES = 40;

/** A condition on a drawn value. */
type Check = (value: Json) => boolean;
/** A schema without references and unions, and conditions that its values must meet in addition. */
interface SettledSchema {
  readonly schema: Keywords;
  readonly checks: readonly Check[];
}

/** Draws values of one schema. */
export class ValueDrawer {
  readonly #root: Schema;
  readonly #weights: Weights;
  readonly #habits: ToolHabits;
  readonly #patterns = new Map<string, Pattern>();
  /** Number of values in the current answer. */
  #values = 0;
  /** Number of attempts for the current answer. */
  #tries = 0;

  /** `habits`: preferences for values that the schema leaves open. */
  constructor(root: Schema, habits: ToolHabits = {}) {
    this.#habits = habits;
    this.#root = root;
    this.#weights = new Weights(root);
  }

  /** True if no value of the schema ends. */
  get endless(): boolean {
    return this.#weights.least(this.#root) === Number.POSITIVE_INFINITY;
  }

  /** Draws a value. Throws `Unsatisfiable` or `BrokenPattern`. */
  draw(draws: Draws): Json {
    this.#values = 0;
    this.#tries = 0;
    return this.#value(this.#root, draws, 0);
  }

  /** Draws the start of the text of an endless value, of at least `length` characters. */
  drawEndless(draws: Draws, write: (value: Json) => string, length: number): string {
    let text = "";
    let at = this.#root;
    while (text.length < length) {
      const before = text.length;
      const { schema } = this.#settle(at, draws, DEPTH_MOST);
      const endless = (part: Schema) => this.#weights.least(part) === Number.POSITIVE_INFINITY;
      const declared = properties(schema.properties);
      const inner = [schema.required ?? []]
        .flat()
        .find((key) => endless(declared.get(key as string) ?? true)) as string;
      if (inner !== undefined) {
        const others = ([schema.required ?? []].flat() as string[]).filter(
          (key) => key !== inner && !endless(declared.get(key) ?? true),
        );
        const members = others.map(
          (key) => `${JSON.stringify(key)}: ${write(this.#value(declared.get(key) ?? true, draws, DEPTH_MOST))}, `,
        );
        text += `{${members.join("")}${JSON.stringify(inner)}: `;
        at = declared.get(inner)!;
      } else {
        text += "[";
        at = itemSchema(schema, 0);
      }
      if (text.length === before || !endless(at)) break;
    }
    return text;
  }

  #value(schema: Schema, draws: Draws, depth: number): Json {
    if (schema === false) throw new Unsatisfiable("a schema that no value fits");
    this.#values++;
    let problem: Unsatisfiable | null = null;
    for (let attempt = 0; attempt < RETRIES; attempt++) {
      if (++this.#tries > TRIES_MOST) throw new Unsatisfiable("no value was found that fits the schema");
      const before = this.#values;
      try {
        const settled = this.#settle(schema, draws, depth);
        const value = this.#plain(settled.schema, draws, depth);
        if (settled.checks.every((check) => check(value))) return value;
        problem = new Unsatisfiable("no value was found that fits the schema");
      } catch (error) {
        if (!(error instanceof Unsatisfiable)) throw error;
        problem = error;
      }
      this.#values = before;
    }
    throw problem!;
  }

  /** Resolves references, draws a branch of each union, and merges all that must hold into one schema. */
  #settle(schema: Schema, draws: Draws, depth: number): SettledSchema {
    const checks: Check[] = [];
    let out: Keywords = {};
    const holds = (value: Json, part: Schema) => fits(value, part, this.#root);
    const merge = (part: Schema, references: number): void => {
      if (part === false) throw new Unsatisfiable("a schema that no value fits");
      if (part === true) return;
      // The cost of merging.
      spend(8);
      // So many references in a row lead only to themselves, which has no effect.
      if (references > 64) return;
      if (typeof part.$ref === "string") merge(pointed(this.#root, part.$ref) ?? true, references + 1);
      out = both(out, part);
      for (const all of schemas(part.allOf)) merge(all, references + 1);
      const any = schemas(part.anyOf ?? []);
      if (any.length > 0) mergeBranch(any, references);
      const exactly = schemas(part.oneOf ?? []);
      if (exactly.length > 0) {
        mergeBranch(exactly, references);
        if (exactly.length > 1) checks.push((value) => exactly.filter((branch) => holds(value, branch)).length === 1);
      }
      if (part.not !== undefined) checks.push((value) => !holds(value, asSchema(part.not)));
      if (part.if === undefined) return;
      const branch = draws.chance(0.5) ? part.then : part.else;
      if (branch === part.then) merge(asSchema(part.if), references + 1);
      else checks.push((value) => !holds(value, asSchema(part.if)));
      merge(asSchema(branch), references + 1);
    };
    const mergeBranch = (branches: readonly Schema[], references: number): void => {
      const candidates = this.#isLate(depth) ? this.#weights.leastOf(branches) : branches;
      const weights = candidates.map((branch) => (branch === false ? 0 : this.#weights.choices(branch)));
      merge(candidates[draws.weighted(weights)]!, references + 1);
    };
    merge(schema, 0);
    const listed = out.enum !== undefined && Object.keys(out).length > 1;
    if (listed) {
      const { enum: values, ...others } = out;
      const left = (values as unknown[]).filter((item) => holds(fromPlain(item), others));
      if (left.length === 0) throw new Unsatisfiable("no value of the enumeration fits");
      out = { enum: left };
    }
    return { schema: out, checks };
  }

  /** Reports whether values get their smallest form, because the answer is deep or large. */
  #isLate(depth: number): boolean {
    return depth >= DEPTH_MOST || this.#values > VALUES_MOST;
  }

  /** Draws a value of a settled schema. */
  #plain(schema: Keywords, draws: Draws, depth: number): Json {
    if (schema.const !== undefined) return listedValue(schema.const);
    if (Array.isArray(schema.enum)) {
      if (schema.enum.length === 0) throw new Unsatisfiable("anyOf is empty");
      return listedValue(draws.pick(schema.enum));
    }
    switch (this.#typeOf(schema, draws, depth)) {
      case "string":
        return this.#text(schema, draws);
      case "integer":
        return drawInteger(draws, schema, this.#habits.integers);
      case "number":
        return drawNumber(draws, schema, this.#habits.numbers);
      case "boolean":
        return draws.chance(0.5);
      case "array":
        return this.#array(schema, draws, depth);
      case "object":
        return this.#object(schema, draws, depth);
      default:
        return null;
    }
  }

  #typeOf(schema: Keywords, draws: Draws, depth: number): TypeName {
    const stated = typesOf(schema);
    const types = stated.length > 0 ? stated : impliedTypes(schema);
    const simple = this.#isLate(depth) ? types.filter((type) => type !== "object" && type !== "array") : types;
    return draws.pick(simple.length > 0 ? simple : types);
  }

  #text(schema: Keywords, draws: Draws): string {
    const from = Math.max(0, numberOr(schema.minLength, 0));
    const to = numberOr(schema.maxLength, Number.POSITIVE_INFINITY);
    if (from > to) throw new Unsatisfiable(`minLength (${from}) is greater than maxLength (${to})`);
    if (from > TEXT_MOST) throw new Unsatisfiable(`texts of ${from} characters; at most ${TEXT_MOST} are drawn`);
    spend(from / 4);
    const [pattern, ...others] = patternsOf(schema);
    if (pattern !== undefined) {
      let text = this.#pattern(pattern).draw(draws, from, to);
      // Any text may follow a pattern without `$`.
      if (text.length < from && !/\$\)*$/.test(pattern)) text += words(draws, from - text.length, from - text.length);
      if (others.length > 0 && !fits(text, { pattern: { both: others } }, true))
        throw new Unsatisfiable("patterns exclude each other");
      if (text.length < from || text.length > to) throw new Unsatisfiable("no text of this length fits the pattern");
      return text;
    }
    const format = typeof schema.format === "string" ? STRING_FORMATS[schema.format] : undefined;
    if (format === undefined) return words(draws, from, to);
    const text = format(draws);
    if (text.length < from || text.length > to) throw new Unsatisfiable("no text of this length fits the format");
    return text;
  }

  #pattern(source: string): Pattern {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      pattern = new Pattern(source);
      this.#patterns.set(source, pattern);
    }
    return pattern;
  }

  #array(schema: Keywords, draws: Draws, depth: number): Json {
    const first = schemas(schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : []));
    const least = Math.max(
      0,
      numberOr(schema.minItems, 0),
      schema.contains === undefined ? 0 : numberOr(schema.minContains, 1),
    );
    const open = itemSchema(schema, first.length) !== false;
    const most = Math.min(
      numberOr(schema.maxItems, Number.POSITIVE_INFINITY),
      open ? Number.POSITIVE_INFINITY : first.length,
    );
    if (least > most) throw new Unsatisfiable(`minItems (${least}) is greater than maxItems (${most})`);
    if (least > TEXT_MOST) throw new Unsatisfiable(`arrays of ${least} items; at most ${TEXT_MOST} are drawn`);
    const [from, to] = this.#habits.items ?? [least, Math.max(3, least + 3, first.length)];
    const shortest = Math.min(most, Math.max(least, from));
    const widest = Math.min(most, Math.max(shortest, to));
    const length = this.#isLate(depth) ? least : shortest + draws.below(widest - shortest + 1);
    const items: Json[] = [];
    for (let i = 0; i < length; i++) {
      const item = this.#item(schema, first[i] ?? itemSchema(schema, i), items, draws, depth);
      if (item === undefined) break;
      items.push(item);
    }
    if (items.length < least) throw new Unsatisfiable("too few different items");
    return items;
  }

  /** Draws an item. Returns undefined if `uniqueItems` needs another one and none was found. */
  #item(schema: Keywords, item: Schema, before: readonly Json[], draws: Draws, depth: number): Json | undefined {
    const contained = schema.contains !== undefined && before.length < numberOr(schema.minContains, 1);
    const wanted = contained ? { allOf: [item, asSchema(schema.contains)] } : item;
    for (let attempt = 0; attempt < RETRIES; attempt++) {
      const value = this.#value(wanted, draws, depth + 1);
      if (schema.uniqueItems === true) spend(before.length);
      if (schema.uniqueItems !== true || !before.some((other) => sameJson(other, value))) return value;
    }
    return undefined;
  }

  #object(schema: Keywords, draws: Draws, depth: number): Json {
    const declared = properties(schema.properties);
    const required = new Set([schema.required ?? []].flat() as string[]);
    const most = numberOr(schema.maxProperties, Number.POSITIVE_INFINITY);
    const least = numberOr(schema.minProperties, 0);
    const late = this.#isLate(depth);
    const chosen: string[] = [];
    const optional = [...declared.keys()].filter((key) => !required.has(key) && declared.get(key) !== false);
    const room = most - required.size;
    const share = depth === 0 ? this.#habits.optional : this.#habits.inner;
    const wanted = new Set(
      optional.filter((key) => !late && draws.chance(share ?? presence(this.#weights.choices(declared.get(key)!)))),
    );
    for (const key of optional) if (required.size + wanted.size < least) wanted.add(key);
    for (const left = [...wanted]; wanted.size > Math.max(0, room); ) {
      const at = draws.below(left.length);
      wanted.delete(left.splice(at, 1)[0]!);
    }
    this.#dependents(schema, required, wanted);
    for (const key of declared.keys()) if (required.has(key) || wanted.has(key)) chosen.push(key);
    for (const key of required) if (!declared.has(key)) chosen.push(key);
    const object = new Map<string, Json>();
    for (const key of chosen) {
      const member = this.#property(schema, declared, key);
      if (member === false && !required.has(key)) continue;
      object.set(key, this.#value(member, draws, depth + 1));
    }
    this.#others(schema, object, Math.min(least, most), draws, depth);
    return object;
  }

  #dependents({ dependentRequired, dependencies }: Keywords, required: Set<string>, wanted: Set<string>): void {
    const all = {
      ...(isKeywords(dependencies) ? dependencies : {}),
      ...(isKeywords(dependentRequired) ? dependentRequired : {}),
    };
    for (let round = 0; round < 8; round++)
      for (const [key, needed] of Object.entries(all))
        if (Array.isArray(needed) && (required.has(key) || wanted.has(key)))
          for (const name of needed) required.add(name as string);
  }

  #property(schema: Keywords, declared: ReadonlyMap<string, Schema>, key: string): Schema {
    const named = declared.get(key);
    spend();
    const matching = [...properties(schema.patternProperties)].filter(([pattern]) => fits(key, { pattern }, true));
    const all = [...(named === undefined ? [] : [named]), ...matching.map(([, part]) => part)];
    if (all.length === 1) return all[0]!;
    if (all.length > 1) return { allOf: all };
    // vLLM's libraries write required properties without a schema even if `additionalProperties` is false.
    return schema.additionalProperties === false ? true : asSchema(schema.additionalProperties);
  }

  /** Adds properties that the schema does not name: as many as it needs, and sometimes more if it describes their values. */
  #others(schema: Keywords, object: Map<string, Json>, least: number, draws: Draws, depth: number): void {
    const patterns = [...properties(schema.patternProperties)];
    const declared = properties(schema.properties);
    const described = isKeywords(schema.additionalProperties) || patterns.length > 0;
    const most = numberOr(schema.maxProperties, Number.POSITIVE_INFINITY);
    const more = described && !this.#isLate(depth) ? draws.below(3) : 0;
    const wanted = Math.min(most, Math.max(least, object.size + more));
    for (let attempt = 0; object.size < wanted && attempt < 4 * wanted + RETRIES; attempt++) {
      spend();
      const open = schema.additionalProperties !== false;
      const [pattern, part] =
        patterns.length > 0 && (!open || draws.chance(0.5))
          ? draws.pick(patterns)
          : [null, asSchema(schema.additionalProperties)];
      if (pattern === null && !open) break;
      const key = this.#key(schema, pattern, draws);
      if (object.has(key) || declared.has(key)) continue;
      object.set(key, this.#value(pattern === null ? this.#property(schema, new Map(), key) : part, draws, depth + 1));
    }
    if (object.size < least) throw new Unsatisfiable("too few properties");
  }

  #key({ propertyNames }: Keywords, pattern: string | null, draws: Draws): string {
    // Any text may follow a pattern without `$`.
    if (pattern !== null)
      return this.#pattern(pattern).draw(draws) + (/\$\)*$/.test(pattern) ? "" : propertyName(draws));
    if (propertyNames !== undefined) {
      const name = this.#value({ allOf: [{ type: "string" }, asSchema(propertyNames)] }, draws, DEPTH_MOST);
      return String(name);
    }
    return propertyName(draws);
  }
}

function itemSchema({ items, additionalItems, prefixItems }: Keywords, at: number): Schema {
  if (Array.isArray(items)) return asSchema(items[at] ?? additionalItems);
  return asSchema(Array.isArray(prefixItems) ? (prefixItems[at] ?? items) : items);
}

/** Returns the probability of an optional property. It is higher if the property has many choices, so that all occur. */
function presence(choices: number): number {
  return choices <= 1 ? 0.5 : choices <= 6 ? 0.75 : 0.9;
}
