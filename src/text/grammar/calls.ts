/** Draws tool calls: arguments that fit the tool's schema, written in the form of a parser. */

import { CALL_FORMS, type CallText, type WrittenCall } from "./call-forms.ts";
import type { Draws } from "./draws.ts";
import type { ToolFormat } from "./parsers.ts";
import { BrokenPattern } from "./pattern.ts";
import { isKeywords, type Schema, Unsatisfiable } from "./schema.ts";
import type { ToolHabits } from "./tool-habits.ts";
import { ValueDrawer } from "./values.ts";
import { isTooDeep, TooMuchWork } from "./work.ts";

/** The tool calls of an answer. */
export interface CallPlan {
  /** Format of the parser (`--tool-call-parser`). */
  readonly form: ToolFormat;
  /** Text before the first call, or "". */
  readonly text: string;
  /** True if calls are separated by a newline, as in free answers. Forced calls are not. */
  readonly spaced: boolean;
  readonly calls: readonly PlannedCall[];
  /** Number of calls in the conversation so far, because some forms number calls. Absent: none. */
  readonly callsBefore?: number;
  readonly habits?: ToolHabits;
}

/** A call of a tool, whose arguments are drawn. */
interface PlannedCall {
  readonly name: string;
  /** JSON of the parameters' schema. Null: none. */
  readonly parameters: string | null;
}

const NO_PARAMETERS: Schema = { type: "object", properties: {} };

/** Draws the arguments of all calls, and returns their text. */
export function writeCalls({ calls, habits, ...plan }: CallPlan, draws: Draws): string {
  const drawn = calls.map(({ name, parameters }) => ({ name, args: argumentsOf(parameters, draws, habits) }));
  return callsText(plan, drawn);
}

/** Returns the text of calls whose arguments are known. */
export function callsText({ form, ...plan }: CallText & Pick<CallPlan, "form">, drawn: readonly WrittenCall[]): string {
  return CALL_FORMS[form](plan, drawn);
}

/**
 * Draws arguments. They are empty if the schema is invalid, takes too much work, or fits no value, because a model would call
 * the tool nevertheless.
 */
export function argumentsOf(parameters: string | null, draws: Draws, habits?: ToolHabits): WrittenCall["args"] {
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
