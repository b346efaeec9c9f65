/**
 * Reads example values that show the effect of each request field (parameter-examples.yaml), for docs/reference/parameters.md and
 * for the tests that try each one on a live server. Throws if a field has no example, or an example no field.
 */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { messagesParameters } from "../../src/servers/vllm/messages/parameters.ts";
import { type ChatKind, openaiParameters } from "../../src/servers/vllm/openai/parameters.ts";
import { responsesParameters } from "../../src/servers/vllm/responses/parameters.ts";

export interface Example {
  /** An accepted value. If the field has an effect, this value shows it. */
  readonly accepted: unknown;
  /** Other fields that the example needs. */
  readonly others?: Readonly<Record<string, unknown>>;
  /** A refused value. Absent if every value of the type is accepted; a wrong type gets pydantic's text. */
  readonly refused?: unknown;
}

/** Examples that differ between the two routes, or exist only for one. */
interface ChatExample extends Example {
  readonly chat?: Partial<Example>;
  readonly completions?: Partial<Example>;
}

type Of<Table, Row> = Readonly<Record<keyof Table, Row>>;

const file = parse(readFileSync(new URL("parameter-examples.yaml", import.meta.url), "utf8"));

function examplesOf<Table extends object, Row extends Example = Example>(api: string, parameters: Table) {
  const examples = file[api] as Of<Table, Row>;
  const wrong = new Set(Object.keys(examples)).symmetricDifference(new Set(Object.keys(parameters)));
  if (wrong.size > 0)
    throw new Error(`${api}: fields without example, or examples without field: ${[...wrong].join()}`);
  return examples;
}

const openaiExamples = examplesOf<typeof openaiParameters, ChatExample>("openai", openaiParameters);
export const messagesExamples = examplesOf("messages", messagesParameters);
export const responsesExamples = examplesOf("responses", responsesParameters);

/** Returns the example of a field for one of the two routes. */
export function exampleOf(kind: ChatKind, name: keyof typeof openaiParameters): Example {
  const { chat, completions, ...example } = openaiExamples[name];
  return { ...example, ...(kind === "chat" ? chat : completions) };
}
