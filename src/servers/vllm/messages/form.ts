/**
 * Writes answers of Anthropic's Messages API. Source: vLLM 0.33, `entrypoints/anthropic/serving.py` (message_stream_converter,
 * messages_full_converter).
 */

import { parsedJson } from "../../../base/json-object.ts";
import type { Ids } from "../../../base/random.ts";
import { quotedJson, quotedOrNull } from "../../../text/tokens/vocabulary.ts";
import { type AnswerContext, type Ending, endingOf } from "../../openai/pipeline/context.ts";
import type { ChoiceSoFar, Form, Frame, Piece, WholeChoice } from "../../openai/pipeline/form.ts";
import { paused, pausedInChatStream } from "../../openai/request/errors.ts";
import type { CallDelta } from "../../openai/tool-calls/output.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { anthropicError } from "./errors.ts";

const event = (name: string, data: string) => `event: ${name}\ndata: ${data}\n\n`;

const encoder = new TextEncoder();
/** Placeholder for a token's text. JSON never contains this character. */
const MARK = "\0";

/** The content block of a stream that has started and not ended. */
interface OpenBlock {
  readonly type: "text" | "thinking" | "tool_use";
  readonly index: number;
  /** ID of a tool call. Null for other blocks. */
  readonly id: string | null;
}

/** Writes one answer, as a stream of events or as one body. */
export class MessagesForm implements Form {
  #context!: AnswerContext;
  #block: OpenBlock | null = null;
  /** Number of blocks that have ended. */
  #blocks = 0;
  /** Text that arrived during a tool call. It is sent after the call. */
  #pending = "";
  /** True if a tool call was sent. */
  #called = false;
  /** Arguments of the last tool call, so far. */
  #arguments = "";
  readonly #callIds = new Map<number, string>();

  /** `showsCache`: the option `--enable-prompt-tokens-details`. */
  constructor(private readonly showsCache: boolean) {}

  id(header: string | null, newId: Ids): string {
    return `chatcmpl-${header ?? newId(8)}`;
  }

  accepted(context: AnswerContext): readonly string[] {
    this.#context = context;
    return [];
  }

  opening(): readonly string[] {
    const { id, model, prompts } = this.#context;
    const message = `{"id":${quotedJson(id)},"type":"message","role":"assistant","content":[],"model":${quotedJson(model)},"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":${prompts[0]!.tokens},"output_tokens":0}}`;
    return [event("message_start", `{"type":"message_start","message":${message}}`)];
  }

