/** Writes the tool calls that a fixture or an order gives, in the format that the server's tool parser reads. */

import type { CallText, WrittenCall } from "./call-forms.ts";
import { callsText } from "./calls.ts";
import { fromPlain } from "./json-text.ts";
import type { ToolFormat } from "./parsers.ts";

/** A call and the text of its arguments. With `isText` that text is written unchanged, even if it is not JSON. */
interface OrderedCall {
  readonly name: string;
  readonly arguments: string;
  readonly isText: boolean;
}

/** Forms that write arguments as JSON. The others write each argument by itself. */
const JSON_FORMS: readonly ToolFormat[] = ["hermes", "llama3_json", "mistral", "kimi_k2", "openai"];

/** Returns the text of the calls. */
export function orderedCallsText(form: ToolFormat, surroundings: CallText, calls: readonly OrderedCall[]): string {
  return callsText(
    { form, ...surroundings },
    calls.map((call) => writtenCall(form, call)),
  );
}

/** Prepares a call to be written. Forms without JSON write the members of an object, even if it is ordered as a text. */
function writtenCall(form: ToolFormat, { name, arguments: text, isText }: OrderedCall): WrittenCall {
  const args = isText && JSON_FORMS.includes(form) ? null : objectIn(text);
  return args === null ? { name, args: new Map(), raw: text } : { name, args };
}

/** Returns null if the text is not JSON of an object, or nests too deeply to be written. */
function objectIn(text: string): WrittenCall["args"] | null {
  try {
    const value = fromPlain(JSON.parse(text));
    return value instanceof Map ? value : null;
  } catch {
    return null;
  }
}
