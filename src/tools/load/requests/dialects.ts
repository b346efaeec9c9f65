/**
 * Lists the APIs that `load` can call, with the names of `vllm bench serve --backend` if vLLM has them, and their differences
 * apart from request bodies (`body.ts`) and answers (`readers.ts`).
 */

export type LoadDialect =
  | "openai-chat"
  | "openai"
  | "openai-responses"
  | "anthropic-messages"
  | "openai-embeddings"
  | "triton-generate"
  | "triton-http"
  | "triton-grpc";

export interface DialectTraits {
  /** Path of a request, in which MODEL stands for the model's name. Empty for gRPC. */
  readonly path: string;
  /** True if a request can ask for usage with `stream_options`. */
  readonly asksUsage: boolean;
  /** True if answers state how many tokens they have. */
  readonly saysUsage: boolean;
  /** True if servers accept `ignore_eos`, so that answers get the requested length. */
  readonly ignoresEos: boolean;
  /** Name, in warnings, of the part that makes a stream complete. */
  readonly end: string;
}

const OPENAI = { asksUsage: true, saysUsage: true, ignoresEos: true, end: "a finish_reason" };
const TRITON = { asksUsage: false, saysUsage: false, ignoresEos: true, end: "an end" };

export const DIALECTS: Readonly<Record<LoadDialect, DialectTraits>> = {
  "openai-chat": { ...OPENAI, path: "/v1/chat/completions" },
  openai: { ...OPENAI, path: "/v1/completions" },
  "openai-responses": { ...OPENAI, path: "/v1/responses", asksUsage: false, end: "response.completed" },
  "anthropic-messages": {
    path: "/v1/messages",
    asksUsage: false,
    saysUsage: true,
    ignoresEos: false,
    end: "a stop_reason and message_stop",
  },
  "openai-embeddings": { path: "/v1/embeddings", asksUsage: false, saysUsage: true, ignoresEos: false, end: "an end" },
  "triton-generate": { ...TRITON, path: "/v2/models/MODEL/generate_stream" },
  "triton-http": { ...TRITON, path: "/v2/models/MODEL/infer" },
  "triton-grpc": { ...TRITON, path: "" },
};

/** All names, in the order of the help text. */
export const LOAD_DIALECTS = Object.keys(DIALECTS) as readonly LoadDialect[];

/** True for a Triton server, which has no usage, no tokenizer and no list of models. */
export const isTriton = (dialect: LoadDialect): boolean => dialect.startsWith("triton-");

/** False for APIs whose answers have no tokens, so that only the whole answer is timed. */
export const generates = (dialect: LoadDialect): boolean => dialect !== "openai-embeddings";
