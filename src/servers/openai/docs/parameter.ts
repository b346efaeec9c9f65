/** What is said of a field besides its type: what a client sees of it, and limits. */
import type { JsonSchema } from "../../pydantic/types.ts";

export type Effect =
  /** What changes in the answer, or in who gets it when. */
  | { readonly seen: string }
  /** vLLM takes it, and its answer is the same as without, on a server as this one stands in for. */
  | { readonly neither: string }
  /** Checked as there; vLLM's answer may change, ours does not. */
  | { readonly here: string };

export interface Parameter {
  /** Limits beyond the type, and what else refuses the request. */
  readonly limits?: string;
  /** Those of them that JSON Schema has words for. */
  readonly bounds?: JsonSchema;
  readonly effect: Effect;
}

/** Where the two differ, or only one has the field. */
export interface ParameterRow extends Parameter {
  readonly chat?: Partial<Parameter>;
  readonly completions?: Partial<Parameter>;
}

export const seen = (text: string): Effect => ({ seen: text });
export const neither = (text: string): Effect => ({ neither: text });
export const here = (text: string): Effect => ({ here: text });
/** Row for a field that is only taken when it is null or empty. */
export const refusing = (limits: string): ParameterRow => ({ limits, effect: seen("the refusal") });

/** Said of several fields. */
export const NO_SAMPLER = here("changes what is sampled; answers are drawn without a model");
export const RENDER_ONLY = neither("for the render routes; ignored where an answer is generated");
export const TEMPLATE = here("a variable of the model's chat template; the built-in template has none");
export const INT64 = "64 bits, signed";
