/**
 * Tool calls as gpt-oss writes them: messages to a function, `<|channel|>commentary to=functions.f <|constrain|>json<|message|>…`.
 * Follows vLLM 0.33, `parser/harmony.py`: the name leaves with the header, and arguments as they come, a delta per output.
 */
import { pythonDumps } from "../../pydantic/dumps.ts";
import { parsePython } from "../../pydantic/json.ts";
import { overlap } from "./hermes.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser } from "./output.ts";

const CHANNEL = "<|channel|>";
const MESSAGE = "<|message|>";
/** Each of them ends a message. */
const ENDS = ["<|call|>", "<|end|>", "<|return|>"];
const RECIPIENT = /to=functions\.([^\s<]+)/;

/** Text of an answer, in its order. `name`: of the function that it is for; null: of nobody. */
interface Part {
  readonly name: string | null;
  text: string;
}

export class HarmonyParser implements ToolParser {
  readonly engineBased = false;
  readonly #newId: () => string;
  #held = "";
  #place: "text" | "header" | "message" = "text";
  #header = "";
  #index = -1;
  /** The message under way is a call. */
  #isCall = false;

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  push(text: string): Delta | null {
    this.#held += text;
    let content = "";
    const calls: CallDelta[] = [];
    for (;;) {
      const marks =
        this.#place === "text" ? [CHANNEL, ...ENDS] : this.#place === "header" ? [MESSAGE] : [CHANNEL, ...ENDS];
      const found = firstOf(this.#held, marks);
      const said = this.#held.slice(
        0,
        found?.at ?? this.#held.length - Math.max(...marks.map((mark) => overlap(this.#held, mark))),
      );
      if (this.#place === "header") this.#header += said;
      else if (this.#isCall) add(calls, { index: this.#index, arguments: said });
      else content += said;
      this.#held = this.#held.slice(said.length + (found?.mark.length ?? 0));
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
    add(calls, { id: this.#newId(), typed: true, index: this.#index, name, arguments: "" });
  }

  extract(text: string): Extracted {
    const parts = partsOf(text);
    const calls = parts.flatMap(({ name, text: given }): ToolCall[] =>
      name === null ? [] : [{ id: this.#newId(), name, arguments: normalized(given) }],
    );
    const content = parts.flatMap(({ name, text: said }) => (name === null && said !== "" ? [said] : [])).join("\n");
    return { called: calls.length > 0, calls, content: content || null };
  }
}

/** Deltas of one call are one. */
function add(calls: CallDelta[], delta: CallDelta): void {
  const same = calls.find(({ index }) => index === delta.index);
  if (same !== undefined) same.arguments = (same.arguments ?? "") + (delta.arguments ?? "");
  else if (delta.name !== undefined || delta.arguments) calls.push(delta);
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
    for (const one of rest) {
      const at = one.indexOf(MESSAGE);
      if (at < 0) continue;
      parts.push({ name: RECIPIENT.exec(one.slice(0, at))?.[1] ?? null, text: one.slice(at + MESSAGE.length) });
    }
  }
  return parts;
}

/** The JSON as Python writes it; text that is no JSON stays. */
function normalized(text: string): string {
  try {
    return pythonDumps(parsePython(text));
  } catch {
    return text;
  }
}
