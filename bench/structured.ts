/**
 * Measures how much constrained answers cost, and how long they delay other requests:
 *
 * - CPU time per streamed token with a schema and with plain text, in turn.
 * - Time on the loop's thread to read a request with a schema, minus that of a request whose schema is in an unused field.
 * - The longest gap in other streams during such requests. On a busy machine this mostly measures the machine.
 *
 *   bun run bench structured [--rounds 7] [--requests 640] [--schemas 500] [--timing none] [--no-save]
 */
import fc from "fast-check";
import { isLarge } from "../src/base/pieces.ts";
import { chatPieces, readChat } from "../src/servers/vllm/openai/read.ts";
import { LIMITS } from "../test/limits.ts";
import { schemas } from "../test/text/grammar/schemas.ts";
import { median } from "./lib/numbers.ts";
import { number, rejectUnknown, text } from "./lib/options.ts";
import { cpuOf, type RunningServer, SERVER_CORE, serverCommand, start } from "./lib/process.ts";
import { read } from "./lib/reader.ts";
import { bar, progress, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";

rejectUnknown(["--rounds", "--requests", "--schemas", "--timing", "--no-save"]);

const CPU_BAR = 1.2;
const HOLD_BAR_MS = 5;
const CONNECTIONS = 64;
const WATCHED = 8;
const AT_A_TIME = 16;
const rounds = number("--rounds", 7);
const requests = number("--requests", 640);
const timing = text("--timing", "constant:ttft=5ms,itl=5ms");
const count = number("--schemas", 500);
const flags = ["--served-model-name", "m", "--disable-uvicorn-access-log"];
const PATH = "/v1/chat/completions";
const messages = [{ role: "user", content: "What is there to say?" }];
const format = (schema: unknown) => ({ type: "json_schema", json_schema: { name: "x", schema } });

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

/** Returns the CPU time of the server per event of a stream, in microseconds, and the number of events per answer. */
async function cost(
  { pid, port }: RunningServer,
  more: object,
): Promise<{ readonly us: number; readonly events: number }> {
  const body = { model: "m", messages, stream: true, ...more };
  const before = cpuOf(pid);
  const result = await read({ port, body, streams: CONNECTIONS, requests: requests / CONNECTIONS, path: PATH });
  if (result.completed !== requests || result.refused > 0) throw new Error(JSON.stringify(result));
  const after = cpuOf(pid);
  const us = after.userUs + after.systemUs - before.userUs - before.systemUs;
  return { us: us / result.events, events: result.events / requests };
}

async function cpu(): Promise<{ plain: number[]; schema: number[]; events: number }> {
  const server = await start(serverCommand([...flags, "--timing", timing]), { core: SERVER_CORE });
  const costs = { plain: [] as number[], schema: [] as number[] };
  let events = 0;
  try {
    for (let round = -1; round < rounds; round++) {
      progress(`structured: round ${round + 1} of ${rounds}`);
      const schema = await cost(server, { response_format: format(SCHEMA) });
      const plain = await cost(server, { max_tokens: Math.round(schema.events) - 3, ignore_eos: true });
      if (round < 0) continue; // warm-up
      costs.schema.push(schema.us);
      costs.plain.push(plain.us);
      events = schema.events;
    }
  } finally {
    await server.stop();
  }
  return { ...costs, events };
}

/** Returns the longest gap, in milliseconds, between two events of eight streams while requests with `fields` are answered. */
async function longestGap({ port }: RunningServer, fields: readonly object[]): Promise<number> {
  let over = false;
  const watching = (async () => {
    let worst = 0;
    while (!over) {
      const body = { model: "m", messages, stream: true, max_tokens: 300, ignore_eos: true };
      const { gapUs } = await read({ port, body, streams: WATCHED, requests: 1, path: PATH, gaps: true });
      worst = Math.max(worst, gapUs?.max ?? 0);
    }
    return worst / 1000;
  })();
  const unsent = [...fields];
  const ask = async () => {
    for (let some = unsent.pop(); some !== undefined; some = unsent.pop()) {
      const body = JSON.stringify({ model: "m", messages, max_tokens: 20, ...some });
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`http://127.0.0.1:${port}${PATH}`, { method: "POST", headers, body });
      await answer.text();
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, ask));
  over = true;
  return watching;
}

const large = {
  type: "object",
  properties: Object.fromEntries(
    Array.from({ length: 5000 }, (_, i) => [`property${i}`, { type: "string", maxLength: 20 }]),
  ),
  required: ["property1"],
};
const tools = Array.from({ length: 10_000 }, (_, i) => ({
  type: "function",
  function: { name: `f${i}`, parameters: { type: "object" } },
}));

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

