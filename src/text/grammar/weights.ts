/**
 * How much is there to choose in a schema, and how deep is its smallest value? Branches are drawn by the first, so that all
 * that is in them comes up; where an answer has become large or deep the second says which branch ends it.
 */
import { asSchema, isKeywords, type Keywords, numberOr, pointed, properties, type Schema, schemas } from "./schema.ts";
import { spend } from "./work.ts";

/** Choices beyond so many count no more. */
const CHOICES_MOST = 64;

export class Weights {
  readonly #root: Schema;
  readonly #choices = new Map<Keywords, number>();
  readonly #least = new Map<Keywords, number>();
  readonly #visiting = new Set<Keywords>();

  constructor(root: Schema) {
    this.#root = root;
  }

  /** At least 1. */
  choices(schema: Schema): number {
    if (!isKeywords(schema)) return 1;
    const known = this.#choices.get(schema);
    if (known !== undefined) return known;
    this.#choices.set(schema, 1); // a reference to itself counts once
    let sum = 1;
    const add = (one: unknown, extra = 0) => {
      if (sum < CHOICES_MOST) sum += this.choices(asSchema(one)) - 1 + extra;
    };
    if (typeof schema.$ref === "string") add(pointed(this.#root, schema.$ref));
    for (const key of ["anyOf", "oneOf"]) for (const one of schemas(schema[key])) add(one, 1);
    for (const one of schemas(schema.allOf)) add(one);
    const required = new Set([schema.required ?? []].flat());
    for (const [key, one] of properties(schema.properties)) add(one, required.has(key) ? 0 : 1);
    if (schema.items !== undefined) add(Array.isArray(schema.items) ? true : schema.items, 3);
    const bounded = Math.min(CHOICES_MOST, sum);
    this.#choices.set(schema, bounded);
    return bounded;
  }

  /** Levels of the smallest value; Infinity: it has no end. */
  least(schema: Schema): number {
    if (!isKeywords(schema)) return 0;
    const known = this.#least.get(schema);
    if (known !== undefined) return known;
    if (this.#visiting.has(schema)) return Number.POSITIVE_INFINITY;
    spend(4);
    this.#visiting.add(schema);
    const least = this.#leastOf(schema);
    this.#visiting.delete(schema);
    // Inside a circle it may be less than it seems from here; only what is known for good is kept.
    if (least < Number.POSITIVE_INFINITY || this.#visiting.size === 0) this.#least.set(schema, least);
    return least;
  }

  /** Those with the smallest values; all where none ends. */
  leastOf(branches: readonly Schema[]): readonly Schema[] {
    const all = branches.map((one) => (one === false ? Number.POSITIVE_INFINITY : this.least(one)));
    const smallest = Math.min(...all);
    return branches.filter((_, i) => all[i] === smallest);
  }

  #leastOf(schema: Keywords): number {
    let most = 0;
    const needs = (one: unknown, levels: number) => {
      most = Math.max(most, this.least(asSchema(one)) + levels);
    };
    // A reference that leads only to itself says nothing.
    if (typeof schema.$ref === "string") {
      const to = pointed(this.#root, schema.$ref);
      if (!this.#isLoop(schema)) needs(to, 0);
    }
    for (const one of schemas(schema.allOf)) needs(one, 0);
    for (const key of ["anyOf", "oneOf"]) {
      const branches = schemas(schema[key]);
      if (branches.length > 0) most = Math.max(most, Math.min(...branches.map((one) => this.least(one))));
    }
    const types = [schema.type ?? []].flat();
    if (types.some((type) => type !== "object" && type !== "array")) return most;
    const own = properties(schema.properties);
    const maybeArray = types.length === 0 || types.includes("array");
    const maybeObject = types.length === 0 || types.includes("object");
    if (maybeObject) for (const key of [schema.required ?? []].flat()) needs(own.get(key as string), 1);
    if (maybeArray && numberOr(schema.minItems, 0) > 0) needs(Array.isArray(schema.items) ? true : schema.items, 1);
    return most;
  }

  #isLoop(schema: Keywords): boolean {
    const seen = new Set<unknown>();
    let at: Schema | undefined = schema;
    while (isKeywords(at) && typeof at.$ref === "string") {
      if (seen.has(at)) return true;
      seen.add(at);
      at = pointed(this.#root, at.$ref);
    }
    return false;
  }
}
