/**
 * Measures how much constrained answers cost, and how long reading them delays other requests:
 *
 * - CPU time per streamed token with a schema and with plain text, in turn.
 * - Time on the loop's thread to read a request with a schema, minus that of a request whose schema is in an unused field.
 *
 * `bench hold` has rows with constraints, for the gaps of other streams.
 *
 *   bun run bench structured [--rounds 7] [--requests 640] [--schemas 500] [--timing none] [--no-save]
 */
import fc from "fast-check";
import { isLarge } from "../src/base/pieces.ts";
import { chatPieces, readChat } from "../src/servers/vllm/openai/read.ts";
import { LIMITS } from "../test/limits.ts";
import { schemas } from "../test/text/grammar/schemas.ts";
import { bars, options, save, table } from "./lib/bench.ts";
import { CHAT_PATH, complete, read } from "./lib/client.ts";
import { median, medianRatio } from "./lib/numbers.ts";
import { inTurns, serve, withCpu } from "./lib/servers.ts";

const defaults = { rounds: 7, requests: 640, schemas: 500, timing: "constant:ttft=5ms,itl=5ms" };
const { rounds, requests, timing, schemas: count } = options(defaults);

const CPU_BAR = 1.2;
const HOLD_BAR_MS = 5;
const CONNECTIONS = 64;
const flags = ["--served-model-name", "m", "--disable-uvicorn-access-log"];
const asked = { model: "m", messages: [{ role: "user", content: "What is there to say?" }] };
const format = (schema: unknown) => ({ response_format: { type: "json_schema", json_schema: { name: "x", schema } } });

/** A schema of five texts and five numbers, whose answers have about 220 tokens. */
const SCHEMA = {
  type: "object",
  properties: Object.fromEntries(
    Array.from({ length: 5 }, (_, i) => [
      [`text${i}`, { type: "string", minLength: 200, maxLength: 240 }],
      [`number${i}`, { type: "integer", minimum: 0, maximum: 999 }],
    ]).flat(),
  ),
  required: Array.from({ length: 5 }, (_, i) => [`text${i}`, `number${i}`]).flat(),
  additionalProperties: false,
};

/** Returns the CPU time of the server per event, in microseconds, with plain text and with the schema, and the events per answer. */
async function cpu() {
  await using server = await serve([...flags, "--timing", timing]);
  let events = 0;
  const cost = async (more: object) => {
    const body = { ...asked, stream: true, ...more };
    const options = {
      port: server.port,
      body,
      streams: CONNECTIONS,
      requests: requests / CONNECTIONS,
      path: CHAT_PATH,
    };
    const { result, us } = await withCpu(server, async () => complete(await read(options), requests));
    return { us: us / result.events, events: result.events / requests };
  };
  const withSchema = async () => {
    const seen = await cost(format(SCHEMA));
    events = seen.events;
    return seen.us;
  };
  await withSchema(); // its number of events is that of the plain answers
  const plainly = async () => (await cost({ max_tokens: Math.round(events) - 3, ignore_eos: true })).us;
  return { ...(await inTurns("structured", rounds, { schema: withSchema, plain: plainly }, 1)), events };
}

const large = {
  type: "object",
  properties: Object.fromEntries(
    Array.from({ length: 5000 }, (_, i) => [`property${i}`, { type: "string", maxLength: 20 }]),
  ),
  required: ["property1"],
};
const tool = (name: string, parameters: object) => ({ type: "function", function: { name, parameters } });
const tools = Array.from({ length: 10_000 }, (_, i) => tool(`f${i}`, { type: "object" }));

/** Schemas that would grow without bound: references that double per level, nested repetitions. The server refuses them. */
const blowUps = [
  {
    $defs: Object.fromEntries(
      Array.from({ length: 25 }, (_, i) => [
        `d${i}`,
        i === 0 ? { type: "string" } : { allOf: [{ $ref: `#/$defs/d${i - 1}` }, { $ref: `#/$defs/d${i - 1}` }] },
      ]),
    ),
    $ref: "#/$defs/d24",
  },
  { type: "object", minProperties: 1e9 },
  { type: "array", minItems: 1e9 },
  { type: "string", pattern: "((((a?){1000}){1000}){1000}){1000}" },
];

