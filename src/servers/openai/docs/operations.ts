/** Types and helpers for OpenAPI 3.1 operations. Schemas of bodies come from the tables that check requests. */

import type { JsonSchema } from "../../pydantic/types.ts";
import type { Fields } from "../../pydantic/validate.ts";
import type { Effect, Parameter } from "./parameter.ts";

/** An operation of the OpenAPI document. */
export interface Operation {
  readonly summary: string;
  readonly parameters?: readonly object[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>;
  };
  readonly responses: Readonly<Record<string, ResponseObject>>;
}

/** A response of the OpenAPI document. */
export interface ResponseObject {
  readonly description: string;
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

/** Operations by path. All methods of a path have the same operation. */
export type Operations = Readonly<Record<string, Operation>>;

/** Returns the schema of an object whose properties are all required. */
export const titled = (title: string, properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: "object",
  title,
  properties,
  required: Object.keys(properties),
});
/** Returns the `content` of a JSON body. */
export const asJson = (schema: JsonSchema) => ({ "application/json": { schema } });
/** Describes, for the OpenAPI document, a request whose body is required and is JSON of this schema. */
export const bodyInJson = (schema: JsonSchema) => ({ required: true, content: asJson(schema) });
/** Describes, for the OpenAPI document, a response that is JSON of this schema, or a stream of events. */
export const streamable = (description: string, schema: JsonSchema): ResponseObject => ({
  description,
  content: { ...asJson(schema), "text/event-stream": { schema: {} } },
});
/** Returns a response with or without a JSON body. */
export const answer = (description: string, schema?: JsonSchema): ResponseObject =>
  schema === undefined ? { description } : { description, content: asJson(schema) };

/** Returns the JSON schema of a body with these fields. `parameters`: limits and effect of each field, for its description. */
export function bodySchema(title: string, fields: Fields, parameters: Readonly<Record<string, Parameter>>): JsonSchema {
  const properties = Object.entries(fields).map(([name, { type, default: value }]) => {
    const { limits, bounds, effect } = parameters[name]!;
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

/** Returns the sentence about a field's effect. */
function effectText(effect: Effect): string {
  if ("seen" in effect) return effect.seen;
  return "neither" in effect ? `none in vLLM either: ${effect.neither}` : `none here: ${effect.here}`;
}
