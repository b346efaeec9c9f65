/**
 * Weighs the branches of a schema. Branches are drawn in proportion to the number of choices in them, so that all choices
 * occur. In large or deep answers the branch with the smallest value is taken, so that the answer ends.
 */
import { asSchema, isKeywords, type Keywords, numberOr, pointed, properties, type Schema, schemas } from "./schema.ts";
import { spend } from "./work.ts";

/** Most choices that a schema counts as. */
const CHOICES_MOST = 64;

/** The weights of the parts of one schema, which are cached. */
export class Weights {
  readonly #choices = new Map<Keywords, number>();
  readonly #least = new Map<Keywords, number>();
  readonly #visiting = new Set<Keywords>();

  constructor(private readonly root: Schema) {}

  /** Returns the number of choices in a schema, at least 1. */
  choices(schema: Schema): number {
    if (!isKeywords(schema)) return 1;
    const known = this.#choices.get(schema);
    if (known !== undefined) return known;
    // A schema that contains itself counts once.
    this.#choices.set(schema, 1);
    let sum = 1;
    const add = (part: unknown, extra = 0) => {
      if (sum < CHOICES_MOST) sum += this.choices(asSchema(part)) - 1 + extra;
    };
    if (typeof schema.$ref === "string") add(pointed(this.root, schema.$ref));
    for (const key of ["anyOf", "oneOf"]) for (const branch of schemas(schema[key])) add(branch, 1);
    for (const part of schemas(schema.allOf)) add(part);
    const required = new Set([schema.required ?? []].flat());
    for (const [key, member] of properties(schema.properties)) add(member, required.has(key) ? 0 : 1);
    if (schema.items !== undefined) add(Array.isArray(schema.items) ? true : schema.items, 3);
    const bounded = Math.min(CHOICES_MOST, sum);
    this.#choices.set(schema, bounded);
    return bounded;
  }

  /** Returns the depth of the smallest value, or Infinity if no value ends. */
  least(schema: Schema): number {
    if (!isKeywords(schema)) return 0;
    const known = this.#least.get(schema);
    if (known !== undefined) return known;
    if (this.#visiting.has(schema)) return Number.POSITIVE_INFINITY;
    spend(4);
    this.#visiting.add(schema);
    const least = this.#leastOf(schema);
    this.#visiting.delete(schema);
    // Inside a circle of references Infinity may be wrong, so it is cached only outside of all circles.
    if (least < Number.POSITIVE_INFINITY || this.#visiting.size === 0) this.#least.set(schema, least);
    return least;
  }

  /** Returns the branches with the smallest value, or all if none ends. */
  leastOf(branches: readonly Schema[]): readonly Schema[] {
    const all = branches.map((branch) => (branch === false ? Number.POSITIVE_INFINITY : this.least(branch)));
    const smallest = Math.min(...all);
    return branches.filter((_, i) => all[i] === smallest);
  }

  #leastOf(schema: Keywords): number {
    let most = 0;
    const needs = (part: unknown, levels: number) => {
      most = Math.max(most, this.least(asSchema(part)) + levels);
    };
    // A reference that leads only to itself has no effect.
    if (typeof schema.$ref === "string") {
      const to = pointed(this.root, schema.$ref);
      if (!this.#isLoop(schema)) needs(to, 0);
    }
    for (const part of schemas(schema.allOf)) needs(part, 0);
    for (const key of ["anyOf", "oneOf"]) {
      const branches = schemas(schema[key]);
      if (branches.length > 0) most = Math.max(most, Math.min(...branches.map((branch) => this.least(branch))));
    }
    const types = [schema.type ?? []].flat();
    if (types.some((type) => type !== "object" && type !== "array")) return most;
    const declared = properties(schema.properties);
    const maybeArray = types.length === 0 || types.includes("array");
    const maybeObject = types.length === 0 || types.includes("object");
    if (maybeObject) for (const key of [schema.required ?? []].flat()) needs(declared.get(key as string), 1);
    if (maybeArray && numberOr(schema.minItems, 0) > 0) needs(Array.isArray(schema.items) ? true : schema.items, 1);
    return most;
  }

  #isLoop(schema: Keywords): boolean {
    const seen = new Set<unknown>();
    let at: Schema | undefined = schema;
    while (isKeywords(at) && typeof at.$ref === "string") {
      if (seen.has(at)) return true;
      seen.add(at);
      at = pointed(this.root, at.$ref);
    }
    return false;
  }
}
