/**
 * Reads tool calls in the format of gpt-oss: messages to a function, such as
 * `<|channel|>commentary to=functions.f <|constrain|>json<|message|>…`. Like vLLM 0.33 (`parser/harmony.py`), it sends the name
 * after the header and arguments as they come, in one delta per output.
 */
import { pythonDumps } from "../../pydantic/dumps.ts";
import type { CallDelta, Delta, ExtractedCalls, ToolCall, ToolParser } from "./output.ts";
import { addCall, overlap, pythonJsonIn } from "./parser-parts.ts";

const CHANNEL = "<|channel|>";
const MESSAGE = "<|message|>";
/** Each of these tokens ends a message. */
const ENDS = ["<|call|>", "<|end|>", "<|return|>"];
const RECIPIENT = /to=functions\.([^\s<]+)/;

/** A part of a whole answer. `name`: the function that it calls. null: it is content. */
interface Part {
  readonly name: string | null;
  text: string;
}

export class HarmonyParser implements ToolParser {
  readonly engineBased = false;
  /** Text that may be the beginning of a mark. */
  #held = "";
  #place: "text" | "header" | "message" = "text";
  #header = "";
  /** Index of the last call. -1: no call yet. */
  #index = -1;
  /** True if the current message is a call. */
  #isCall = false;

  constructor(private readonly newId: () => string) {}

  push(text: string): Delta | null {
    this.#held += text;
    let content = "";
    const calls: CallDelta[] = [];
    for (;;) {
      const marks =
        this.#place === "text" ? [CHANNEL, ...ENDS] : this.#place === "header" ? [MESSAGE] : [CHANNEL, ...ENDS];
      const found = firstOf(this.#held, marks);
      const before = this.#held.slice(
        0,
        found?.at ?? this.#held.length - Math.max(...marks.map((mark) => overlap(this.#held, mark))),
      );
      if (this.#place === "header") this.#header += before;
      else if (this.#isCall && before !== "") addCall(calls, { index: this.#index, arguments: before });
      else content += before;
      this.#held = this.#held.slice(before.length + (found?.mark.length ?? 0));
      if (found === null) break;
      if (found.mark === CHANNEL) this.#begin("header");
      else if (found.mark === MESSAGE) this.#open(calls);
      else this.#begin("text");
    }
    if (content === "" && calls.length === 0) return null;
    return { ...(content === "" ? {} : { content }), calls };
  }

  #begin(place: "header" | "text"): void {
    this.#place = place;
    this.#header = "";
    this.#isCall = false;
  }

  #open(calls: CallDelta[]): void {
    this.#place = "message";
    const name = RECIPIENT.exec(this.#header)?.[1];
    this.#isCall = name !== undefined;
    if (name === undefined) return;
    this.#index++;
    addCall(calls, { id: this.newId(), typed: true, index: this.#index, name, arguments: "" });
  }

  extract(text: string): ExtractedCalls {
    const parts = partsOf(text);
    const calls = parts.flatMap(({ name, text: json }): ToolCall[] =>
      name === null ? [] : [{ id: this.newId(), name, arguments: normalize(json) }],
    );
    const contents = parts.flatMap((part) => (part.name === null && part.text !== "" ? [part.text] : []));
    const content = contents.join("\n");
    return { called: calls.length > 0, calls, content: content || null };
  }
}

function firstOf(text: string, marks: readonly string[]): { readonly mark: string; readonly at: number } | null {
  const found = marks.flatMap((mark) => (text.includes(mark) ? [{ mark, at: text.indexOf(mark) }] : []));
  return found.sort((a, b) => a.at - b.at)[0] ?? null;
}

function partsOf(text: string): Part[] {
  const parts: Part[] = [];
  for (const message of text.split(/<\|(?:call|end|return)\|>/)) {
    const [before = "", ...rest] = message.split(CHANNEL);
    parts.push({ name: null, text: before });
    for (const channel of rest) {
      const at = channel.indexOf(MESSAGE);
      if (at < 0) continue;
      parts.push({ name: RECIPIENT.exec(channel.slice(0, at))?.[1] ?? null, text: channel.slice(at + MESSAGE.length) });
    }
  }
  return parts;
}

/** Returns JSON in Python's notation. Returns other text unchanged. */
function normalize(text: string): string {
  const value = pythonJsonIn(text);
  return value === undefined ? text : pythonDumps(value);
}
