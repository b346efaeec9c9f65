/**
 * What do the frames of a stream look like? vLLM 0.33, `chat_completion/serving.py` and `completion/serving.py`, byte
 * for byte: which fields are written although null, and which are left out, differs by kind of frame.
 *
 * `prefix` and `suffix` are made once per choice, so that a plain token costs no more than its own text.
 */
import { escapeJson } from "../../content/vocabulary.ts";
import type { CallDelta, Delta } from "../output.ts";
import type { ErrorAnswer } from "../request.ts";

/** What a chunk may carry beside its text. Strings are JSON. */
export interface Extras {
  readonly logprobs: string;
  readonly tokenIds: string;
  /** Completions only: with the first chunk of a choice. */
  readonly promptTokenIds: string;
  /** `"stop"` …, null while the choice runs. */
  readonly finishReason: string | null;
  readonly stopReason: string;
  /** With the last chunk of a choice. */
  readonly weightVersions: string;
  /** Continuous usage: `usage(...)`, else "". */
  readonly usage: string;
}

/** Frames of one stream, each with its `data: ` and empty line. */
export interface Chunks {
  /** Before and after the text of a chunk that carries nothing else. */
  prefix(index: number): string;
  readonly suffix: Uint8Array;
  /** What a parser made of a text, or the text. */
  chunk(index: number, delta: Delta, extras: Extras): string;
  /** The part of a chunk for `continuous_usage_stats`. `reasoningTokens`: null without a reasoning parser. */
  usage(promptTokens: number, completionTokens: number, reasoningTokens: number | null): string;
  /** The last one, with `include_usage`. `details`: JSON of `prompt_tokens_details` or ""; `metrics`: of its times, likewise. */
  usageChunk(
    promptTokens: number,
    completionTokens: number,
    reasoningTokens: number | null,
    details: string,
    metrics: string,
  ): string;
}

const encoder = new TextEncoder();

export const DONE = "data: [DONE]\n\n";

/** An error in a chat stream, whose status 200 is out: the JSON of the plain body. */
export function chatStreamError(answer: ErrorAnswer): string {
  return `data: ${answer.body}\n\n`;
}

/** The error of a completions stream: written by Python's `json.dumps`, blanks and ASCII only. */
export function completionStreamError(answer: ErrorAnswer): string {
  return `data: ${asciiDumps(JSON.parse(answer.body))}\n\n`;
}

function asciiDumps(value: unknown): string {
  if (typeof value !== "object" || value === null)
    return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (unit) =>
      unit === "\u007f" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
  return `{${Object.entries(value)
    .map(([key, item]) => `${JSON.stringify(key)}: ${asciiDumps(item)}`)
    .join(", ")}}`;
}

/** What all frames of a stream share. */
export interface Identity {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  /** null: `--fingerprint-mode none`. */
  readonly fingerprint: string | null;
  /** `include_usage`: the fingerprint moves from the last chunk to the usage chunk. */
  readonly includeUsage: boolean;
}

const CHAT_SUFFIX = encoder.encode(
  `"},"logprobs":null,"finish_reason":null,"token_ids":null}],"kv_transfer_params":null}\n\n`,
);
const COMPLETION_SUFFIX = encoder.encode(
  `","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null,"weight_versions":null}],"kv_transfer_params":null}\n\n`,
);

export class ChatChunks implements Chunks {
  readonly suffix = CHAT_SUFFIX;
  readonly #head: string;
  readonly #identity: Identity;

  constructor(identity: Identity) {
    this.#identity = identity;
    this.#head = headOf("chat.completion.chunk", identity);
  }

  prefix(index: number): string {
    return `${this.#head}{"index":${index},"delta":{"content":"`;
  }

  /** `promptTokenIds`: JSON, "null" unless asked for. `promptText`: JSON likewise. */
  role(index: number, role: string, usage: string, promptTokenIds: string, promptText: string): string {
    return `${this.#head}{"index":${index},"delta":{"role":${JSON.stringify(role)},"content":""},"logprobs":null,"finish_reason":null}]${usage},"prompt_token_ids":${promptTokenIds},"prompt_text":${promptText}}\n\n`;
  }

  /** `echo`: the last message, once per choice. */
  echo(index: number, content: string, usage: string): string {
    return `${this.prefix(index)}${escapeJson(content)}"},"logprobs":null,"finish_reason":null}]${usage}}\n\n`;
  }

