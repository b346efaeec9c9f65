/** Makes the body of a request from a turn, its conversation so far, and the options, with one function per API. */
import { TraceError } from "../../../workloads/trace.ts";
import { DIALECTS, type LoadDialect } from "./dialects.ts";
import { optionalField, type TritonInputs, tensorsOf } from "./tensors.ts";
import type { ConversationMessage, Turn } from "./types.ts";

/** Level of usage that is requested with `stream_options`. After a refusal by the server the next smaller level is used. */
export enum UsageLevel {
  EachChunk,
  AtEnd,
  Nothing,
}

/** Extra field that makes answers exactly as long as requested. */
export const TO_THE_END: Readonly<Record<string, unknown>> = { ignore_eos: true };

/** Settings of a run that affect the bodies of its requests. */
export interface BodySettings {
  readonly dialect: LoadDialect;
  readonly stream: boolean;
  readonly legacyMaxTokens: boolean;
  readonly ignoreEos: boolean;
  readonly minTokens: number | null;
  readonly temperature: number | null;
  /** Fields that override all others except the dataset's own. */
  readonly extraBody: Readonly<Record<string, unknown>>;
}

export interface BodyOptions extends BodySettings {
  readonly model: string;
  /** Inputs of the model, for `triton-http`. */
  readonly triton?: TritonInputs;
}

/**
 * Makes the body. `history`: earlier turns and answers of the conversation. Throws a TraceError for a prompt that the API
 * cannot carry.
 */
export function bodyOf(
  turn: Turn,
  history: readonly ConversationMessage[],
  options: BodyOptions,
  usage: UsageLevel,
): Record<string, unknown> {
  const { asksUsage, ignoresEos } = DIALECTS[options.dialect];
  const apiFields = FIELDS[options.dialect](turn, history, options);
  const extra = turn.extra === TO_THE_END && !ignoresEos ? {} : turn.extra;
  const fields = options.dialect === "triton-http" ? apiFields : { ...apiFields, ...options.extraBody, ...extra };
  if (options.dialect === "anthropic-messages" && !("max_tokens" in fields)) throw new TraceError(NO_MAX_TOKENS);
  if (!options.stream || !asksUsage || usage === UsageLevel.Nothing) return fields;
  const eachChunk = usage === UsageLevel.EachChunk ? { continuous_usage_stats: true } : {};
  return { stream_options: { include_usage: true, ...eachChunk }, ...fields };
}

const NO_MAX_TOKENS =
  "a request of the dataset has no length of its answer, which /v1/messages requires; set --output-len N";

type Fields = (turn: Turn, history: readonly ConversationMessage[], options: BodyOptions) => Record<string, unknown>;

const FIELDS: Readonly<Record<LoadDialect, Fields>> = {
  "openai-chat": (turn, history, options) => ({
    model: options.model,
    messages: [...history, ...messagesOf(turn)],
    ...optionalField(options.legacyMaxTokens ? "max_tokens" : "max_completion_tokens", turn.outputTokens),
    ...common(options),
  }),
  openai: (turn, history, options) => ({
    model: options.model,
    prompt: typeof turn.prompt === "string" || isMessages(turn.prompt) ? turnText(turn, history) : turn.prompt,
    ...optionalField("max_tokens", turn.outputTokens),
    ...common(options),
  }),
  // `store: false`, because each request carries the whole conversation.
  "openai-responses": (turn, history, options) => ({
    model: options.model,
    input: typeof turn.prompt === "string" && history.length === 0 ? turn.prompt : [...history, ...messagesOf(turn)],
    ...optionalField("max_output_tokens", turn.outputTokens),
    store: false,
    ...common(options),
  }),
  "anthropic-messages": (turn, history, { model, stream, temperature }) => ({
    model,
    ...anthropicMessages([...history, ...messagesOf(turn)]),
    ...optionalField("max_tokens", turn.outputTokens),
    stream,
    ...optionalField("temperature", temperature),
  }),
  "openai-embeddings": (turn, history, { model }) => {
    if (history.length > 0 || isMessages(turn.prompt)) throw new TraceError(NO_CONVERSATIONS);
    return { model, input: turn.prompt };
  },
  // TensorRT-LLM's ensemble calls the minimum length `min_length`.
  "triton-generate": (turn, history, { stream, ignoreEos, minTokens, temperature }) => ({
    text_input: turnText(turn, history),
    ...optionalField("max_tokens", turn.outputTokens),
    ...optionalField("min_length", ignoreEos ? turn.outputTokens : minTokens),
    ...optionalField("temperature", temperature),
    stream,
  }),
  "triton-http": (turn, history, options) => ({
    inputs: tensorsOf(options.triton!, turnText(turn, history), turn, options).map(
      ({ name, datatype, shape, data }) => ({
        name,
        shape,
        datatype,
        data,
      }),
    ),
  }),
  // Unused, because gRPC messages are not JSON. `clients/grpc-client.ts` makes them.
  "triton-grpc": () => ({}),
};

const NO_CONVERSATIONS = "the dataset gives conversations or messages, which a request for embeddings cannot carry";

/** Splits messages as Anthropic requires: system messages in their own field, and no empty messages. */
function anthropicMessages(all: readonly ConversationMessage[]): Record<string, unknown> {
  const system = all.filter(({ role }) => role === "system").map(({ content }) => content);
  const messages = all.filter(({ role, content }) => role !== "system" && content !== "");
  if (system.length === 0) return { messages };
  return { system: system.length === 1 ? system[0] : system.join("\n\n"), messages };
}

const common = ({ stream, ignoreEos, minTokens, temperature }: BodyOptions): Record<string, unknown> => ({
  stream,
  ...(ignoreEos ? { ignore_eos: true } : {}),
  ...optionalField("min_tokens", minTokens),
  ...optionalField("temperature", temperature),
});

/** Returns the messages that a turn adds to its conversation. Throws a TraceError for token ids. */
export function messagesOf({ prompt }: Turn): readonly ConversationMessage[] {
  if (typeof prompt === "string") return [{ role: "user", content: prompt }];
  if (isMessages(prompt)) return prompt;
  throw new TraceError("the dataset gives token ids, which a chat cannot carry; use --backend openai");
}

const isMessages = (prompt: Turn["prompt"]): prompt is readonly ConversationMessage[] =>
  typeof prompt === "object" && typeof prompt[0] === "object";

/** Returns the conversation as one text. Throws a TraceError for token ids. */
export function turnText({ prompt }: Turn, history: readonly ConversationMessage[]): string {
  if (typeof prompt === "string" && history.length === 0) return prompt;
  if (typeof prompt !== "string" && !isMessages(prompt)) {
    throw new TraceError("the dataset gives token ids, which a Triton backend cannot carry");
  }
  const added = typeof prompt === "string" ? [prompt] : prompt.map(({ content }) => content);
  return [...history.map(({ content }) => content), ...added].join("\n\n");
}
