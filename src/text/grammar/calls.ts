/** Draws tool calls: their arguments from the tool's schema, their text in the form of a parser. */

import { CALL_FORMS, type CallText, type WrittenCall } from "./call-forms.ts";
import type { Draws } from "./draws.ts";
import type { ToolFormat } from "./parsers.ts";
import { BrokenPattern } from "./pattern.ts";
import { isKeywords, type Schema, Unsatisfiable } from "./schema.ts";
import type { ToolHabits } from "./tool-habits.ts";
import { ValueDrawer } from "./values.ts";
import { isTooDeep, TooMuchWork } from "./work.ts";

/** What an answer calls, in the form of a parser (`--tool-call-parser`). */
export interface CallPlan {
  readonly form: ToolFormat;
  /** In front of the first call; "" for nothing. */
  readonly text: string;
  /** What stands between calls of a free answer; a forced one has none. */
  readonly spaced: boolean;
  readonly calls: readonly PlannedCall[];
  /** Calls of the conversation so far, which some forms number; absent: none. */
  readonly callsBefore?: number;
  readonly habits?: ToolHabits;
}

export interface PlannedCall {
  readonly name: string;
  /** JSON text of the parameters' schema; null: none. */
  readonly parameters: string | null;
}

const NO_PARAMETERS: Schema = { type: "object", properties: {} };

export function writeCalls({ calls, habits, ...plan }: CallPlan, draws: Draws): string {
  const drawn = calls.map(({ name, parameters }) => ({ name, given: argumentsOf(parameters, draws, habits) }));
  return callsText(plan, drawn);
}

/** Writes calls whose arguments are known. */
export function callsText({ form, ...plan }: CallText & Pick<CallPlan, "form">, drawn: readonly WrittenCall[]): string {
  return CALL_FORMS[form](plan, drawn);
}

/** Draws arguments. They are empty for a schema that nothing fits, that is no schema or that takes too much work: the model calls all the same. */
export function argumentsOf(parameters: string | null, draws: Draws, habits?: ToolHabits): WrittenCall["given"] {
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
