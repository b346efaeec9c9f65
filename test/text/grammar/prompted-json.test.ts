/** Prompts that ask for JSON in words are answered as their library expects. Each form has a shortened prompt. */
import { expect, test } from "bun:test";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { BrokenStructure } from "../../../src/text/grammar/broken.ts";
import type { PromptedJson } from "../../../src/text/grammar/prompted-json.ts";
import { writerOf } from "../../../src/text/grammar/structure.ts";

const ajv = new Ajv({ strict: false });
addFormats(ajv);

const WISH: PromptedJson = { kind: "prompted", texts: [], mustBeObject: false, always: false, calls: 0.5 };
const SEEDS = 20;

/** Returns the answers to a prompt, by seed. */
function answersTo(texts: string | readonly string[], more: Partial<PromptedJson> = {}): (string | null)[] {
  const write = writerOf({ ...WISH, texts: [texts].flat(), ...more });
  return Array.from({ length: SEEDS }, (_, seed) => write(seed, 0));
}

const PERSON = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer", minimum: 0, maximum: 9 } },
  required: ["name", "age"],
  additionalProperties: false,
};
const LINE = JSON.stringify(PERSON);
const PRETTY = JSON.stringify(PERSON, null, 2);
const object = (properties: object, required = Object.keys(properties)) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
const { $schema: _, type: __, ...UNTYPED } = PERSON;
const PYTHON = PRETTY.replaceAll('"', "'").replaceAll("false", "False");

/** LangChain's explanation of JSON Schema, which contains an example of a schema. */
const EXPLAINED =
  'As an example, for the schema {"properties": {"foo": {"title": "Foo", "type": "array", "items": {"type": "string"}}}, "required": ["foo"]}\n' +
  'the object {"foo": ["bar", "baz"]} is well-formatted. The object {"properties": {"foo": ["bar", "baz"]}} is not.\n\n';

const SCHEMAS: readonly (readonly [string, string | readonly string[], object])[] = [
  [
    "Spring AI: a fence without lines",
    `Tell me. Your response should be in JSON format. Remove the \`\`\`json markdown.\nHere is the JSON Schema instance:\n\`\`\`${PRETTY}\`\`\`\n`,
    PERSON,
  ],
  [
    "LangChain: an example schema before it, no type",
    `Tell me.\nThe output should be a JSON instance of the schema below.\n\n${EXPLAINED}Here is the output schema:\n\`\`\`\n${JSON.stringify(UNTYPED)}\n\`\`\``,
    PERSON,
  ],
  [
    "genkit: in the user's message",
    `Who?\n\nOutput should be in JSON format and conform to the following schema:\n\n\`\`\`\n${LINE}\n\`\`\`\n`,
    PERSON,
  ],
  [
    "ragas: text right behind it, then examples and input",
    `Rate it.\nReturn the output in a JSON format that complies with the schema:\n${LINE}Do not use single quotes.\n--------EXAMPLES-----------\nExample 1\nInput: {\n    "user_input": "x"\n}\nOutput: {\n    "score": 1\n}\n\ninput: {\n    "response": "y"\n}\nOutput: `,
    PERSON,
  ],
  [
    "LlamaIndex: bare, between texts",
    `Who?\n\nHere's a JSON schema to follow:\n${LINE}\n\nOutput a valid JSON object but do not repeat the schema.\n`,
    PERSON,
  ],
  [
    "AI SDK: in the system message",
    [
      `JSON schema:\n${LINE}\nYou MUST answer with a JSON object that matches the JSON schema above.`,
      'Here is data: {"a": [1]}',
    ],
    PERSON,
  ],
  [
    "instructor: in the system message, over many lines",
    [`Match the following json_schema:\n\n${PRETTY}\n\nReturn an instance, not the schema`, "John is 5"],
    PERSON,
  ],
  [
    "the schema with its name around it, as CrewAI writes it",
    `Follow the OpenAPI schema: ${JSON.stringify({ type: "json_schema", json_schema: { name: "P", strict: true, schema: PERSON } })}`,
    PERSON,
  ],
  ["a dict of Python", `Answer with this schema: ${PYTHON}`, PERSON],
  [
    "several: the last one",
    `Input schema: ${JSON.stringify(object({ x: { type: "null" } }))}\nOutput schema: ${LINE}`,
    PERSON,
  ],
  [
    "a list at the top",
    `JSON schema: {"type": "array", "items": {"type": "integer"}, "minItems": 1}`,
    { type: "array", items: { type: "integer" }, minItems: 1 },
  ],
  [
    "references",
    `Schema: {"$defs": {"A": {"enum": [1, 2]}}, "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"], "type": "object"}`,
    object({ a: { enum: [1, 2] } }),
  ],
  [
    "a schema that vLLM's grammars refuse, which no model cares for",
    'Schema: {"type": "array", "items": {"type": "integer"}, "uniqueItems": true, "minItems": 2}',
    { type: "array", uniqueItems: true, minItems: 2 },
  ],
];

