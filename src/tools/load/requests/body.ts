/** Makes the body of a request from a turn, the conversation before it, and the options: a row of fields per API. */
import { TraceError } from "../../../workloads/trace.ts";
import { DIALECTS, type LoadDialect } from "./dialects.ts";
import { type TritonInputs, tensorsOf } from "./tensors.ts";
import type { ConversationMessage, Turn } from "./types.ts";

/** How much is asked of `stream_options`: what a server refuses is left out from then on. */
export enum UsageAsked {
  EachChunk,
  AtEnd,
  Nothing,
}

/** Answers are as long as asked for, whatever the model would say. */
export const TO_THE_END: Readonly<Record<string, unknown>> = { ignore_eos: true };

/** Settings of a run that shape the bodies of its requests. */
export interface BodySettings {
  readonly dialect: LoadDialect;
  readonly stream: boolean;
  readonly legacyMaxTokens: boolean;
  readonly ignoreEos: boolean;
  readonly minTokens: number | null;
  readonly temperature: number | null;
  /** Merged over all fields but the dataset's own. */
  readonly extraBody: Readonly<Record<string, unknown>>;
}

export interface BodyOptions extends BodySettings {
  readonly model: string;
  /** The inputs that `triton-http` sends. */
  readonly triton?: TritonInputs;
}

/** `history`: the turns and answers of its conversation before it. Throws a TraceError for a prompt that the dialect cannot carry. */
export function bodyOf(
  turn: Turn,
  history: readonly ConversationMessage[],
  options: BodyOptions,
  asked: UsageAsked,
): Record<string, unknown> {
  const { asksUsage, ignoresEos } = DIALECTS[options.dialect];
  const own = FIELDS[options.dialect](turn, history, options);
  const extra = turn.extra === TO_THE_END && !ignoresEos ? {} : turn.extra;
  const fields = options.dialect === "triton-http" ? own : { ...own, ...options.extraBody, ...extra };
  if (options.dialect === "anthropic-messages" && !("max_tokens" in fields)) throw new TraceError(NO_MAX_TOKENS);
  if (!options.stream || !asksUsage || asked === UsageAsked.Nothing) return fields;
  const usage = asked === UsageAsked.EachChunk ? { continuous_usage_stats: true } : {};
  return { stream_options: { include_usage: true, ...usage }, ...fields };
}

const NO_MAX_TOKENS =
  "a request of the dataset has no length of its answer, which /v1/messages requires: take --output-len N";

type Fields = (turn: Turn, history: readonly ConversationMessage[], options: BodyOptions) => Record<string, unknown>;

const FIELDS: Readonly<Record<LoadDialect, Fields>> = {
  "openai-chat": (turn, history, options) => ({
    model: options.model,
    messages: [...history, ...messagesOf(turn)],
    ...given(options.legacyMaxTokens ? "max_tokens" : "max_completion_tokens", turn.outputTokens),
    ...common(options),
  }),
  openai: (turn, history, options) => ({
    model: options.model,
    prompt: typeof turn.prompt === "string" || isMessages(turn.prompt) ? turnText(turn, history) : turn.prompt,
    ...given("max_tokens", turn.outputTokens),
    ...common(options),
  }),
  // Not kept by the server: each request carries the whole conversation.
  "openai-responses": (turn, history, options) => ({
    model: options.model,
    input: typeof turn.prompt === "string" && history.length === 0 ? turn.prompt : [...history, ...messagesOf(turn)],
    ...given("max_output_tokens", turn.outputTokens),
    store: false,
    ...common(options),
  }),
  "anthropic-messages": (turn, history, { model, stream, temperature }) => ({
    model,
    ...anthropicMessages([...history, ...messagesOf(turn)]),
    ...given("max_tokens", turn.outputTokens),
    stream,
    ...given("temperature", temperature),
  }),
  "openai-embeddings": (turn, history, { model }) => {
    if (history.length > 0 || isMessages(turn.prompt)) throw new TraceError(NO_CONVERSATIONS);
    return { model, input: turn.prompt };
  },
  // TensorRT-LLM's ensemble; the length below which it does not end has this name there.
  "triton-generate": (turn, history, { stream, ignoreEos, minTokens, temperature }) => ({
    text_input: turnText(turn, history),
    ...given("max_tokens", turn.outputTokens),
    ...given("min_length", ignoreEos ? turn.outputTokens : minTokens),
    ...given("temperature", temperature),
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
  // Messages that are no JSON: clients/grpc-client.ts.
  "triton-grpc": () => ({}),
};

const NO_CONVERSATIONS = "the dataset gives conversations or messages, which a request for embeddings cannot carry";

/** System messages have a field of their own, and messages must not be empty. */
function anthropicMessages(all: readonly ConversationMessage[]): Record<string, unknown> {
  const system = all.filter(({ role }) => role === "system").map(({ content }) => content);
  const messages = all.filter(({ role, content }) => role !== "system" && content !== "");
  if (system.length === 0) return { messages };
  return { system: system.length === 1 ? system[0] : system.join("\n\n"), messages };
}

const common = ({ stream, ignoreEos, minTokens, temperature }: BodyOptions): Record<string, unknown> => ({
  stream,
  ...(ignoreEos ? { ignore_eos: true } : {}),
  ...given("min_tokens", minTokens),
  ...given("temperature", temperature),
});

const given = (name: string, value: number | null): Record<string, number> => (value === null ? {} : { [name]: value });

/** What a turn adds to its conversation. */
export function messagesOf({ prompt }: Turn): readonly ConversationMessage[] {
  if (typeof prompt === "string") return [{ role: "user", content: prompt }];
  if (isMessages(prompt)) return prompt;
  throw new TraceError("the dataset gives token ids, which a chat cannot carry; take --backend openai");
}

const isMessages = (prompt: Turn["prompt"]): prompt is readonly ConversationMessage[] =>
  typeof prompt === "object" && typeof prompt[0] === "object";

/** Throws a TraceError for token ids. */
export function turnText({ prompt }: Turn, history: readonly ConversationMessage[]): string {
  if (typeof prompt === "string" && history.length === 0) return prompt;
  if (typeof prompt !== "string" && !isMessages(prompt)) {
    throw new TraceError("the dataset gives token ids, which a Triton backend cannot carry");
  }
  const added = typeof prompt === "string" ? [prompt] : prompt.map(({ content }) => content);
  return [...history.map(({ content }) => content), ...added].join("\n\n");
}
