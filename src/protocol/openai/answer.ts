/** What do streamed and collected answers share? What the server says of itself, what is known of a request, usage. */
import type { Vocabulary } from "../../content/types.ts";
import { Finish, type Outcome, type Submission } from "../../engine/types.ts";
import { type LogprobSource, Logprobs } from "./logprobs.ts";
import type { ChatRequest, CompletionRequest } from "./request.ts";

/** The same for all answers of a server. */
export interface Server {
  readonly vocabulary: Vocabulary;
  readonly logprobs: LogprobSource;
  /** null: answers carry no fingerprint. */
  readonly fingerprint: string | null;
  readonly responseRole: string;
  readonly streamInterval: number;
  readonly forceIncludeUsage: boolean;
  readonly promptTokensDetails: boolean;
  /** Tokens per block of the prefix cache; 0 without one. */
  readonly cacheBlockTokens: number;
}

/** One prompt of a request. */
export interface Prompt {
  readonly tokens: number;
  /** Only where the answer shows them; null else. */
  readonly ids: readonly number[] | null;
  /** Text to be echoed; null: none. */
  readonly echo: string | null;
  /** Seed of its first choice; the next ones count on. */
  readonly seed: number;
}

/** One request and the answer's head. */
export interface Asked {
  readonly server: Server;
  readonly request: ChatRequest | CompletionRequest;
  readonly prompts: readonly Prompt[];
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  /** Chat with `return_prompt_text`. */
  readonly promptText: string | null;
  /** Called exactly once. */
  readonly settled: (outcome: Outcome) => void;
}

export const FINISH_NAMES = ["stop", "length", "abort", "error", "repetition"] as const;

/** JSON of `stop_reason`. `stop`: the stop string, `stopTokenId`: -1 for none. */
export function stopReason(finish: Finish, stop: string | null, stopTokenId: number): string {
  if (stop !== null) return JSON.stringify(stop);
  if (finish === Finish.Repetition) return '"repetition_detected"';
  return stopTokenId >= 0 ? String(stopTokenId) : "null";
}

/** A request counts once: as what most went wrong with its choices. */
export function outcomeOf(finishes: readonly Finish[]): Outcome {
  if (finishes.includes(Finish.Error)) return "error";
  if (finishes.includes(Finish.Abort)) return "abort";
  return finishes.includes(Finish.Length) ? "length" : "stop";
}

/** Who speaks: with `add_generation_prompt` false it is the last message's role. */
export function roleOf(request: ChatRequest, server: Server): string {
  return request.addGenerationPrompt ? server.responseRole : (request.messages.at(-1)?.role ?? server.responseRole);
}

/** Chat's `echo`: the last message, if the answer goes on with its role. "" for nothing. */
export function echoOf(request: ChatRequest, role: string): string {
  const last = request.messages.at(-1);
  return request.echo && last?.role === role ? (last.content ?? "") : "";
}

/** Log probabilities of one choice; null: none asked for. Chat sends as many candidates as asked, completions one more. */
export function logprobsOf({ server, request, prompts }: Asked, index: number): Logprobs | null {
  const count = request.kind === "completion" ? request.logprobs : request.logprobs ? request.topLogprobs : null;
  if (count === null) return null;
  const prompt = prompts[Math.floor(index / request.n)]!;
  const seed = prompt.seed + (index % request.n);
  return new Logprobs(server.logprobs, seed, server.vocabulary, count, request.returnTokensAsTokenIds);
}

/** JSON of `prompt_logprobs`; echo with log probabilities asks for them too. Needs the prompt's ids. */
export function promptLogprobs({ server, request }: Asked, { ids, seed }: Prompt): string {
  const count = promptLogprobCount(request);
  if (count === null || ids === null) return "null";
  return new Logprobs(server.logprobs, seed, server.vocabulary, count, false).prompt(ids);
}

export function promptLogprobCount(request: ChatRequest | CompletionRequest): number | null {
  if (request.promptLogprobs !== null) return request.promptLogprobs;
  if (!request.echo) return null;
  return request.kind === "chat" ? 0 : request.logprobs;
}

/** What `--enable-prompt-tokens-details` tells: of the last prompt, as vLLM does. */
export function cacheUse({ server, prompts }: Asked, lastPrompt: Submission | null): { cached: number; made: number } {
  const cached = lastPrompt?.cachedTokens ?? 0;
  const block = server.cacheBlockTokens;
  const tokens = prompts.at(-1)!.tokens;
  return { cached, made: block === 0 ? 0 : Math.max(0, tokens - (tokens % block) - cached) };
}
