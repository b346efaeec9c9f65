/** Types and constants for describing fields of requests: the effect that a client sees, and limits. */
import type { JsonSchema } from "../../pydantic/types.ts";

/** The effect of a field. */
export type Effect =
  /** The field has an effect. Describes the change in the answer, or in its time. */
  | { readonly seen: string }
  /** The field has no effect in vLLM either, in the configuration that this server stands in for. Gives the reason. */
  | { readonly neither: string }
  /** The field is checked as in vLLM. It may change vLLM's answer, but not ours. Gives the reason. */
  | { readonly here: string };

/** Limits and effect of a field. */
export interface Parameter {
  /** Limits beyond the type, and other reasons for a refusal. */
  readonly limits?: string;
  /** The limits that JSON Schema can express. */
  readonly bounds?: JsonSchema;
  readonly effect: Effect;
}

/** A field of chats and completions. `chat` and `completions` have differences, if any. */
export interface ParameterRow extends Parameter {
  readonly chat?: Partial<Parameter>;
  readonly completions?: Partial<Parameter>;
}

export const seen = (text: string): Effect => ({ seen: text });
export const neither = (text: string): Effect => ({ neither: text });
export const here = (text: string): Effect => ({ here: text });
/** Returns the row of a field that must be null or empty. */
export const refusing = (limits: string): ParameterRow => ({ limits, effect: seen("the refusal") });

// Texts that several fields share.
export const NO_SAMPLER = here("changes what is sampled; answers are drawn without a model");
export const RENDER_ONLY = neither("for the render routes; ignored where an answer is generated");
export const TEMPLATE = here("a variable of the model's chat template; the built-in template has none");
export const INT64 = "64 bits, signed";
