/** Checks what is counted of disturbed answers, and their lines in the truth log. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FaultLine, RequestLine, WireLine } from "../../src/truth/schema.ts";
import { posted } from "../conformance/raw-socket.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";
import { readWire } from "./wire.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-faults-"));
const log = join(folder, "truth.jsonl");
let server: HostedServer;
beforeAll(async () => {
  const flags = "--timing constant:ttft=5ms,itl=5ms --served-model-name m --allow-request-orders all";
  server = await hosted([...flags.split(" "), "--truth-log", log, "--truth-wire"]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

const ask = (key: string, fault: string) => {
  const body = { model: "m", prompt: "x", stream: true, max_tokens: 40, ignore_eos: true, understudy: { fault } };
  const lines = [`X-Request-Id: ${key}`, "Connection: close"];
  return readWire(Number(new URL(server.url).port), posted("/v1/completions", body, lines));
};
const outcome = (name: string) => sample(server.url, `understudy_requests_total{outcome="${name}"}`);

/** Effect of each fault on the requests' counts, and on the number of tokens that the engine generates. */
test.each([
  ["E7@e3,after=0us", "abort", "rst"],
  ["E6@e3+20", "abort", "fin"],
  ["J2@e3", "abort", "fin"],
  ["J1@e3", "error", "fin"],
  ["H8@e3", "length", "fin"],
  ["B6,bytes=50", "length", "fin"],
  ["A1", "refused", "fin"],
])("%s counts as %s", async (fault, counted, end) => {
  const before = await outcome(counted);
  const seen = await ask(`counted ${fault}`, fault);
  expect(seen.end).toBe(end as "fin");
  await eventually(async () => (await outcome(counted)) === before + 1);
  await eventually(async () => (await sample(server.url, "vllm:num_requests_running")) === 0);
  expect(await sample(server.url, "understudy_held_bytes")).toBe(0);
  const id = /^[A-Z]\d+/.exec(fault)![0];
  expect(await sample(server.url, `understudy_faults_total{fault="${id}"}`)).toBeGreaterThanOrEqual(1);
});

test("an answer that is built in parts is disturbed like any other", async () => {
  const order = { fault: "E6@b100000" };
  const body = { model: "m", prompt: "long ".repeat(60_000), echo: true, max_tokens: 1, understudy: order };
  const { bytes, end } = await readWire(Number(new URL(server.url).port), posted("/v1/completions", body));
  const head = bytes.indexOf("\r\n\r\n") + 4;
  expect(Number(/content-length: (\d+)/.exec(bytes.toString("latin1", 0, head))![1])).toBeGreaterThan(100_000);
  expect([bytes.length - head, end]).toEqual([100_000, "fin"]);
});

test("the truth log has a line per disturbed answer: plan, operations in order, counts of events; a cut answer generates few tokens", async () => {
  const plan = "T1@e2,for=50ms;E7@e4+10,after=0us;S4@e50";
  const seen = await ask("told", plan);
  await server.stop();
  const lines = readFileSync(log, "utf8").trim().split("\n");
  const rows = lines.map((line) => JSON.parse(line) as FaultLine | RequestLine | WireLine);
  const account = rows.find((row): row is FaultLine => row.type === "fault" && row.key === "told")!;
  expect(account.plan).toBe(`${plan}#seed=0,key=told`);
  expect(account.end).toBe("rst");
  const sent = account.operations.filter(([, kind]) => kind === "bytes");
  expect(sent.reduce((sum, [, , , length]) => sum + length, 0)).toBeGreaterThanOrEqual(seen.bytes.length);
  expect(sent.map(([, , offset]) => offset)).toEqual(
    sent.map((_, at) => sent.slice(0, at).reduce((sum, row) => sum + row[3], 0)),
  );
  const wire = rows.filter((row): row is WireLine => row.type === "wire" && row.key === "told");
  const left = Buffer.concat(wire.map(({ base64 }) => Buffer.from(base64, "base64")));
  expect(left.subarray(0, seen.bytes.length).equals(seen.bytes)).toBe(true);
  expect(left.length).toBe(sent.reduce((sum, [, , , length]) => sum + length, 0));
  const times = account.operations.map(([us]) => us);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  const [waited] = account.operations.filter(([, kind]) => kind === "wait");
  const next = account.operations[account.operations.indexOf(waited!) + 1]!;
  expect(waited![3]).toBe(50_000);
  expect(next[0] - waited![0]).toBeGreaterThanOrEqual(50_000);
  const { came, dropped, whole, cut } = account.events;
  expect(dropped + whole + cut).toBe(came);
  expect(account.acted.map(([, times]) => times)).toEqual([1, 1, 0]);
  const request = rows.find((row): row is RequestLine => row.type === "request" && row.requestId === "told")!;
  expect(request.reason).toBe("abort");
  // The engine continued while the answer paused.
  expect(request.outputTokens).toBeLessThan(40);
});