const VERDICTS = `Generate a list of JSON with two keys. IMPORTANT: only return in JSON format.
Example:
Input: What should I do?

{
    "verdicts": [
        { "verdict": "no", "reason": "The statement has nothing to do with the question." },
        { "verdict": "idk" },
        { "verdict": "yes" }
    ]
}

Retrieval Context:
{"page": "Earthquakes"}

Statements:
["Shoes.", "Thanks."]

JSON:
`;

const EXAMPLES: readonly (readonly [string, string | readonly string[], object])[] = [
  [
    "deepeval: short values of the example, members that not all have, data behind it",
    VERDICTS,
    object({
      verdicts: {
        type: "array",
        minItems: 1,
        items: object({ verdict: { enum: ["no", "idk", "yes"] }, reason: { type: "string" } }, ["verdict"]),
      },
    }),
  ],
  [
    "deepeval: keys in words",
    'Rate it.\n\n**\nIMPORTANT: only return in JSON format, with the "score" and "reason" key. No words.\n**\n\nJSON:\n',
    object({ score: { type: "integer", minimum: 0, maximum: 10 }, reason: { type: "string" } }),
  ],
  [
    "deepeval: keys in words, with an output that is JSON",
    'Rate it.\n\nActual Output:\n{"x": "y"}\n\nTags: {"z": 1}\n\nOnly return in JSON format, with the "score" and "reason" key.\n\nJSON:\n',
    object({ score: { type: "integer" }, reason: { type: "string" } }),
  ],
  [
    "deepeval: a key that is a list",
    'Make sure to only return in JSON format, with the "steps" key as a list of strings. No words.\n\nJSON:\n',
    object({ steps: { type: "array", items: { type: "string" } } }),
  ],
  [
    "deepeval: numbered keys",
    "Given the steps, return a JSON with two keys: 1) a `score` key ranging from 0 - 10, with 10 the best, and 2) a `reason` key, a reason for it.",
    object({ score: { type: "integer", minimum: 0, maximum: 10 }, reason: { type: "string" } }),
  ],
  [
    "quoted keys behind the word for them",
    'Classify it. Answer with a JSON object, keys "label" and "score" only.',
    object({ label: { type: "string" }, score: { type: "integer" } }),
  ],
  [
    "quoted keys in front of JSON",
    'Write the keys "label" and "reason" as JSON.',
    object({ label: { type: "string" }, reason: { type: "string" } }),
  ],
  [
    "keys without quotes",
    "Return JSON with keys name, city and age.",
    object({ name: { type: "string" }, city: { type: "string" }, age: { type: "string" } }),
  ],
  [
    "fields without quotes, behind a colon",
    "Respond with a JSON object with the following fields: title, year",
    object({ title: { type: "string" }, year: { type: "string" } }),
  ],
  [
    "DSPy: places for values, with their types in notes",
    [
      'Inputs:\n\n[[ ## question ## ]]\n{question}\n\nOutputs will be a JSON object with the following fields.\n\n{\n  "answer": "{answer}",\n  "score": "{score}        # note: the value you produce must be a single float value",\n  "ok": "{ok}        # note: the value you produce must be True or False",\n  "kind": "{kind}        # note: the value you produce must exactly match one of: a; b",\n  "card": "{card}        # note: the value you produce must adhere to the JSON schema: {\\"type\\": \\"object\\", \\"properties\\": {\\"n\\": {\\"type\\": \\"integer\\"}}, \\"required\\": [\\"n\\"]}"\n}',
      '[[ ## question ## ]]\n{"id": 5}\n\nRespond with a JSON object in the following order of fields: `answer`, then `score`.',
    ],
    object({
      answer: { type: "string" },
      score: { type: "number" },
      ok: { type: "boolean" },
      kind: { enum: ["a", "b"] },
      card: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
    }),
  ],
  [
    "DSPy: a note behind the value",
    'JSON object:\n{\n  "answer": "{answer}"  # note: the value you produce must adhere to the JSON schema: {"type": "integer"}\n}',
    object({ answer: { type: "integer" } }),
  ],
  [
    "LangChain4j: types in words, nested",
    'Answer in the following JSON format: {\n"name": (type: string),\n"born": (type: date string (2023-12-31)),\n"home": (type: a.Address: {\n"street": (type: string)\n}),\n"tags": (type: array of string),\n}',
    object({
      name: { type: "string" },
      born: { type: "string", format: "date" },
      home: object({ street: { type: "string" } }),
      tags: { type: "array", items: { type: "string" } },
    }),
  ],
  [
    "TypeScript, and BAML",
    "Answer in JSON using this schema:\n{\n  name: string,\n  age?: int or null,\n  kind: 'a' or 'b',\n  tags: string[],\n}",
    object({
      name: { type: "string" },
      age: { type: ["integer", "null"] },
      kind: { enum: ["a", "b"] },
      tags: { type: "array", items: { type: "string" } },
    }),
  ],
  [
    "values by hand",
    'Respond in JSON: {"sentiment": "positive|negative", "confidence": 0.93, "age": <int>, "note": "...", "ok": true}',
    object({
      sentiment: { enum: ["positive", "negative"] },
      confidence: { type: "number", minimum: 0, maximum: 1 },
      age: { type: "integer" },
      note: { type: "string" },
      ok: { type: "boolean" },
    }),
  ],
  ["braces that a template doubled", 'Return JSON as {{"a": 1}}', object({ a: { type: "integer" } })],
  [
    "properties alone",
    'JSON schema: {"a": {"type": "string"}, "b": {"type": "integer"}}',
    object({ a: { type: "string" }, b: { type: "integer" } }),
  ],
  [
    "a list of objects",
    'Return a JSON list like this: [{"name": "...", "age": 3}]',
    { type: "array", minItems: 1, items: object({ name: { type: "string" }, age: { type: "integer" } }) },
  ],
];