  chunk(index: number, delta: Delta, extras: Extras): string {
    const { logprobs, tokenIds, finishReason, stopReason, usage, weightVersions } = extras;
    const choice = `${this.#head}{"index":${index},"delta":${deltaJson(delta)},"logprobs":${logprobs}`;
    if (finishReason === null)
      return `${choice},"finish_reason":null,"token_ids":${tokenIds}}]${usage},"kv_transfer_params":null}\n\n`;
    return `${choice},"finish_reason":"${finishReason}","stop_reason":${stopReason},"token_ids":${tokenIds},"weight_versions":${weightVersions}}]${usage}${lastFingerprint(this.#identity)},"kv_transfer_params":null}\n\n`;
  }

  usage(promptTokens: number, completionTokens: number, reasoningTokens: number | null): string {
    return `,"usage":{${counts(promptTokens, completionTokens)},"completion_tokens_details":${completionDetails(reasoningTokens)}}`;
  }

  usageChunk(prompt: number, completion: number, reasoning: number | null, details: string, metrics: string): string {
    const more = reasoning === null ? "" : `,"completion_tokens_details":${completionDetails(reasoning)}`;
    return usageChunk(
      this.#head,
      `${counts(prompt, completion)}${promptDetails(details)}${more}`,
      this.#identity,
      metrics,
    );
  }
}

export class CompletionChunks implements Chunks {
  readonly suffix = COMPLETION_SUFFIX;
  readonly #head: string;
  readonly #identity: Identity;

  constructor(identity: Identity) {
    this.#identity = identity;
    this.#head = headOf("text_completion", identity);
  }

  prefix(index: number): string {
    return `${this.#head}{"index":${index},"text":"`;
  }

  chunk(index: number, { content }: Delta, extras: Extras): string {
    const { logprobs, tokenIds, promptTokenIds, finishReason, stopReason, usage, weightVersions } = extras;
    const reason = finishReason === null ? "null" : `"${finishReason}"`;
    const fingerprint = finishReason === null ? "" : lastFingerprint(this.#identity);
    return `${this.prefix(index)}${escapeJson(content ?? "")}","logprobs":${logprobs},"finish_reason":${reason},"stop_reason":${stopReason},"prompt_token_ids":${promptTokenIds},"token_ids":${tokenIds},"weight_versions":${weightVersions}}]${usage}${fingerprint},"kv_transfer_params":null}\n\n`;
  }

  usage(promptTokens: number, completionTokens: number): string {
    return `,"usage":{${counts(promptTokens, completionTokens)}}`;
  }

  usageChunk(prompt: number, completion: number, _reasoning: null, details: string, metrics: string): string {
    return usageChunk(this.#head, `${counts(prompt, completion)}${promptDetails(details)}`, this.#identity, metrics);
  }
}

function headOf(object: string, { id, created, model }: Identity): string {
  return `data: {"id":${JSON.stringify(id)},"object":"${object}","created":${created},"model":${JSON.stringify(model)},"choices":[`;
}

function usageChunk(head: string, counted: string, identity: Identity, metrics: string): string {
  return `${head}],"usage":{${counted}}${fingerprintOf(identity)}${metrics === "" ? "" : `,"metrics":${metrics}`}}\n\n`;
}

function promptDetails(details: string): string {
  return details === "" ? "" : `,"prompt_tokens_details":${details}`;
}

/** JSON of `completion_tokens_details`. */
export function completionDetails(reasoningTokens: number | null): string {
  return reasoningTokens === null ? "null" : `{"reasoning_tokens":${reasoningTokens}}`;
}

function deltaJson({ content, reasoning, calls }: Delta): string {
  const members: string[] = [];
  const text = (value: string | null) => (value === null ? "null" : `"${escapeJson(value)}"`);
  if (content !== undefined) members.push(`"content":${text(content)}`);
  if (reasoning !== undefined) members.push(`"reasoning":${text(reasoning)}`);
  if (calls.length > 0) members.push(`"tool_calls":[${calls.map(callJson)}]`);
  return `{${members}}`;
}

function callJson({ id, typed, index, name, arguments: more }: CallDelta): string {
  const members: string[] = [];
  if (id !== undefined) members.push(`"id":"${escapeJson(id)}"`);
  if (typed) members.push('"type":"function"');
  members.push(`"index":${index}`);
  const called: string[] = [];
  if (name !== undefined) called.push(`"name":"${escapeJson(name)}"`);
  if (more !== undefined) called.push(`"arguments":"${escapeJson(more)}"`);
  if (called.length > 0) members.push(`"function":{${called}}`);
  return `{${members}}`;
}

function counts(prompt: number, completion: number): string {
  return `"prompt_tokens":${prompt},"total_tokens":${prompt + completion},"completion_tokens":${completion}`;
}

function fingerprintOf({ fingerprint }: Identity): string {
  return fingerprint === null ? "" : `,"system_fingerprint":${JSON.stringify(fingerprint)}`;
}

function lastFingerprint(identity: Identity): string {
  return identity.includeUsage ? "" : fingerprintOf(identity);
}
