/** What does a route look like to a machine? Operations of OpenAPI 3.1; bodies from the tables that requests are checked with. */

import type { JsonSchema } from "../../pydantic/types.ts";
import type { Fields } from "../../pydantic/validate.ts";
import type { Effect, Parameter } from "./parameter.ts";

export interface Operation {
  readonly summary: string;
  readonly parameters?: readonly object[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>;
  };
  readonly responses: Readonly<Record<string, Described>>;
}

/** An answer. */
export interface Described {
  readonly description: string;
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

/** By path; the methods of one path answer alike. */
export type Operations = Readonly<Record<string, Operation>>;

/** All of its properties are there. */
export const titled = (title: string, properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: "object",
  title,
  properties,
  required: Object.keys(properties),
});
export const asJson = (schema: JsonSchema) => ({ "application/json": { schema } });
export const answer = (description: string, schema?: JsonSchema): Described =>
  schema === undefined ? { description } : { description, content: asJson(schema) };

/** A body with these fields, and what is said of each. */
export function bodySchema(title: string, fields: Fields, parameterOf: (name: string) => Parameter): JsonSchema {
  const properties = Object.entries(fields).map(([name, { type, default: value }]) => {
    const { limits, bounds, effect } = parameterOf(name);
    const description = [limits && `${capital(limits)}.`, `${capital(effectText(effect))}.`].filter(Boolean).join(" ");
    return [name, { ...type.schema, ...bounds, ...(value === undefined ? {} : { default: value }), description }];
  });
  const required = Object.keys(fields).filter((name) => !("default" in fields[name]!));
  return {
    type: "object",
    title,
    properties: Object.fromEntries(properties),
    ...(required.length > 0 ? { required } : {}),
  };
}

const capital = (words: string) => words.charAt(0).toUpperCase() + words.slice(1);

export function effectText(effect: Effect): string {
  if ("seen" in effect) return effect.seen;
  return "neither" in effect ? `none in vLLM either: ${effect.neither}` : `none here: ${effect.here}`;
}
