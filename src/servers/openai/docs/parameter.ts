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

/** Limits, and differences between chats and completions, of a row that `seen`, `neither` or `here` makes from its effect. */
type Rest = Omit<ParameterRow, "effect">;
export const seen = (text: string, rest: Rest = {}): ParameterRow => ({ ...rest, effect: { seen: text } });
export const neither = (text: string, rest: Rest = {}): ParameterRow => ({ ...rest, effect: { neither: text } });
export const here = (text: string, rest: Rest = {}): ParameterRow => ({ ...rest, effect: { here: text } });
/** Returns the row of a field that must be null or empty. */
export const refusing = (limits: string) => seen("the refusal", { limits });

// Rows and texts that several fields share.
export const NO_SAMPLER = here("changes what is sampled; answers are drawn without a model");
export const RENDER_ONLY = neither("for the render routes; ignored where an answer is generated");
export const TEMPLATE = here("a variable of the model's chat template; the built-in template has none");
export const INT64 = "64 bits, signed";

const TRUSTING = refusing("400 unless empty: needs a server that trusts its clients");

/** Rows of the fields that mean the same in all three: chat completions, responses and messages. */
const IN_ALL = {
  mm_payload: RENDER_ONLY,
  return_mm_kwargs: RENDER_ONLY,
  ec_transfer_params: neither("without a connector"),
  vllm_xargs: neither("without plugins that read it", { limits: "integers within 64 bits" }),
} as const;
/** Rows of the fields that mean the same in chat completions and responses. */
export const IN_CHATS_AND_RESPONSES = {
  ...IN_ALL,
  session_id: neither("for connectors and routers in front"),
  ignore_eos: seen("the answer does not end by itself, but continues to its limit"),
  media_io_kwargs: TRUSTING,
  mm_processor_kwargs: TRUSTING,
  priority: seen("lower values run first, with `--scheduling-policy priority`; header `X-Vllm-Priority` overrides it", {
    limits: INT64,
  }),
} as const;
/** Rows of the fields that mean the same in responses and messages. */
export const IN_RESPONSES_AND_MESSAGES = {
  ...IN_ALL,
  temperature: seen("at 0 the prompt decides the text; else no effect, because answers are drawn without a model", {
    limits: "0 or more",
  }),
  top_k: { ...NO_SAMPLER, limits: "0 or more, or -1" },
  top_p: { ...NO_SAMPLER, limits: "above 0, at most 1" },
  cache_salt: seen("requests share blocks of the prefix cache only with requests of the same salt", {
    limits: "1 to 128 characters, none of `@`, `/`, `\\`, NUL",
  }),
  watermarking: neither("without a watermark configuration"),
  kv_transfer_params: neither("without a connector"),
  chat_template_kwargs: TEMPLATE,
} as const;
