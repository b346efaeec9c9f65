/**
 * Tests random JSON anywhere in a server's answers: each request ends as a failure with a reason or as a good answer, and
 * never with an error of our own. Also tests that control characters of a server never reach the terminal.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { WallClock } from "../../../src/base/clock.ts";
import { generates, LOAD_DIALECTS, type LoadDialect } from "../../../src/tools/load/requests/dialects.ts";
import { NoMeasurementError, ServerQueries } from "../../../src/tools/load/server.ts";
import { TraceError } from "../../../src/workloads/trace.ts";
import { main } from "../../program.ts";
import { times } from "../../size.ts";
import { loadOn, SETTINGS } from "./loaded.ts";
import { bytesOf, read } from "./played.ts";
import { rawServer } from "./raw-server.ts";

setDefaultTimeout(60_000);
const HEAD = "HTTP/1.1 200 OK\r\n\r\n";
const DIALECTS = LOAD_DIALECTS.filter((dialect) => dialect !== "triton-grpc");

/** Values that break careless code: objects in place of primitives, lists, null, huge numbers. */
const junk = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(
    null,
    [],
    {},
    [null],
    { toString: 1, valueOf: 1 },
    [[]],
    "",
    0,
    -1,
    1e308,
    2 ** 53,
    true,
    "\u001b[2J",
  ),
);
const NAMES = [
  ...["choices", "delta", "content", "text", "finish_reason", "usage", "completion_tokens", "prompt_tokens", "error"],
  ...[
    "prompt_tokens_details",
    "cached_tokens",
    "message",
    "role",
    "tool_calls",
    "text_output",
    "outputs",
    "data",
    "name",
  ],
  ...["type", "response", "status", "output", "item", "incomplete_details", "reason", "input_tokens", "output_tokens"],
  ...["input_tokens_details", "content_block", "stop_reason", "partial_json", "thinking", "embedding", "object"],
];
/** Event types. Random values as members of such an event reach the code that handles it. */
const TYPES = [
  ...["response.output_text.delta", "response.output_item.added", "response.completed", "response.incomplete"],
  ...[
    "response.failed",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message_stop",
  ],
];
/** JSON with known member names and random values. */
const { json } = fc.letrec((tie) => ({
  json: fc.oneof({ maxDepth: 4 }, junk, fc.array(tie("json"), { maxLength: 3 }), tie("fields")),
  fields: fc
    .tuple(fc.dictionary(fc.constantFrom(...NAMES), tie("json"), { maxKeys: 5 }), fc.option(fc.constantFrom(...TYPES)))
    .map(([fields, type]) => (type === null ? fields : { ...fields, type })),
}));

function ends(text: string, dialect: LoadDialect, stream: boolean, keepText: boolean): void {
  const { exchange, ended } = read([[1, bytesOf(text)]], {
    dialect,
    stream,
    keepText,
    closes: true,
  });
  expect(ended).toBe(true);
  const { failure } = exchange.answer;
  expect(failure?.message ?? "").not.toContain("cannot be read");
  expect(failure === null || failure.message.length > 0).toBe(true);
  expect(typeof exchange.answer.text).toBe("string");
}

test("random JSON as an event, an answer and an error, in each dialect", () => {
  const dialect = fc.constantFrom(...DIALECTS);
  fc.assert(
    fc.property(fc.array(json, { maxLength: 4 }), dialect, fc.boolean(), (values, dialect, keepText) => {
      const events = values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join("");
      ends(`${HEAD}${events}data: [DONE]\n\n`, dialect, true, keepText);
      const [value = null] = values;
      ends(`${HEAD}${JSON.stringify(value)}`, dialect, false, keepText);
      ends(`HTTP/1.1 500 No\r\n\r\n${JSON.stringify(value)}`, dialect, true, keepText);
    }),
    { numRuns: times(3000) },
  );
});

test.each([
  '{"choices":[null]}',
  '{"choices":[5]}',
  '{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":{"valueOf":1,"toString":1}}}',
  '{"error":{"message":{"toString":1}}}',
])("after %s and the end in one read, the request has failed and the run ends", async (event) => {
  const server = rawServer((_, wire) => {
    wire.send(`${HEAD}data: ${event}\n\n`);
    wire.end();
  });
  const { result, records } = await loadOn(server, { count: 3, timeoutS: 5 });
  expect(records.every(({ failure }) => failure !== null && failure.kind !== "timeout")).toBe(true);
  expect(result).toMatchObject({ completed: 0, failed: 3 });
  server.stop();
});

