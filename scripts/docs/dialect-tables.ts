/**
 * Makes the field tables of /v1/messages and /v1/responses, with the errors for refused values, for
 * docs/reference/parameters.md and its tests.
 */

import type { Parameter } from "../../src/servers/openai/docs/parameter.ts";
import { checkModel } from "../../src/servers/openai/front/models.ts";
import type { DialectHost } from "../../src/servers/openai/pipeline/dialect.ts";
import type { BodyReader } from "../../src/servers/openai/pipeline/form.ts";
import type { Limits } from "../../src/servers/openai/request/request.ts";
import { checkPrompt, checkSampling } from "../../src/servers/openai/request/sampling.ts";
import type { ErrorAnswer } from "../../src/servers/pydantic/refusals.ts";
import type { Fields } from "../../src/servers/pydantic/validate.ts";
import { countReader, messagesReader } from "../../src/servers/vllm/messages/dialect.ts";
import { countFields, messagesFields } from "../../src/servers/vllm/messages/fields.ts";
import { messagesParameters as ofMessages } from "../../src/servers/vllm/messages/parameters.ts";
import { chatValuePieces } from "../../src/servers/vllm/openai/read.ts";
import { responsesReader } from "../../src/servers/vllm/responses/dialect.ts";
import { responsesFields } from "../../src/servers/vllm/responses/fields.ts";
import { responsesParameters as ofResponses } from "../../src/servers/vllm/responses/parameters.ts";
import { Store } from "../../src/servers/vllm/responses/store.ts";
import { type Example, messagesExamples, responsesExamples } from "../../test/conformance/parameter-examples.ts";

export interface DialectTable {
  readonly path: string;
  readonly fields: Fields;
  readonly rows: Readonly<Record<string, Parameter>>;
  readonly examples: Readonly<Record<string, Example>>;
  /** A valid request. A test copies it and replaces the fields that its example names. */
  readonly plain: object;
  readonly reader: BodyReader;
}

/** Limits of a server with the built-in vocabulary and a context of 4,096 tokens. */
export const LIMITS: Limits = {
  maxModelLen: 4096,
  maxLogprobs: 20,
  vocabularySize: 201_088,
  maxTokenCharacters: 128,
  servedModelNames: ["m"],
  loraNames: [],
};
const host = {
  limits: LIMITS,
  parses: false,
  chat: (body, exact, changes) => chatValuePieces(body, LIMITS, exact, changes),
  checkModel: (model) => checkModel(model, LIMITS),
  mergesSystem: () => false,
  thinksAnyway: () => false,
} as Partial<DialectHost> as DialectHost;

const TEXT = "Hello there, how are you today?";
const messages = { model: "m", messages: [{ role: "user", content: TEXT }] };

export const dialectTables: readonly DialectTable[] = [
  {
    path: "/v1/messages",
    fields: messagesFields,
    rows: ofMessages,
    examples: messagesExamples,
    plain: { ...messages, max_tokens: 12 },
    reader: messagesReader(host, false),
  },
  {
    path: "/v1/messages/count_tokens",
    fields: countFields,
    rows: ofMessages,
    examples: messagesExamples,
    plain: messages,
    reader: countReader(host),
  },
  {
    path: "/v1/responses",
    fields: responsesFields,
    rows: ofResponses,
    examples: responsesExamples,
    plain: { model: "m", input: TEXT, max_output_tokens: 12, seed: 5 },
    reader: responsesReader(host, new Store(0)),
  },
];

/**
 * Returns the error of a server for the value `refused` of an example. The server has the built-in vocabulary and a context of
 * 4,096 tokens. Null if it accepts the value.
 */
export function dialectRefusal({ examples, plain, reader }: DialectTable, name: string): ErrorAnswer | null {
  const bytes = new TextEncoder().encode(JSON.stringify({ ...plain, [name]: examples[name]!.refused }));
  const read = reader.read(bytes, "application/json", LIMITS);
  if ("error" in read) return read.error;
  const checked = checkPrompt(read.request, 8, true, LIMITS);
  const error = "error" in checked ? checked.error : checkSampling(read.request, LIMITS, 8);
  return error && (read.form.refused?.(error) ?? error);
}
