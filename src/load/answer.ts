/**
 * What has a server answered, and when did which piece of it come? Reads the events of one answer in one of three
 * dialects and keeps the moments of those with generated output. What counts as output follows vllm 0.33.0,
 * `benchmarks/lib/endpoint_request_func.py`: in chat non-empty content, reasoning or calls, or empty content without
 * `role`; in completions every event with a choice.
 */
import { jsonObjectIn, type LooseObject } from "../config/json-object.ts";
import type { EventReceiver } from "./event-stream.ts";
import { EventPattern } from "./pattern.ts";
import type { FailureClass, RequestRecord, Turn } from "./types.ts";

export type LoadDialect = "openai-chat" | "openai" | "triton-generate" | "triton-http" | "triton-grpc";

/** Whether a Triton server is asked: no usage, no tokenizer, no list of models. */
export const isTriton = (dialect: LoadDialect): boolean => dialect.startsWith("triton-");

/** A request and when it was sent. */
export interface SentRequest {
  readonly order: {
    readonly index: number;
    readonly requestId: string;
    readonly intendedUs: number;
    readonly turn: Turn;
    readonly disturb: { readonly kind: NonNullable<RequestRecord["disturbed"]> } | null;
  };
  readonly originUs: number;
  readonly sendUs: number;
  readonly endUs: number;
  readonly status: number;
  readonly retries: number;
}

export interface Failure {
  readonly kind: FailureClass;
  readonly message: string;
}

/** What the answers of one run share. Patterns are tried in order; the last that matched stands first. */
export class Patterns {
  /** Events with output, of all answers of the run. */
  outputs = 0;
  readonly #known: EventPattern[] = [];
  #learned = 0;

  match(bytes: Uint8Array, at: number, end: number): [EventPattern, number] | null {
    for (let i = 0; i < this.#known.length; i++) {
      const pattern = this.#known[i]!;
      const behind = pattern.match(bytes, at, end);
      if (behind < 0) continue;
      if (i > 0) {
        this.#known[i] = this.#known[0]!;
        this.#known[0] = pattern;
      }
      this.#found[0] = pattern;
      this.#found[1] = behind;
      return this.#found;
    }
    return null;
  }

  /** A server whose events differ in other places makes it learn in vain: less and less often. */
  learn(data: Uint8Array): void {
    const tries = ++this.#learned;
    if (tries > FREE_LESSONS && (tries & (tries - 1)) !== 0) return;
    const pattern = EventPattern.of(data);
    if (pattern === null) return;
    this.#known.unshift(pattern);
    this.#known.length = Math.min(this.#known.length, PATTERNS_MOST);
  }

  readonly #found: [EventPattern, number] = [null as unknown as EventPattern, 0];
}

const PATTERNS_MOST = 4;
const FREE_LESSONS = 32;
const MESSAGE_MOST = 300;

const decoder = new TextDecoder();

export class Answer implements EventReceiver {
  /** Chunks with output; of the arrays below so many elements count. */
  chunks = 0;
  chunkUs: Float64Array;
  chunkTokens: Int32Array;
  /** Token counts from `usage`; -1: not said. */
  promptTokens = -1;
  outputTokens = -1;
  cachedTokens = 0;
  /** `[DONE]` came; a `finish_reason` came. */
  done = false;
  finished = false;
  failure: Failure | null = null;
  /** What was generated, where it is wanted. */
  text: string;
  /** When the bytes that are being read came. */
  nowUs = 0;
  readonly #dialect: LoadDialect;
  readonly #patterns: Patterns;
  readonly #keepText: boolean;
  #tokensSaid = 0;

  /** `expected`: how many chunks may come, for the first size of the arrays. */
  constructor(dialect: LoadDialect, patterns: Patterns, expected: number, keepText: boolean) {
    this.#dialect = dialect;
    this.#patterns = patterns;
    this.#keepText = keepText;
    this.text = "";
    const room = Math.min(4096, Math.max(8, expected + 2));
    this.chunkUs = new Float64Array(room);
    this.chunkTokens = new Int32Array(room);
  }

