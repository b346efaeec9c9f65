/** Do the plans of docs/faults.md disturb a Triton server's answers, over HTTP and in calls of gRPC, and what is counted then? */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FAULT_ROWS } from "../../src/faults/table.ts";
import { posted } from "../conformance/raw-socket.ts";
import { plansOf } from "../faults/cases.ts";
import { bytesOf, cleanAnswer, difference, predicted, readWire } from "../faults/wire.ts";
import { sampled } from "../size.ts";
import { startTriton, type TritonChild } from "./child.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "triton-faults-"));
const truth = join(folder, "truth.jsonl");
let server: TritonChild;
beforeAll(async () => {
  const own = new URL("models", import.meta.url).pathname;
  for (const name of ["tokens", "plain"]) cpSync(join(own, name), join(folder, "models", name), { recursive: true });
  server = await startTriton([
    `--model-repository=${join(folder, "models")}`,
    "--allow-request-orders=all",
    `--truth-log=${truth}`,
  ]);
});
afterAll(async () => {
  await server.stop("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const TEXT = "Grüße, 🦔 and 👩‍👩‍👧 again and → now";
const order = (plan: string) => `X-Understudy: ${JSON.stringify({ fault: plan })}`;
const STREAM = "/v2/models/tokens/generate_stream";

function ask(plan: string | null, key: string, enough?: number) {
  const port = Number(new URL(server.url).port);
  const headers = [`X-Request-Id: ${key}`, ...(plan === null ? ["Connection: close"] : [order(plan)])];
  return readWire(port, posted(STREAM, { text_input: TEXT }, headers), enough);
}

/** Streams of Triton have no last event of their own: what acts there alone is void. */
const shown = [...FAULT_ROWS.values()].filter(
  ({ stage, http, dialects, position, excludes }) =>
    stage !== "client" &&
    stage !== "instead" &&
    http === "any" &&
    dialects.includes("generate") &&
    (position !== "done" || stage === "end") &&
    excludes !== "content coding",
);
const plans = sampled("triton", shown.flatMap(plansOf), 6).filter((plan) => !/accept|^H8.*50|^H9.*30|clock/.test(plan));

test.each(plans)("generate_stream, %s: the bytes that the pipeline makes of the clean answer", async (plan) => {
  const key = `key-${Bun.hash(plan)}`;
  const { head, ...more } = cleanAnswer((await ask(null, key)).bytes);
  const clean = { ...more, head: head.replace("Connection: close\r\n", "") };
  const operations = predicted(clean, plan, key);
  const end = operations.at(-1)!;
  const stays = end.kind === "end" && end.how === "done";
  const faulty = await ask(plan, key, stays ? bytesOf(operations).length : undefined);
  expect(difference(faulty.bytes, bytesOf(operations))).toBeNull();
  expect(faulty.end).toBe(stays ? "open" : end.kind === "end" ? (end.how as "fin" | "rst") : "open");
});

const sent = (path: string, plan: string, body: object) => {
  const headers = { "X-Understudy": JSON.stringify({ fault: plan }) };
  return fetch(`${server.url}/v2/models/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
};
const INPUTS = [{ name: "text_input", shape: [1], datatype: "BYTES", data: ["hi"] }];

test("answers in place of the server's, in Triton's form; orders that are refused", async () => {
  const busy = await sent("plain/infer", "A1", { inputs: INPUTS });
  expect([busy.status, busy.headers.get("retry-after"), await busy.text()]).toEqual([
    429,
    "1",
    '{"error":"Too Many Requests"}',
  ]);
  const text = await sent("plain/generate", "A2,503,body=text", { text_input: "x" });
  expect([text.status, text.headers.get("content-type"), await text.text()]).toEqual([
    503,
    "text/plain; charset=utf-8",
    "Service Unavailable\n",
  ]);
  const wrong = await sent("plain/generate", "Z1", { text_input: "x" });
  expect([wrong.status, await wrong.json()]).toEqual([
    400,
    { error: 'understudy: fault plan, character 1: "Z1" is no fault; B1 to C3 of docs/faults.md are taken' },
  ]);
  const headers = { "X-Understudy": '{"echo":true}' };
  const echo = await fetch(`${server.url}/v2/models/plain/generate`, { method: "POST", headers, body: "{}" });
  expect([echo.status, await echo.json()]).toEqual([
    400,
    { error: 'understudy: a Triton server takes orders of "fault" alone' },
  ]);
});

test("a fault that acted is counted, and the truth log has its line; a cut is a client that left", async () => {
  const count = async (fault: string) => {
    const page = await (await fetch(`${server.metrics}/metrics`)).text();
    return Number(new RegExp(`^understudy_faults_total{fault="${fault}"} (\\d+)$`, "m").exec(page)?.[1] ?? 0);
  };
  const before = await count("E6");
  await ask("E6@e2+9", "cut");
  expect(await count("E6")).toBe(before + 1);
  await server.stop();
  const lines = readFileSync(truth, "utf8")
    .split("\n")
    .filter((line) => line.includes('"type":"fault"'))
    .map((line) => JSON.parse(line));
  const line = lines.find(({ key }) => key === "cut");
  expect(line).toMatchObject({ plan: "E6@e2+9#seed=0,key=cut", end: "fin", acted: [["E6@e2+9", 1]] });
  expect(line.events).toMatchObject({ dropped: 0, whole: 2 });
});
