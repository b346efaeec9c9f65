/**
 * Reads an event stream as a correct client does: lines and fields by the WHATWG HTML standard (section 9.2), chunks by the
 * references of the APIs.
 */

import { looseList, looseObject } from "../../base/json-object.ts";

// biome-ignore lint/suspicious/noExplicitAny: JSON of four dialects, looked into by their names.
type Json = any;

/** Maximum number of characters of an event. A longer event is an error. */
const EVENT_MOST = 16 * 2 ** 20;
/** Bytes that a line of data takes in addition to its characters. */
const DATA_LINE = 16;
const LAST_TYPES = ["message_stop", "response.completed", "response.incomplete"];

export class EventsReader {
  text = "";
  finish: string | null = null;
  usage: { prompt: number; completion: number } | null = null;
  error: string | null = null;
  /** Reasoning of the first choice, from either of its two field names. */
  reasoning = "";
  /** True if a delta had tool calls. */
  calls = false;
  /** True if the last event of the stream came. */
  done = false;
  readonly #decoder = new TextDecoder();
  #line = "";
  #skipsLf = false;
  #data: string[] = [];
  #name = "";
  /** Number of characters in the data lines of the current event. */
  #dataLength = 0;

  push(bytes: Uint8Array): void {
    this.#lines(this.#decoder.decode(bytes, { stream: true }));
  }

  /** Records the regular end of the body. */
  end(): void {
    if (this.done || this.error !== null) return;
    if (this.finish === null) this.error = "the stream ended without a finish reason";
  }

  /** Reads an answer that is one JSON body. */
  whole(text: string): void {
    const json = parsed(text);
    if (json === null) this.error = "the body is neither an event stream nor JSON";
    else if (json.error) this.error = "the body is an error";
    else this.#wholeAnswer(json);
    this.done = true;
  }

  #lines(text: string): void {
    let from = 0;
    for (let at = 0; at < text.length && this.error === null; at++) {
      const character = text[at];
      if (character === "\n" && this.#skipsLf && at === from && this.#line === "") {
        this.#skipsLf = false;
        from = at + 1;
      } else if (character === "\n" || character === "\r") {
        this.#skipsLf = character === "\r";
        this.#field(this.#line + text.slice(from, at));
        this.#line = "";
        from = at + 1;
      } else this.#skipsLf = false;
    }
    this.#line += text.slice(from);
    if (this.#line.length + this.#dataLength > EVENT_MOST) this.error = "an event has no end within 16 MiB";
  }

  #field(line: string): void {
    if (line === "") {
      if (this.#data.length > 0) this.#event(this.#data.join("\n"));
      this.#data = [];
      this.#dataLength = 0;
      this.#name = "";
      return;
    }
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") {
      this.#data.push(value);
      this.#dataLength += value.length + DATA_LINE;
    } else if (name === "event") this.#name = value;
  }

  #event(data: string): void {
    if (this.done || data === "") return;
    if (data === "[DONE]" || data === '"[DONE]"') {
      this.done = true;
      if (this.finish === null) this.error = "the last event came without a finish reason";
      return;
    }
    const json = parsed(data);
    if (json === null || this.#name === "error" || json.error || json.type === "error") {
      // A comment that arrived as data carries no information.
      if (!data.startsWith(":")) this.error = json === null ? "an event is not JSON" : "the stream contains an error";
    } else this.#chunk(json);
  }

  #chunk(json: Json): void {
    const choice = looseList(json.choices)
      .map(looseObject)
      .find((candidate) => candidate !== null && (candidate.index ?? 0) === 0);
    const delta =
      choice?.delta?.content ?? choice?.text ?? (json.type === "content_block_delta" ? json.delta?.text : null);
    if (choice?.delta?.tool_calls) this.calls = true;
    const reasoning = choice?.delta?.reasoning ?? choice?.delta?.reasoning_content;
    if (typeof reasoning === "string") this.reasoning += reasoning;
    if (typeof delta === "string") this.text += delta;
    else if (json.type === "response.output_text.delta" && typeof json.delta === "string") this.text += json.delta;
    this.#reason(choice?.finish_reason || json.delta?.stop_reason);
    this.#countUsage(json.usage ?? json.response?.usage);
    if (!LAST_TYPES.includes(json.type)) return;
    if (json.response) this.#reason(json.response.status);
    this.done = true;
    if (this.finish === null) this.error = "the last event came without a finish reason";
  }

  #wholeAnswer(json: Json): void {
    const choice = looseObject(looseList(json.choices)[0]);
    const items = Array.isArray(json.content) ? [json] : looseList(json.output);
    const parts = items.flatMap((item) => looseList(looseObject(item)?.content)).map((part) => looseObject(part)?.text);
    const content: unknown = choice?.message?.content ?? choice?.text;
    this.text = typeof content === "string" ? content : parts.filter((part) => typeof part === "string").join("");
    this.#reason(choice?.finish_reason ?? json.stop_reason ?? json.status);
    this.#countUsage(json.usage);
    if (this.finish === null) this.error = "the answer has no finish reason";
  }

  #reason(reason: unknown): void {
    if (typeof reason === "string") this.finish ??= reason;
  }

  #countUsage(usage: Json): void {
    if (!usage) return;
    const [prompt, completion] = [
      countIn(usage.prompt_tokens ?? usage.input_tokens),
      countIn(usage.completion_tokens ?? usage.output_tokens),
    ];
    this.usage = { prompt: prompt ?? this.usage?.prompt ?? 0, completion: completion ?? 0 };
  }
}

const countIn = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

function parsed(text: string): Json | null {
  try {
    const value: unknown = JSON.parse(text);
    return looseObject(value);
  } catch {
    return null;
  }
}