  match(bytes: Uint8Array, at: number, end: number): number {
    if (this.#keepText || this.done) return -1;
    const found = this.#patterns.match(bytes, at, end);
    if (found === null) return -1;
    this.#chunk(found[0].tokens);
    return found[1];
  }

  event(bytes: Uint8Array, from: number, to: number): void {
    // An empty event is none (WHATWG HTML, 9.2.6), and nothing counts behind the end.
    if (this.done || from === to) return;
    const data = bytes.subarray(from, to);
    if (to - from === 6 && decoder.decode(data) === "[DONE]") {
      this.done = true;
      return;
    }
    const text = decoder.decode(data);
    const value = jsonObjectIn(text);
    if (value === null) {
      this.fail("malformed", `an event that is no JSON object: ${quoted(text)}`);
      return;
    }
    if (this.#take(value) && !this.#keepText) this.#patterns.learn(data);
  }

  tooLong(): void {
    this.fail("malformed", "an event that does not end");
  }

  /** A whole answer in one piece. */
  whole(text: string): void {
    const value = jsonObjectIn(text);
    if (value === null) {
      this.fail("malformed", `an answer that is no JSON object: ${quoted(text)}`);
      return;
    }
    if (value.error !== undefined && value.error !== null) {
      this.fail("error event", messageOf(value.error));
      return;
    }
    if (this.#dialect === "triton-http" && Array.isArray(value.outputs)) {
      const told = value.outputs.find((one: LooseObject | null) => one?.name === "text_output");
      this.finished = true;
      if (value.outputs.length > 0) this.output(String(told?.data?.[0] ?? ""));
      else this.fail("no token", "an answer without outputs");
      return;
    }
    const [choice] = Array.isArray(value.choices) ? value.choices : [];
    const message = choice?.message ?? choice;
    const output = this.#dialect === "triton-generate" ? value.text_output : (message?.content ?? message?.text);
    this.#usage(value.usage);
    this.finished = true;
    if (output === undefined && choice === undefined) {
      this.fail("malformed", `an answer without output: ${quoted(text)}`);
      return;
    }
    if (this.#keepText && typeof output === "string") this.text = output;
    this.#chunk(this.outputTokens);
  }

  /** A piece of an answer that no JSON is. */
  output(text: string): void {
    if (this.#keepText) this.text += text;
    this.#chunk(-1);
  }

  /** What came of the request; times count from `originUs`. */
  record(sent: SentRequest): RequestRecord {
    const { order, originUs, sendUs, endUs, status, retries } = sent;
    const { turn } = order;
    const count = this.chunks;
    const chunkUs = this.chunkUs.slice(0, count);
    for (let i = 0; i < count; i++) chunkUs[i]! -= originUs;
    return {
      index: order.index,
      requestId: order.requestId,
      intendedUs: order.intendedUs - originUs,
      sendUs: sendUs - originUs,
      firstUs: count > 0 ? chunkUs[0]! : Number.NaN,
      lastUs: count > 0 ? chunkUs[count - 1]! : Number.NaN,
      endUs: endUs - originUs,
      chunkUs,
      chunkTokens: this.chunkTokens.slice(0, count),
      inputTokens: this.promptTokens >= 0 ? this.promptTokens : (turn.inputTokens ?? 0),
      outputTokens: this.outputTokens >= 0 ? this.outputTokens : count,
      usage: this.outputTokens >= 0,
      wantedTokens: turn.outputTokens,
      cachedTokens: this.cachedTokens,
      status,
      retries,
      failure: this.failure,
      disturbed: order.disturb?.kind ?? null,
      done: this.done,
    };
  }

  /** The first reason stands. */
  fail(kind: FailureClass, message: string): void {
    this.failure ??= { kind, message: message.slice(0, MESSAGE_MOST) };
  }

  /** True: a plain token's event, such as will come again. */
  #take(event: LooseObject): boolean {
    if (event.error !== undefined && event.error !== null) {
      this.fail("error event", messageOf(event.error));
      return false;
    }
    this.#usage(event.usage);
    if (this.#dialect === "triton-generate") {
      if (typeof event.text_output !== "string") return false;
      if (this.#keepText) this.text += event.text_output;
      this.#chunk(-1);
      return true;
    }
    const [choice] = Array.isArray(event.choices) ? (event.choices as LooseObject[]) : [];
    if (choice === undefined) return false;
    const ended = choice.finish_reason !== undefined && choice.finish_reason !== null;
    if (ended) this.finished = true;
    const delta = this.#dialect === "openai" ? choice : choice.delta;
    if (this.#dialect === "openai-chat" && !hasOutput(delta)) return false;
    const output = delta.text ?? delta.content;
    if (this.#keepText && typeof output === "string") this.text += output;
    this.#chunk((event.usage as LooseObject | undefined)?.completion_tokens ?? -1);
    const plain = typeof output === "string" && !("role" in delta) && !delta.tool_calls && !delta.function_call;
    return plain && !ended && !delta.reasoning && !delta.reasoning_content;
  }

  #usage(usage: unknown): void {
    if (typeof usage !== "object" || usage === null) return;
    const { prompt_tokens: prompt, completion_tokens: output, prompt_tokens_details: details } = usage as LooseObject;
    if (Number.isSafeInteger(prompt) && prompt >= 0) this.promptTokens = prompt;
    if (Number.isSafeInteger(output) && output >= 0) this.outputTokens = output;
    const cached = details?.cached_tokens;
    if (Number.isSafeInteger(cached) && cached >= 0) this.cachedTokens = cached;
  }

  /** `tokens` so far, or -1. */
  #chunk(tokens: number): void {
    if (this.chunks === this.chunkUs.length) this.#grow();
    let carried = 0;
    if (tokens >= 0) {
      carried = Math.max(0, tokens - this.#tokensSaid);
      this.#tokensSaid = Math.max(tokens, this.#tokensSaid);
      if (tokens > this.outputTokens) this.outputTokens = tokens;
    }
    this.#patterns.outputs++;
    this.chunkTokens[this.chunks] = carried;
    this.chunkUs[this.chunks++] = this.nowUs;
  }

  #grow(): void {
    const [us, tokens] = [new Float64Array(2 * this.chunks), new Int32Array(2 * this.chunks)];
    us.set(this.chunkUs);
    tokens.set(this.chunkTokens);
    this.chunkUs = us;
    this.chunkTokens = tokens;
  }
}

function hasOutput(delta: unknown): delta is LooseObject {
  if (typeof delta !== "object" || delta === null) return false;
  const {
    content,
    reasoning,
    reasoning_content: thought,
    tool_calls: calls,
    function_call: call,
  } = delta as LooseObject;
  if (content || reasoning || thought || (Array.isArray(calls) ? calls.length > 0 : calls) || call) return true;
  return content === "" && !("role" in delta);
}

/** An error as a server words it: text, or an object with a message. */
export function messageOf(error: unknown): string {
  if (typeof error === "string") return error;
  const message = (error as LooseObject | null)?.message;
  return typeof message === "string" ? message : (JSON.stringify(error) ?? String(error));
}

export function quoted(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 120 ? `${line.slice(0, 120)}…` : line;
}
