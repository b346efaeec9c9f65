/** How do models write tool calls? One form per parser; arguments are drawn from the tool's schema. */
import type { ToolHabits } from "../config/tool-habits.ts";
import type { Draws } from "./draws.ts";
import { type Json, jsonText } from "./json-text.ts";
import { BrokenPattern } from "./pattern.ts";
import { isKeywords, type Schema, Unsatisfiable } from "./schema.ts";
import { ValueDrawer } from "./values.ts";
import { isTooDeep, TooMuchWork } from "./work.ts";

/** What an answer calls, in the form of a parser (`--tool-call-parser`). */
export interface CallPlan {
  readonly form: "hermes" | "llama3_json" | "mistral" | "qwen3_coder";
  /** In front of the first call; "" for nothing. */
  readonly text: string;
  /** What stands between calls of a free answer; a forced one has none. */
  readonly spaced: boolean;
  readonly calls: readonly PlannedCall[];
  readonly habits?: ToolHabits;
}

export interface PlannedCall {
  readonly name: string;
  /** JSON text of the parameters' schema; null: none. */
  readonly parameters: string | null;
}

const NO_PARAMETERS: Schema = { type: "object", properties: {} };

export function writeCalls({ form, text, spaced, calls, habits }: CallPlan, draws: Draws): string {
  const drawn = calls.map(({ name, parameters }) => ({ name, given: argumentsOf(parameters, draws, habits) }));
  return callsText({ form, text, spaced }, drawn);
}

/** Calls whose arguments are known. */
export function callsText(
  { form, text, spaced }: Pick<CallPlan, "form" | "text" | "spaced">,
  drawn: readonly WrittenCall[],
): string {
  const named = ({ name, given }: WrittenCall, key: string) =>
    `{"name": ${JSON.stringify(name)}, "${key}": ${jsonText(given)}}`;
  switch (form) {
    case "hermes":
      return (
        text + drawn.map((call) => `<tool_call>\n${named(call, "arguments")}\n</tool_call>`).join(spaced ? "\n" : "")
      );
    case "llama3_json":
      return drawn.map((call) => named(call, "parameters")).join("; ");
    case "mistral":
      return `${text}[TOOL_CALLS][${drawn.map((call) => named(call, "arguments")).join(", ")}]`;
    case "qwen3_coder":
      return text + drawn.map(xml).join(spaced ? "\n" : "");
  }
}

export interface WrittenCall {
  readonly name: string;
  readonly given: ReadonlyMap<string, Json>;
}

function xml({ name, given }: WrittenCall): string {
  const parameters = [...given].map(([key, value]) => {
    const text = typeof value === "string" ? value : jsonText(value);
    return `<parameter=${key}>\n${text}\n</parameter>\n`;
  });
  return `<tool_call>\n<function=${name}>\n${parameters.join("")}</function>\n</tool_call>`;
}

/** A schema that nothing fits, that is none or too much work does not keep a model from calling: it gets no arguments. */
function argumentsOf(parameters: string | null, draws: Draws, habits?: ToolHabits): ReadonlyMap<string, Json> {
  const schema: unknown = parameters === null ? NO_PARAMETERS : JSON.parse(parameters);
  if (!isKeywords(schema)) return new Map();
  try {
    const values = new ValueDrawer({ type: "object", ...schema }, habits);
    const drawn = values.endless ? new Map() : values.draw(draws);
    return drawn instanceof Map ? drawn : new Map();
  } catch (error) {
    if (error instanceof Unsatisfiable || error instanceof BrokenPattern) return new Map();
    if (error instanceof TooMuchWork || isTooDeep(error)) return new Map();
    throw error;
  }
}
