/** Compares the bytes of each fault on the wire with the pipeline's result, and checks that nothing is left behind. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import net from "node:net";
import { parsePlan } from "../../src/faults/parse.ts";
import { posted } from "../conformance/raw-socket.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";
import { figure, sampled } from "../size.ts";
import { ASKED, type FaultCase, faultCases } from "./cases.ts";
import {
  accountOf,
  atSecondOf,
  bytesOf,
  cleanAnswer,
  difference,
  predicted,
  type ReceivedAnswer,
  readWire,
} from "./wire.ts";

setDefaultTimeout(60_000);

let server: HostedServer;
let port: number;
beforeAll(async () => {
  const flags = "--timing none --served-model-name m --allow-request-orders all --disable-uvicorn-access-log";
  server = await hosted([...flags.split(" "), "--tool-call-parser", "hermes", "--enable-auto-tool-choice"]);
  port = Number(new URL(server.url).port);
});
afterAll(() => server.stop());

function ask({ asked, streams }: FaultCase, key: string, fault?: string, enough?: number): Promise<ReceivedAnswer> {
  const { path, body, order } = ASKED[asked]!;
  const understudy = { ...order, ...(fault === undefined ? {} : { fault }) };
  const whole = { model: "m", stream: streams, ...body, understudy };
  const closes = fault === undefined ? ["Connection: close"] : [];
  return readWire(port, posted(path, whole, [`X-Request-Id: ${key}`, ...closes]), enough);
}

const dateOf = ({ bytes }: ReceivedAnswer) => /^date: .*$/m.exec(bytes.toString("latin1"))?.[0];

const cases = sampled("faults", faultCases(), 80);

test.each(cases.map((testCase) => [`${testCase.asked} ${testCase.plan}`, testCase] as const))(
  "%s",
  async (name, testCase) => {
    const key = `key-${Bun.hash(name)}`;
    const { row } = parsePlan(testCase.plan).faults[0]!;
    if (row.id === "A3") return expectBusyOnly(testCase, key);
    if (row.stage === "instead" || /^H8.*50|^H9.*30/.test(testCase.plan)) {
      const { bytes } = await ask(testCase, key, testCase.plan, 1);
      expect(bytes.toString()).toMatch(/^HTTP\/1\.1 [345]\d\d /);
      expect(bytes.toString()).toContain("x-understudy-fault: ");
      return;
    }
    let clean = await ask(testCase, key);
    if (testCase.plan.includes("accept")) return expectRefusal(testCase, key);
    const operations = (bytes: Buffer) => predicted(cleanAnswer(bytes), testCase.plan, key);
    const end = operations(clean.bytes).at(-1)!;
    const stays = end.kind === "end" && end.how === "done";
    const enough = stays ? bytesOf(operations(atSecondOf(clean.bytes, clean.bytes))).length : undefined;
    let faulty = await ask(testCase, key, testCase.plan, enough);
    // The second is part of the encoded body and cannot be replaced, so both answers are requested in the same second.
    for (let tries = 0; row.id === "H6" && tries < 20 && dateOf(clean) !== dateOf(faulty); tries++) {
      clean = await ask(testCase, key);
      faulty = await ask(testCase, key, testCase.plan, enough);
    }
    expect(difference(faulty.bytes, bytesOf(operations(atSecondOf(clean.bytes, faulty.bytes))))).toBeNull();
    expect(accountOf(cleanAnswer(clean.bytes), testCase.plan, key).fired[0]!.times).toBeGreaterThan(0);
    expect(faulty.end).toBe(end.kind === "end" && !stays ? (end.how as "fin" | "rst") : "open");
  },
);

/** Expects a connection to be closed when it opens. */
async function expectRefusal(testCase: FaultCase, key: string): Promise<void> {
  await ask(testCase, key, testCase.plan, 1);
  // RST if the request had already arrived.
  const { bytes, end } = await ask(testCase, key);
  expect([bytes.length, end === "open"]).toEqual([0, false]);
}

/** Expects status 429 only while another request is served. */
async function expectBusyOnly(testCase: FaultCase, key: string): Promise<void> {
  const status = async () => (await ask(testCase, key, "A3,open=1", 1)).bytes.toString().slice(9, 12);
  const script = { sequences: [{ steps: [[13225], [13225]] }], hold_after: 1, release_after_s: 1 };
  const held = { model: "m", prompt: "x", stream: true, understudy: { script } };
  const other = readWire(port, posted("/v1/completions", held, ["Connection: close"]));
  await eventually(async () => (await sample(server.url, "understudy_streams_open")) > 0);
  expect(await status()).toBe("429");
  await other;
  await eventually(async () => (await status()) === "200");
}

test("A5 fails the first attempts of a request, and then counts from the start again", async () => {
  const testCase = { plan: "A5,2,503", id: "A5", asked: "chat", streams: true } as const;
  const statuses: string[] = [];
  for (let i = 0; i < 6; i++)
    statuses.push((await ask(testCase, "attempts", testCase.plan, 1)).bytes.toString().slice(9, 12));
  expect(statuses).toEqual(["503", "503", "200", "503", "503", "200"]);
});

test.each(["fin", "rst"])("E9 ends the connection with %s when its next request arrives", async (how) => {
  const order = { model: "m", stream: true, messages: [{ role: "user", content: "x" }] };
  const first = posted("/v1/chat/completions", { ...order, understudy: { script: "a", fault: `E9,${how}` } });
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = net.connect({ port, host: "127.0.0.1" });
  let text = "";
  socket.on("data", (data) => {
    text += data.toString();
    if (text.includes("[DONE]") && text.endsWith("\r\n0\r\n\r\n")) socket.write(first);
  });
  socket.on("end", () => resolve("fin"));
  socket.on("error", () => resolve("rst"));
  socket.on("connect", () => socket.write(first));
  expect(await promise).toBe(how);
  expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
});

test("without permission a request cannot order faults that affect others, and a wrong plan is 400 with the position of the error", async () => {
  const server = await hosted(["--timing", "none", "--served-model-name", "m"]);
  const status = async (fault: string) => {
    const body = JSON.stringify({ model: "m", prompt: "x", max_tokens: 2, understudy: { fault } });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body });
    return [response.status, await response.text()] as const;
  };
  expect((await status("E9"))[0]).toBe(403);
  expect((await status("B1"))[0]).toBe(200);
  const [code, text] = await status("B1;J1@foo");
  expect([code, text.includes("fault plan, character 7")]).toEqual([400, true]);
  await server.stop();
});

test("nothing is left behind: no generation and no waiting bytes", async () => {
  for (const name of ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"])
    expect([name, await sample(server.url, name)]).toEqual([name, 0]);
  expect(await sample(server.url, "understudy_faults_total")).toBeGreaterThan(0);
  figure("cases", cases.length);
});