test.each([...SCHEMAS, ...EXAMPLES])("%s", (_, prompt, schema) => {
  const fits = ajv.compile(schema);
  for (const text of answersTo(prompt)) {
    const value = JSON.parse(text!);
    if (!fits(value)) throw new Error(`${text}: ${JSON.stringify(fits.errors)}`);
  }
});

test("LangChain's instructions for fields: without commas, with comments, and with a fence around the answer", () => {
  const lines = '```json\n{\n\t"answer": string  // the answer, in words\n\t"n": integer  // how many\n}\n```';
  const prompt = `A markdown code snippet in this schema, including the leading and trailing "\`\`\`json" and "\`\`\`":\n\n${lines}`;
  const fits = ajv.compile(object({ answer: { type: "string" }, n: { type: "integer" } }));
  for (const text of answersTo(prompt)) {
    const [, json] = /^```json\n(.*)\n```$/s.exec(text!)!;
    expect(fits(JSON.parse(json!))).toBe(true);
  }
});

const tool = (name: string) =>
  JSON.stringify({ type: "function", function: { name, description: "", parameters: PERSON } });
const NOUS = `# Tools\n\n<tools>\n${tool("look")}\n${tool("close")}\n</tools>\n\nFor each function call, return a json object within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>`;
const QWEN = `# Tools\n\n### look\n\nlook: Looks at {things}. Parameters: ${LINE} Format the arguments as a JSON object.\n\n## When you need to call a tool:\n\n✿FUNCTION✿: The tool to use, should be one of [look]\n✿ARGS✿: The input of the tool`;