/** Answers every path with one JSON value, also as an event. */
function answersWith(value: unknown): ReturnType<typeof Bun.serve> {
  const text = JSON.stringify(value);
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      const isStream = /completions|responses|messages|generate_stream/.test(request.url);
      return new Response(isStream ? `data: ${text}\n\n` : text, { headers: { "content-type": "text/event-stream" } });
    },
  });
}

test("random JSON from each path that load calls: it ends with a result or a sentence", async () => {
  const value = fc.oneof(
    json,
    json.map((data) => ({ data, count: data, input: data, next: "a", keeps: 1, more: true })),
    fc.record({ id: junk, name: junk, data_type: junk, dims: junk, count: junk }).map((item) => ({
      ...{ data: [item, { id: "m" }], input: [item], count: item.count },
    })),
  );
  await fc.assert(
    fc.asyncProperty(value, fc.constantFrom(...DIALECTS), fc.boolean(), async (value, dialect, withTruth) => {
      const server = answersWith(value);
      const clock = new WallClock();
      try {
        const truth = withTruth ? { log: null } : null;
        const dataset = generates(dialect) ? SETTINGS.dataset : { name: "random" as const, inputLen: 4 };
        const more = { count: 1, dialect, dataset, timeoutS: 5, metricsUrl: `${server.url}metrics`, truth };
        const talk = new ServerQueries(server.url.origin, { headers: {}, tls: { rejectUnauthorized: true } }, clock);
        expect(typeof (await talk.model(dialect, null))).toBe("string");
        await loadOn({ url: server.url.origin, asked: [], connections: () => 0, stop() {} }, more);
      } catch (failure) {
        expect(failure instanceof TraceError || failure instanceof NoMeasurementError, String(failure)).toBe(true);
      } finally {
        clock.close();
        await server.stop(true);
      }
    }),
    { numRuns: times(150) },
  );
});

const EVIL = "\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u202egnirts\u200b\u2028\ud83d";
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}](?<!\n)/u;

async function shown(...argv: string[]): Promise<string> {
  const child = Bun.spawn([process.execPath, main, ...argv], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return out + err;
}

test("load and check escape control characters of a server in tables, errors and JSON", async () => {
  const label = EVIL.replace(/["\\\n]/g, "");
  const page = `# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="${label}"} -1\nvllm:${label} 1\n`;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/metrics") return new Response(page, { headers: { "content-type": "text/plain" } });
      if (pathname === "/v1/models") return Response.json({ data: [{ id: EVIL }, { id: `m${EVIL.slice(0, -1)}` }] });
      if (pathname === "/v2/models/evil/config") return new Response(EVIL, { status: 500 });
      return new Response(EVIL, { status: 400, headers: { "retry-after": "\u009b31m" } });
    },
  });
  const url = server.url.origin;
  const folder = mkdtempSync(join(tmpdir(), "understudy-evil-"));
  const files = ["load.json", "check.json", "check.xml"].map((name) => join(folder, name));
  const [saved = "", checked = "", junit = ""] = files;
  const load = ["load", "--url", url, "--num-prompts", "1", "--input-len", "4", "--json", saved];
  const texts = [
    await shown(...load),
    await shown(...load, "--model", "x"),
    await shown(...load, "--model", "evil", "--backend", "triton-http"),
    await shown("check", `${url}/metrics`, "--all", "--json", checked, "--junit", junit),
    await shown("check", `${url}/v1/models`),
    ...files.map((path) => readFileSync(path, "utf8")),
  ];
  rmSync(folder, { recursive: true });
  await server.stop(true);
  for (const text of texts) expect(UNSAFE.exec(text)?.[0], text).toBeUndefined();
  expect(texts[0]).toContain("\\x1b[2J");
  expect(texts[3]).toContain("\\x9b31m");
});

test("an unknown command is printed with its control characters escaped", () => {
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, "\u001b[2Jload\u202e"]);
  expect(exitCode).toBe(2);
  expect(stderr.toString()).toContain(String.raw`"\x1b[2Jload\u202e" is no command`);
});