  piece({ delta }: Piece): readonly string[] {
    if (delta === null) return [];
    const { content, reasoning, calls } = delta;
    const events: string[] = [];
    if (reasoning) {
      if (this.#block?.type !== "thinking") this.#open(events, "thinking", '{"type":"thinking","thinking":""}', null);
      events.push(this.#delta(`{"type":"thinking_delta","thinking":${quotedJson(reasoning)}}`));
    }
    if (content && this.#block?.type === "tool_use") this.#pending += content;
    else if (content) {
      if (this.#block?.type !== "text") this.#open(events, "text", '{"type":"text","text":""}', null);
      events.push(this.#delta(`{"type":"text_delta","text":${quotedJson(content)}}`));
    }
    for (const call of calls) this.#call(events, call);
    return events;
  }

  frame(): Frame | null {
    if (this.#block?.type !== "text") return null;
    const [prefix, suffix] = this.#delta(`{"type":"text_delta","text":"${MARK}"}`).split(MARK);
    return { prefix: encoder.encode(prefix), suffix: encoder.encode(suffix), showsEmpty: false };
  }

  ended([choice]: readonly ChoiceSoFar[]): readonly string[] {
    const ending = endingOf(this.#context, choice!);
    const events: string[] = [];
    this.#close(events);
    const complete = this.#called && parsedJson(this.#arguments) !== undefined;
    const [reason, stop] = stopReason(ending, this.#called, complete);
    events.push(
      event(
        "message_delta",
        `{"type":"message_delta","delta":{"stop_reason":${quotedOrNull(reason)},"stop_sequence":${quotedOrNull(stop)}},"usage":${this.#usage(ending)}}`,
      ),
      event("message_stop", '{"type":"message_stop"}'),
    );
    return events;
  }

  failed(error: ErrorAnswer): readonly string[] {
    const events: string[] = [];
    this.#closeBlock(events);
    return [...events, event("error", anthropicError(error === paused ? pausedInChatStream : error).body)];
  }

  whole([choice]: readonly WholeChoice[]): string {
    const { id, model } = this.#context;
    const { reasoning, content, calls } = choice!.message();
    const ending = endingOf(this.#context, choice!);
    const called = calls.length > 0;
    const [reason, stop] = stopReason(ending, called, called);
    const blocks: string[] = [];
    if (reasoning)
      blocks.push(`{"type":"thinking","thinking":${quotedJson(reasoning)},"signature":"${this.#context.newId(16)}"}`);
    if (content) blocks.push(`{"type":"text","text":${quotedJson(content)}}`);
    for (const { id: callId, name, arguments: json } of calls) {
      const input = JSON.stringify(JSON.parse(json));
      blocks.push(`{"type":"tool_use","id":${quotedJson(callId)},"name":${quotedJson(name)},"input":${input}}`);
    }
    if (blocks.length === 0) blocks.push('{"type":"text","text":""}');
    const ends = [
      reason === null ? "" : `"stop_reason":"${reason}",`,
      stop === null ? "" : `"stop_sequence":${quotedJson(stop)},`,
    ];
    return `{"id":${quotedJson(id)},"type":"message","role":"assistant","content":[${blocks}],"model":${quotedJson(model)},${ends.join("")}"usage":${this.#usage(ending)}}`;
  }

  refused(error: ErrorAnswer): ErrorAnswer {
    return anthropicError(error);
  }

  #usage({ promptTokens, completionTokens, cachedTokens, createdTokens }: Ending): string {
    if (!this.showsCache) return `{"input_tokens":${promptTokens},"output_tokens":${completionTokens}}`;
    const input = Math.max(0, promptTokens - cachedTokens - createdTokens);
    return `{"input_tokens":${input},"output_tokens":${completionTokens},"cache_creation_input_tokens":${createdTokens},"cache_read_input_tokens":${cachedTokens}}`;
  }

  #call(events: string[], { index, id, name, arguments: more }: CallDelta): void {
    if (id !== undefined) {
      this.#callIds.set(index, id);
      if (this.#block?.id !== id && name !== undefined) {
        this.#called = true;
        this.#arguments = "";
        const start = `{"type":"tool_use","id":${quotedJson(id)},"name":${quotedJson(name)},"input":{}}`;
        this.#open(events, "tool_use", start, id);
      }
    }
    if (!more || this.#block === null || this.#block.id !== (id ?? this.#callIds.get(index) ?? "")) return;
    this.#arguments += more;
    events.push(this.#delta(`{"type":"input_json_delta","partial_json":${quotedJson(more)}}`));
  }

  #delta(delta: string): string {
    const index = this.#block?.index ?? this.#blocks;
    return event("content_block_delta", `{"type":"content_block_delta","delta":${delta},"index":${index}}`);
  }

  #open(events: string[], type: OpenBlock["type"], block: string, id: string | null): void {
    this.#close(events);
    this.#block = { type, index: this.#blocks, id };
    const data = `{"type":"content_block_start","content_block":${block},"index":${this.#blocks}}`;
    events.push(event("content_block_start", data));
  }

  /** Ends the open block, then sends the text that waited for its end. */
  #close(events: string[]): void {
    this.#closeBlock(events);
    const text = this.#pending;
    this.#pending = "";
    if (text === "") return;
    this.#open(events, "text", '{"type":"text","text":""}', null);
    events.push(this.#delta(`{"type":"text_delta","text":${quotedJson(text)}}`));
    this.#closeBlock(events);
  }

  #closeBlock(events: string[]): void {
    if (this.#block === null) return;
    const { type, index } = this.#block;
    if (type === "thinking")
      events.push(this.#delta(`{"type":"signature_delta","signature":"${this.#context.newId(16)}"}`));
    events.push(event("content_block_stop", `{"type":"content_block_stop","index":${index}}`));
    this.#block = null;
    this.#blocks++;
  }
}

/** Returns `stop_reason` and `stop_sequence`. A stop string inside a tool call is the reason, because the call must not run. */
function stopReason({ finish, stop }: Ending, called: boolean, complete: boolean): [string | null, string | null] {
  if (finish === "length") return ["max_tokens", null];
  if (finish !== "stop") return [null, null];
  if (complete) return ["tool_use", null];
  if (typeof stop === "string") return ["stop_sequence", stop];
  return [called ? "tool_use" : "end_turn", null];
}
