/** Plays the acts of clients (C1 to C3, T6) and checks the server's behaviour. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { posted, RawSocket, WAYS, type Way } from "../conformance/raw-socket.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample } from "../server.ts";
import { drawn, figure, seed, sized } from "../size.ts";

setDefaultTimeout(60_000);

/** Far more tokens than any of these clients waits for. */
const TOKENS = 400;

let server: HostedServer;
let port: number;
beforeAll(async () => {
  const flags = "--timing constant:ttft=5ms,itl=2ms --served-model-name m --enable-request-id-headers";
  server = await hosted([...flags.split(" "), "--disable-uvicorn-access-log"]);
  port = Number(new URL(server.url).port);
});
afterAll(() => server.stop());

const outcome = (name: string) => sample(server.url, `understudy_requests_total{outcome="${name}"}`);

/** Waits until everything that an answer allocates is free again. */
async function expectRest(): Promise<void> {
  const gauges = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];
  for (const name of [...gauges, "understudy_requests_open", "understudy_streams_open", "understudy_held_bytes"])
    await eventually(async () => (await sample(server.url, name)) === 0);
}

const messages = [{ role: "user", content: "x" }];
const ASKED: Readonly<Record<string, readonly [path: string, body: object]>> = {
  chat: ["/v1/chat/completions", { messages, max_tokens: TOKENS, ignore_eos: true }],
  completions: ["/v1/completions", { prompt: "x", max_tokens: TOKENS, ignore_eos: true }],
  messages: ["/v1/messages", { messages, max_tokens: TOKENS }],
  responses: ["/v1/responses", { input: "x", max_output_tokens: TOKENS }],
};
const eventsIn = (text: string) => text.match(/^data: /gm)?.length ?? 0;

interface LeaveCase {
  readonly asked: string;
  /** Number of events to wait for. */
  readonly after: number;
  readonly streams: boolean;
  readonly way: Way;
}

const leavings: LeaveCase[] = Object.keys(ASKED).flatMap((asked) =>
  WAYS.flatMap((way) => [
    ...[1, 3, 20].map((after) => ({ asked, after, way, streams: true })),
    { asked, after: 0, way, streams: true },
    { asked, after: 0, way, streams: false },
  ]),
);

const chosen = sized("faults", { sample: drawn(leavings, 8, seed), whole: leavings });
test.each(
  chosen.map(
    (testCase) =>
      [
        `${testCase.asked}, ${testCase.streams ? "a stream" : "whole"}`,
        testCase.after,
        testCase.way,
        testCase,
      ] as const,
  ),
)(
  "C1, C2: the client of %s leaves after %d events by %s: an abort, and all is free",
  async (_, after, way, { asked, streams }) => {
    const [path, body] = ASKED[asked]!;
    const before = await outcome("abort");
    const order = { script: "and on it goes ".repeat(300) };
    const client = await RawSocket.connect(port);
    client.write(posted(path, { model: "m", stream: streams, ...body, understudy: order }));
    if (after > 0) await eventually(() => eventsIn(client.text) >= after);
    else await eventually(async () => (await sample(server.url, "vllm:num_requests_running")) === 1);
    client.leave(way);
    // A client that sends FIN counts as disconnected, as in uvicorn: the answer is not completed, even if the client
    // would still read.
    await eventually(async () => (await outcome("abort")) === before + 1);
    await expectRest();
    expect(client.text.includes("[DONE]")).toBe(false);
    if (way === "half") await eventually(() => client.closed);
    client.destroy();
  },
);

/** Sends the text in small parts, as a network may deliver it. */
async function writeInParts(client: RawSocket, text: string): Promise<void> {
  for (let at = 0, n = 0; at < text.length; n++) {
    const length =
      1 + (Bun.hash.wyhash(`${n}`, BigInt(seed)) % 700n === 0n ? 1 : Number(Bun.hash.wyhash(`${n}`) % 700n));
    client.write(text.slice(at, at + length));
    at += length;
    if (n % 5 === 0) await Bun.sleep(1);
  }
}

test("C3: answers to pipelined requests are complete and in order, even if some are disturbed", async () => {
  const count = sized("faults", { sample: 40, whole: 400 });
  const plans = ["", "B4", "S4", "", "H4", "S3;B1", ""];
  const client = await RawSocket.connect(port);
  const requests = Array.from({ length: count }, (_, at) => {
    const fault = plans[at % plans.length]!;
    const order = { script: `answer ${at} said`, ...(fault === "" ? {} : { fault }) };
    const [path, body] = ASKED[at % 2 === 0 ? "chat" : "completions"]!;
    const asked = { model: "m", stream: at % 3 !== 0, ...body, ignore_eos: false, understudy: order };
    return posted(path, asked, [`X-Request-Id: ahead-${at}`]);
  });
  await writeInParts(client, requests.join(""));
  await eventually(() => client.text.includes(`x-request-id: ahead-${count - 1}\r\n`), 4000);
  await eventually(async () => (await sample(server.url, "understudy_requests_open")) === 0);
  await Bun.sleep(100);
  const answers = client.text.split(/(?=HTTP\/1\.1 200 OK)/);
  expect(answers.map((answer) => /x-request-id: (\S+)/.exec(answer)?.[1])).toEqual(
    requests.map((_, at) => `ahead-${at}`),
  );
  const parts = answers.map((answer) =>
    [...answer.matchAll(/"(?:content|text)": ?"([^"]*)"/g)].map(([, text]) => text).join(""),
  );
  expect(parts).toEqual(requests.map((_, at) => `answer ${at} said`));
  client.destroy();
  await expectRest();
});

test("T6: clients that do not read hold a bounded number of bytes, others are served, and all get their whole answers in the end", async () => {
  const slow = sized("faults", { sample: 6, whole: 40 });
  const stalled = await hosted(["--timing", "none", "--served-model-name", "m", "--disable-uvicorn-access-log"]);
  const stalledPort = Number(new URL(stalled.url).port);
  const clients = await Promise.all(
    Array.from({ length: slow }, () => RawSocket.connect(stalledPort, { paused: true })),
  );
  for (const [at, client] of clients.entries()) {
    const order = at % 2 === 0 ? {} : { understudy: { fault: "S12@*,8KB;B4" } };
    const body = { model: "m", prompt: "x", max_tokens: 12_000, ignore_eos: true, stream: true, ...order };
    client.write(posted("/v1/completions", body, ["Connection: close"]));
  }
  await eventually(async () => (await sample(stalled.url, "understudy_streams_open")) > 0);
  for (let i = 0; i < 20; i++) {
    const body = JSON.stringify({ model: "m", prompt: "x", max_tokens: 5 });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${stalled.url}/v1/completions`, { method: "POST", headers, body });
    expect(answer.status).toBe(200);
    await answer.text();
  }
  const held = await sample(stalled.url, "understudy_held_bytes");
  expect(held).toBeGreaterThan(0);
  // Each client may hold the bytes that wait before its sender is paused, and the event that exceeded the limit.
  expect(held).toBeLessThan(slow * 5 * 2 ** 20);
  for (const client of clients) client.resume();
  await eventually(() => clients.every(({ text }) => text.endsWith("0\r\n\r\n")), 3000);
  expect(clients.map(({ text }) => text.match(/"finish_reason":"length"/g)?.length)).toEqual(clients.map(() => 1));
  await eventually(async () => (await sample(stalled.url, "understudy_held_bytes")) === 0);
  await stalled.stop();
  figure("slowReaders", slow);
});
