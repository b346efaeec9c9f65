/** What does a request's body say? One table of fields per dialect, from a turn, what was said before it, and the options. */
import { TraceError } from "../traces/trace.ts";
import { isTriton, type LoadDialect } from "./answers/answer.ts";
import type { Settings } from "./settings.ts";
import { type TritonInputs, tensorsOf } from "./triton/tensors.ts";
import type { ConversationMessage, Turn } from "./types.ts";

/** How much is asked of `stream_options`: what a server refuses is left out from then on. */
export enum UsageAsked {
  EachChunk,
  AtEnd,
  Nothing,
}

export type BodyOptions = {
  readonly model: string /** What is sent with `triton-http`. */;
  readonly triton?: TritonInputs;
} & Pick<Settings, "dialect" | "stream" | "legacyMaxTokens" | "ignoreEos" | "minTokens" | "temperature" | "extraBody">;

/** `history`: the turns and answers of its conversation before it. Throws a TraceError for a prompt that the dialect cannot carry. */
export function bodyOf(
  turn: Turn,
  history: readonly ConversationMessage[],
  options: BodyOptions,
  asked: UsageAsked,
): Record<string, unknown> {
  const own = FIELDS[options.dialect](turn, history, options);
  const fields = options.dialect === "triton-http" ? own : { ...own, ...options.extraBody, ...turn.extra };
  if (!options.stream || isTriton(options.dialect) || asked === UsageAsked.Nothing) return fields;
  const usage = asked === UsageAsked.EachChunk ? { continuous_usage_stats: true } : {};
  return { stream_options: { include_usage: true, ...usage }, ...fields };
}

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
  // Messages that are no JSON: triton/grpc-client.ts.
  "triton-grpc": () => ({}),
};

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