test("Qwen-Agent: a share of the answers, or the ordered ones, call a listed tool in tags", () => {
  const all = answersTo(NOUS, { calls: 1 });
  const names = all.map((text) => {
    const { name, arguments: args } = JSON.parse(/^<tool_call>\n(.*)\n<\/tool_call>$/s.exec(text!)![1]!);
    expect(ajv.validate(PERSON, args)).toBe(true);
    return name;
  });
  expect(new Set(names)).toEqual(new Set(["look", "close"]));
  expect(answersTo(NOUS, { calls: 0 }).every((text) => !text?.startsWith("<tool_call>"))).toBe(true);
  const share = answersTo(NOUS).filter((text) => text?.startsWith("<tool_call>")).length;
  expect(share).toBeWithin(3, SEEDS - 2);
  expect(answersTo(NOUS, { calls: ["close", "none"] }).every((text) => text!.includes('"name": "close"'))).toBe(true);
});

test("Qwen-Agent: calls in the older form, whose schema is not that of the answer", () => {
  for (const text of answersTo(QWEN, { calls: 1 })) {
    const [, name, args] = /^✿FUNCTION✿: (.*)\n✿ARGS✿: (.*)$/.exec(text!)!;
    expect([name, ajv.validate(PERSON, JSON.parse(args!))]).toEqual(["look", true]);
  }
  expect(answersTo(QWEN, { calls: 0 })).toEqual(Array(SEEDS).fill(null));
});

test.each([
  "Respond in JSON.",
  "List three rivers as JSON only",
  "You MUST answer with JSON.",
  "请以JSON格式回答",
  "Who?\n\nJSON:\n",
])("a request for JSON without an example gets any object: %s", (prompt) => {
  for (const text of answersTo(prompt)) expect(Object.keys(JSON.parse(text!)).length).toBeGreaterThan(0);
});

test.each([
  "What is JSON?",
  "Hello {name}, see [1] and [this](#that).",
  "Why does JSON.parse throw here?",
  'Explain this file:\n```json\n{"a": 1}\n```',
  "",
  "{}",
])("no request for JSON, no JSON: %s", (prompt) => {
  expect(answersTo(prompt)).toEqual(Array(SEEDS).fill(null));
  for (const text of answersTo(prompt, { always: true })) expect(JSON.parse(text!)).toBeObject();
});

test("an answer that must be an object is one, even if the prompt has a list", () => {
  for (const prompt of [
    'JSON schema: {"type": "array"}',
    "Hello",
    LINE,
    'including the leading and trailing "```json": {"a": 1} JSON',
  ])
    for (const text of answersTo(prompt, { mustBeObject: true })) expect(JSON.parse(text!)).toBeObject();
  const fits = ajv.compile(PERSON);
  expect(answersTo(LINE, { mustBeObject: true }).every((text) => fits(JSON.parse(text!)))).toBe(true);
});

test.each([
  '{"type": "string", "minLength": 3, "maxLength": 2}',
  '{"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"type": "integer"}]}}, "required": ["a"]}',
  '{"type": "object", "properties": {"a": {"not": {}}}, "required": ["a"]}',
])("a schema that no value fits is refused: %s", (schema) => {
  expect(() => answersTo(`JSON schema: ${schema}`)).toThrow(BrokenStructure);
});

test("names of JavaScript's own properties are ordinary properties", () => {
  const text = answersTo('Return JSON: {"__proto__": 1, "constructor": 2, "toString": {"hasOwnProperty": 3}}')[0]!;
  expect(Object.keys(JSON.parse(text))).toEqual(["__proto__", "constructor", "toString"]);
});

test("only the first 100 items and 200 members of an example count", () => {
  const items = Array.from({ length: 101 }, (_, n) => ({ kind: n < 100 ? "early" : "late" }));
  for (const text of answersTo(`JSON like this: ${JSON.stringify({ items })}`)) {
    expect(text).toContain("early");
    expect(text).not.toContain("late");
  }
  const members = Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`m${n}`, true]));
  const [text] = answersTo(`JSON like this: ${JSON.stringify(members)}`);
  expect(Object.keys(JSON.parse(text!))).toEqual(Object.keys(members).slice(0, 200));
});