/** Pairs of requests: one with the constraint, the other with the same JSON in a field that the server does not read. */
const KINDS: readonly (readonly [name: string, constrained: object[], carried: object[]])[] = [
  pair(
    `${count} schemas`,
    fc.sample(schemas, { numRuns: count, seed: 7 }).map((schema) => ({ response_format: format(schema) })),
  ),
  pair(
    "20 schemas of 250 KB",
    Array.from({ length: 20 }, () => ({ response_format: format(large) })),
  ),
  pair(
    "20 times 10,000 tools",
    Array.from({ length: 20 }, () => ({ tools, tool_choice: "required" })),
  ),
  pair(
    "4 schemas of a megabyte",
    Array.from({ length: 4 }, () => ({ response_format: format({ allOf: [large, large, large, large] }) })),
  ),
  pair(
    "4 enumerations of 10,000",
    Array.from({ length: 4 }, () => ({ response_format: format({ enum: tools.map((_, i) => `value ${i}`) }) })),
  ),
  pair(
    "4 tools with a megabyte of parameters",
    Array.from({ length: 4 }, () => ({
      tools: [{ type: "function", function: { name: "f", parameters: { allOf: [large, large, large, large] } } }],
      tool_choice: "required",
    })),
  ),
  pair(
    "choices, expressions and grammars of 240 KB",
    [
      { choice: tools.map((_, i) => `one of many choices ${i}`) },
      { regex: "a?".repeat(120_000) },
      { grammar: `root ::= ${'"a" '.repeat(60_000)}` },
    ].map((structured_outputs) => ({ structured_outputs })),
  ),
  pair(
    "blow-ups",
    blowUps.map((schema) => ({ response_format: format(schema) })),
  ),
  pair(
    "500,000 times one character",
    [...'<{[\\"\n1'].map((character) => ({ messages: [{ role: "user", content: character.repeat(500_000) }] })),
  ),
];

function pair(name: string, constrained: object[]): readonly [string, object[], object[]] {
  return [name, constrained, constrained.map((carried) => ({ metadata: carried }))];
}

const TRIES = 5;

/**
 * Returns the time, in milliseconds, of the longest piece of reading and checking a request on the loop's thread. Short bodies
 * are one piece. Each piece counts with the best of `TRIES`, because the machine disturbs a different piece each time.
 */
function reading(fields: object): number {
  const body = new TextEncoder().encode(JSON.stringify({ model: "m", messages, ...fields }));
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

/** Returns a row per kind: the longest piece of reading with the constraint, and the largest difference to the pair's other. */
function readings(): (readonly [string, number, number])[] {
  return KINDS.map(([name, constrained, carried]) => {
    const pairs = constrained.map((fields, i) => [reading(fields), reading(carried[i]!)] as const);
    return [
      name,
      Math.max(...pairs.map(([with_]) => with_)),
      Math.max(...pairs.map(([with_, without]) => with_ - without)),
    ];
  });
}

async function holds(): Promise<(readonly [string, number, number])[]> {
  const options = [...flags, "--timing", "constant:ttft=10ms,itl=5ms", "--tool-call-parser", "hermes"];
  const server = await start(serverCommand(options), { core: SERVER_CORE });
  try {
    const rows: (readonly [string, number, number])[] = [];
    for (const [name, constrained, carried] of KINDS) {
      progress(`structured: ${name}`);
      const gaps = { with: [] as number[], without: [] as number[] };
      for (let round = 0; round < 3; round++) {
        gaps.without.push(await longestGap(server, carried));
        gaps.with.push(await longestGap(server, constrained));
      }
      rows.push([name, median(gaps.with), median(gaps.without)]);
    }
    return rows;
  } finally {
    await server.stop();
  }
}

const { plain, schema, events } = await cpu();
const ratio = median(schema.map((us, i) => us / plain[i]!));
table(`CPU time of the server, ${requests} streams of ${Math.round(events)} events per round`, [
  ["", "us per event"],
  ["plain text", median(plain)],
  ["with a schema", median(schema)],
]);
console.log(`  ${bar("CPU time per event with a schema ÷ with plain text", ratio, CPU_BAR, "times")}`);
const read_ = readings();
table("reading a request on the loop's thread, longest piece, ms", [
  ["", "with the constraint", "minus without"],
  ...read_.map(([name, with_, beyond]) => [name, with_, beyond]),
]);
for (const [name, , beyond] of read_) console.log(`  ${bar(`delay by ${name}`, beyond, HOLD_BAR_MS, "ms")}`);
const gaps = await holds();
table("longest gap in eight streams of a token every 5 ms, ms", [
  ["during", "with the constraint", "without"],
  ...gaps.map(([name, with_, without]) => [name, with_, without]),
]);
save("structured", { timing, requests, events, plain, schema, ratio, readings: read_, gaps });
