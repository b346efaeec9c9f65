/**
 * Reads an event stream as a correct client does: events by the WHATWG HTML standard (section 9.2), chunks by the references of
 * the APIs.
 */

import { ByteBudget } from "../../base/growing-bytes.ts";
import { jsonObjectIn, looseList, looseObject } from "../../base/json-object.ts";
import { type EventReceiver, EventStream } from "../load/answers/event-stream.ts";

// biome-ignore lint/suspicious/noExplicitAny: JSON of four dialects, looked into by their names.
type Json = any;

/** Maximum number of bytes of a line, and of the data of an event. A longer event is an error. */
const EVENT_MOST = 16 * 2 ** 20;
const LAST_TYPES = ["message_stop", "response.completed", "response.incomplete"];

export class EventsReader implements EventReceiver {
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
  readonly #stream = new EventStream(this, new ByteBudget(2 * EVENT_MOST), EVENT_MOST);

  push(bytes: Uint8Array): void {
    this.#stream.push(bytes, 0, bytes.length);
  }

  /** Records the regular end of the body. */
  end(): void {
    if (this.done || this.error !== null) return;
    if (this.finish === null) this.error = "the stream ended without a finish reason";
  }

  /** Reads an answer that is one JSON body. */
  whole(text: string): void {
    const json = jsonObjectIn(text);
    if (json === null) this.error = "the body is neither an event stream nor JSON";
    else if (json.error) this.error = "the body is an error";
    else this.#wholeAnswer(json);
    this.done = true;
  }

  match(): number {
    return -1;
  }

  tooLong(): void {
    this.error = "an event has no end within 16 MiB";
  }

  event(bytes: Uint8Array, from: number, to: number, isError: boolean): void {
    const data = decoder.decode(bytes.subarray(from, to));
    if (this.done || this.error !== null || data === "") return;
    if (data === "[DONE]" || data === '"[DONE]"') {
      this.done = true;
      if (this.finish === null) this.error = "the last event came without a finish reason";
      return;
    }
    const json = jsonObjectIn(data);
    if (json === null || isError || json.error || json.type === "error") {
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

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const countIn = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