const megabyte = { allOf: [large, large, large, large] };
const times = (count: number, fields: object) => Array.from({ length: count }, () => fields);
/** Requests with constraints, by the name of their kind. */
const KINDS: Readonly<Record<string, readonly object[]>> = {
  [`${count} schemas`]: fc.sample(schemas, { numRuns: count, seed: 7 }).map(format),
  "20 schemas of 250 KB": times(20, format(large)),
  "20 times 10,000 tools": times(20, { tools, tool_choice: "required" }),
  "4 schemas of a megabyte": times(4, format(megabyte)),
  "4 enumerations of 10,000": times(4, format({ enum: tools.map((_, i) => `value ${i}`) })),
  "4 tools with a megabyte of parameters": times(4, { tools: [tool("f", megabyte)], tool_choice: "required" }),
  "choices, expressions and grammars of 240 KB": [
    { choice: tools.map((_, i) => `one of many choices ${i}`) },
    { regex: "a?".repeat(120_000) },
    { grammar: `root ::= ${'"a" '.repeat(60_000)}` },
  ].map((structured_outputs) => ({ structured_outputs })),
  "blow-ups": blowUps.map(format),
  "500,000 times one character": [...'<{[\\"\n1'].map((character) => ({
    messages: [{ role: "user", content: character.repeat(500_000) }],
  })),
};
/** Returns requests with the same JSON in a field that the server does not read. */
const carried = (constrained: readonly object[]) => constrained.map((metadata) => ({ metadata }));

const TRIES = 5;

/**
 * Returns the time, in milliseconds, of the longest piece of reading and checking a request on the loop's thread. Short bodies
 * are one piece. Each piece counts with the best of `TRIES`, because the machine disturbs a different piece each time.
 */
function reading(fields: object): number {
  const body = new TextEncoder().encode(JSON.stringify({ ...asked, ...fields }));
  const best: number[] = [];
  for (let i = 0; i < TRIES; i++)
    for (const [at, ms] of (isLarge(body) ? inPieces(body) : [atOnce(body)]).entries())
      best[at] = Math.min(best[at] ?? Number.POSITIVE_INFINITY, ms);
  return best.reduce((longest, ms) => Math.max(longest, ms), 0);
}

function atOnce(body: Uint8Array): number {
  const from = Bun.nanoseconds();
  const read = readChat(body, "application/json", LIMITS);
  const ms = (Bun.nanoseconds() - from) / 1e6;
  if ("error" in read) throw new Error(read.error.body);
  return ms;
}

function inPieces(body: Uint8Array): number[] {
  const work = chatPieces(body, "application/json", LIMITS);
  for (const took: number[] = []; ; ) {
    const from = Bun.nanoseconds();
    const { done, value } = work.next();
    took.push((Bun.nanoseconds() - from) / 1e6);
    if (!done) continue;
    if ("error" in value) throw new Error(value.error.body);
    return took;
  }
}

/** A kind, with the constraint and without, or the difference to it, in milliseconds. */
type Row = readonly [name: string, constrainedMs: number, otherMs: number];

/** Returns a row per kind: the longest piece of reading with the constraint, and the largest difference without it. */
function readings(): Row[] {
  return Object.entries(KINDS).map(([name, constrained]) => {
    const others = carried(constrained).map(reading);
    const ms = constrained.map(reading);
    return [name, Math.max(...ms), Math.max(...ms.map((each, i) => each - others[i]!))];
  });
}

const { plain, schema, events } = await cpu();
const ratio = medianRatio(schema, plain);
table(`CPU time of the server, ${requests} streams of ${Math.round(events)} events per round`, [
  ["", "us per event"],
  ["plain text", median(plain)],
  ["with a schema", median(schema)],
]);
bars(["CPU time per event with a schema ÷ with plain text", ratio, CPU_BAR, "times"]);
const delays = readings();
table("reading a request on the loop's thread, longest piece, ms", [
  ["", "with the constraint", "minus without"],
  ...delays,
]);
for (const [name, , beyond] of delays) bars([`delay by ${name}`, beyond, HOLD_BAR_MS, "ms"]);
save("structured", { timing, requests, events, plain, schema, ratio, readings: delays });
