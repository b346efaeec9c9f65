/**
 * What do the frames of a stream look like? vLLM 0.33, `chat_completion/serving.py` and `completion/serving.py`, byte
 * for byte: which fields are written although null, and which are left out, differs by kind of frame.
 *
 * `prefix` and `suffix` are made once per choice, so that a plain token costs no more than its own text.
 */
import { escapeJson } from "../../content/vocabulary.ts";

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
  prefix(index: number): string;
  /** UTF-8. */
  readonly suffix: Uint8Array;
  chunk(index: number, text: string, extras: Extras): string;
  /** The part of a chunk for `continuous_usage_stats`. */
  usage(promptTokens: number, completionTokens: number): string;
  /** The last one, with `include_usage`. `details`: JSON of `prompt_tokens_details` or ""; `metrics`: of its times, likewise. */
  usageChunk(promptTokens: number, completionTokens: number, details: string, metrics: string): string;
}

const encoder = new TextEncoder();

export const DONE = "data: [DONE]\n\n";

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

export class ChatChunks implements Chunks {
  readonly suffix = encoder.encode(
    `"},"logprobs":null,"finish_reason":null,"token_ids":null}],"kv_transfer_params":null}\n\n`,
  );
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

  chunk(index: number, text: string, extras: Extras): string {
    const { logprobs, tokenIds, finishReason, stopReason, usage, weightVersions } = extras;
    const choice = `${this.prefix(index)}${escapeJson(text)}"},"logprobs":${logprobs}`;
    if (finishReason === null)
      return `${choice},"finish_reason":null,"token_ids":${tokenIds}}]${usage},"kv_transfer_params":null}\n\n`;
    return `${choice},"finish_reason":"${finishReason}","stop_reason":${stopReason},"token_ids":${tokenIds},"weight_versions":${weightVersions}}]${usage}${lastFingerprint(this.#identity)},"kv_transfer_params":null}\n\n`;
  }

  usage(promptTokens: number, completionTokens: number): string {
    return `,"usage":{${counts(promptTokens, completionTokens)},"completion_tokens_details":null}`;
  }

  usageChunk(promptTokens: number, completionTokens: number, details: string, metrics: string): string {
    return usageChunk(this.#head, promptTokens, completionTokens, details, this.#identity, metrics);
  }
}

export class CompletionChunks implements Chunks {
  readonly suffix = encoder.encode(
    `","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null,"weight_versions":null}],"kv_transfer_params":null}\n\n`,
  );
  readonly #head: string;
  readonly #identity: Identity;

  constructor(identity: Identity) {
    this.#identity = identity;
    this.#head = headOf("text_completion", identity);
  }

  prefix(index: number): string {
    return `${this.#head}{"index":${index},"text":"`;
  }

  chunk(index: number, text: string, extras: Extras): string {
    const { logprobs, tokenIds, promptTokenIds, finishReason, stopReason, usage, weightVersions } = extras;
    const reason = finishReason === null ? "null" : `"${finishReason}"`;
    const fingerprint = finishReason === null ? "" : lastFingerprint(this.#identity);
    return `${this.prefix(index)}${escapeJson(text)}","logprobs":${logprobs},"finish_reason":${reason},"stop_reason":${stopReason},"prompt_token_ids":${promptTokenIds},"token_ids":${tokenIds},"weight_versions":${weightVersions}}]${usage}${fingerprint},"kv_transfer_params":null}\n\n`;
  }

  usage(promptTokens: number, completionTokens: number): string {
    return `,"usage":{${counts(promptTokens, completionTokens)}}`;
  }

  usageChunk(promptTokens: number, completionTokens: number, details: string, metrics: string): string {
    return usageChunk(this.#head, promptTokens, completionTokens, details, this.#identity, metrics);
  }
}

function headOf(object: string, { id, created, model }: Identity): string {
  return `data: {"id":${JSON.stringify(id)},"object":"${object}","created":${created},"model":${JSON.stringify(model)},"choices":[`;
}

function usageChunk(
  head: string,
  prompt: number,
  completion: number,
  details: string,
  identity: Identity,
  metrics: string,
): string {
  const inner = details === "" ? "" : `,"prompt_tokens_details":${details}`;
  return `${head}],"usage":{${counts(prompt, completion)}${inner}}${fingerprintOf(identity)}${metrics === "" ? "" : `,"metrics":${metrics}`}}\n\n`;
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
