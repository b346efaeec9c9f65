/** Checks that disturbed answers over HTTP/2 have the same content as over HTTP/1, and that the frames follow the pipeline. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import http2 from "node:http2";
import { parsePlan } from "../../src/faults/parse.ts";
import type { WireOperation } from "../../src/faults/plan/types.ts";
import { STREAM_CODES } from "../../src/faults/rows/row.ts";
import { headIn } from "../../src/faults/stages/heads.ts";
import { FrameType } from "../../src/wire/http2/frames.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { eventually, sample, serve } from "../server.ts";
import { figure, sampled } from "../size.ts";
import { frame, windowUpdate } from "../wire/http2/peer.ts";
import { WireClient } from "../wire/http2/wire-client.ts";
import { ASKED, type FaultCase, faultCases, SAID } from "./cases.ts";
import { accountOf, atSecondOf, type CleanAnswer, difference, predicted } from "./wire.ts";

setDefaultTimeout(60_000);

let server: HostedServer;
let url: string;
let port: number;
beforeAll(async () => {
  const flags = "--timing none --served-model-name m --allow-request-orders all --http2-port 0";
  server = await hosted([...flags.split(" "), "--tool-call-parser", "hermes", "--enable-auto-tool-choice"]);
  url = server.http2Url!;
  port = Number(new URL(url).port);
});
afterAll(() => server.stop());

/** An answer in frames, as a client received it. */
interface FramedAnswer {
  /** Heads with their fields as HTTP/1 writes them, and the body. */
  readonly head: string;
  readonly body: Buffer;
  readonly end: "done" | "fin" | "rst" | "reset";
  /** Error code of the stream's reset. */
  readonly code: number | undefined;
  /** Bytes of data before GOAWAY and the frame's fields; null without GOAWAY. */
  readonly goAway: readonly [bytes: number, last: number, code: number] | null;
}

async function ask(
  { asked, streams }: Pick<FaultCase, "asked" | "streams">,
  key: string,
  fault?: string,
): Promise<FramedAnswer> {
  const { path, body, order } = ASKED[asked]!;
  const client = await WireClient.connect(port);
  const understudy = { ...order, ...(fault === undefined ? {} : { fault }) };
  const id = client.post(path, { model: "m", stream: streams, ...body, understudy }, [["x-request-id", key]]);
  await client.until(() => client.isOver(id));
  const [reset] = client.of(id, FrameType.RstStream);
  const away = client.frames.findIndex(({ type }) => type === FrameType.GoAway);
  const before = client.frames.slice(0, away).filter((frame) => frame.type === FrameType.Data && frame.id === id);
  const head = client.of(id, FrameType.Headers).map((frame) => {
    const [[, status] = ["", ""], ...fields] = client.fields.get(frame) ?? [];
    return `HTTP/2 ${status}\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
  });
  const seen: FramedAnswer = {
    head: head.join(""),
    body: client.body(id),
    end: reset ? "reset" : client.end === "open" ? "done" : client.end,
    code: reset?.payload.readUInt32BE(0),
    goAway:
      away < 0
        ? null
        : [
            before.reduce((sum, { payload }) => sum + payload.length, 0),
            client.frames[away]!.payload.readUInt32BE(0),
            client.frames[away]!.payload.readUInt32BE(4),
          ],
  };
  client.leave();
  return seen;
}

/** Converts an answer to a clean answer for the pipeline. */
function cleanOf({ head, body }: FramedAnswer, at: FramedAnswer): CleanAnswer {
  const all = atSecondOf(
    Buffer.concat([Buffer.from(head, "latin1"), body]),
    Buffer.concat([Buffer.from(at.head, "latin1"), at.body]),
  );
  const end = all.indexOf("\r\n\r\n") + 4;
  const text = all.subarray(end).toString();
  const streams = head.includes("event-stream");
  return { head: all.toString("latin1", 0, end), events: streams ? text.split(/(?<=\n\n)/) : [text], streams };
}

const bytesWhere = (operations: readonly WireOperation[], wanted: (event: number) => boolean): Buffer =>
  Buffer.concat(
    operations.map((operation) =>
      operation.kind === "bytes" && wanted(operation.event) ? operation.bytes : Buffer.alloc(0),
    ),
  );

/** Returns complete heads as frames have them, without the fields that only HTTP/1 has. */
function headsIn(bytes: Buffer): string {
  const whole = bytes
    .toString("latin1")
    .split(/(?<=\r\n\r\n)/)
    .filter((text) => text.endsWith("\r\n\r\n"));
  return whole
    .map(headIn)
    .map(
      ({ status, fields }) =>
        `HTTP/2 ${status}\r\n${fields
          .filter(([name]) => name !== "transfer-encoding")
          .map(([name, value]) => `${name}: ${value}\r\n`)
          .join("")}\r\n`,
    )
    .join("");
}

async function expectAsPredicted(testCase: FaultCase, key: string): Promise<WireOperation[]> {
  let [clean, faulty] = [await ask(testCase, key), await ask(testCase, key, testCase.plan)];
  // The second is part of the encoded body and cannot be replaced, so both answers are requested in the same second.
  const dateOf = ({ head }: FramedAnswer) => /^date: .*$/m.exec(head)?.[0];
  for (let tries = 0; testCase.id === "H6" && tries < 20 && dateOf(clean) !== dateOf(faulty); tries++)
    [clean, faulty] = [await ask(testCase, key), await ask(testCase, key, testCase.plan)];
  const answer = cleanOf(clean, faulty);
  const operations = predicted(answer, testCase.plan, key, true);
  expect(
    difference(
      faulty.body,
      bytesWhere(operations, (event) => event >= 0),
    ),
  ).toBeNull();
  const heads = headsIn(bytesWhere(operations, (event) => event < 0));
  expect(difference(Buffer.from(faulty.head, "latin1"), Buffer.from(heads, "latin1"))).toBeNull();
  const end = operations.at(-1)!;
  if (end.kind !== "end") throw new Error("it has no end");
  expect([faulty.end, faulty.code]).toEqual([end.how, end.code]);
  const away = operations.findIndex(({ kind }) => kind === "goaway");
  const op = operations[away];
  const before = bytesWhere(operations.slice(0, away), (event) => event >= 0).length;
  expect(faulty.goAway).toEqual(op?.kind === "goaway" ? [before, op.unserved ? 0 : 1, op.code] : null);
  expect(accountOf(answer, testCase.plan, key, true).fired[0]!.times).toBeGreaterThan(0);
  return operations;
}

const OTHERS = /^(A|E8,accept|E9|E10|H8.*50|H9.*30|H3.*both|H4.*close)/;
const cases = sampled(
  "faults",
  faultCases("2").filter(({ plan }) => !OTHERS.test(plan)),
  25,
);

test.each(cases.map((testCase) => [`${testCase.asked} ${testCase.plan}`, testCase] as const))(
  "%s has the frames that the pipeline predicts",
  async (name, testCase) => {
    await expectAsPredicted(testCase, `key-${Bun.hash(name)}`);
  },
);

const CODES = Object.keys(STREAM_CODES);
const CUTS = ["head", "e0", "e3", "e3+17", "b100", "done"].flatMap((at) => [
  `E10@${at},reset`,
  `E10@${at},goaway,none`,
  `E10@${at},unserved`,
]);
test.each([...CODES.map((code) => `E10@e2,${code}`), ...CUTS, "S2;E10@e4,goaway,calm"])(
  "%s writes the frame with its code at its position only",
  async (plan) => {
    const id = parsePlan(plan).faults[0]!.row.id;
    await expectAsPredicted({ plan, id, asked: "chat", streams: true }, `key-${Bun.hash(plan)}`);
    if (id === "E10")
      await expectAsPredicted({ plan: plan.replace(/@\S+?,/, "@head,"), id, asked: "chat", streams: false }, "whole");
  },
);

test("faults of the other HTTP version do nothing, and their case is void, not passed", async () => {
  for (const fault of ["H1,size", "H2,trailers", "H3,both", "H4,close"]) {
    const clean = await ask({ asked: "chat", streams: true }, "k");
    const faulty = await ask({ asked: "chat", streams: true }, "k", fault);
    const answer = cleanOf(clean, faulty);
    expect(difference(faulty.body, Buffer.from(answer.events.join("")))).toBeNull();
    expect(accountOf(answer, fault, "k", true).fired[0]!.times).toBe(0);
  }
  const body = JSON.stringify({
    model: "m",
    prompt: "x",
    max_tokens: 2,
    stream: true,
    understudy: { fault: "E10@e1" },
  });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body });
  expect([response.headers.get("x-understudy-fault"), (await response.text()).endsWith("data: [DONE]\n\n")]).toEqual([
    expect.stringMatching(/^E10@e1#/),
    true,
  ]);
});

test("over HTTP/2, faults that end the connection affect other answers and need permission", async () => {
  const server = await hosted(["--timing", "none", "--served-model-name", "m", "--http2-port", "0"]);
  const client = await WireClient.connect(Number(new URL(server.http2Url!).port));
  const status = async (fault: string) => {
    const id = client.post("/v1/completions", { model: "m", prompt: "x", max_tokens: 2, understudy: { fault } });
    await client.until(() => client.isOver(id));
    return client.fields.get(client.of(id, FrameType.Headers)[0]!)?.[0]?.[1];
  };
  for (const fault of ["E6", "E7@e1", "T2", "E10,goaway"]) expect([fault, await status(fault)]).toEqual([fault, "403"]);
  expect([await status("S2"), await status("E10@b20,reset")]).toEqual(["200", "200"]);
  client.leave();
  await server.stop();
});

test("E9 ends the connection when its next stream opens, and E8 closes the next connection when it opens", async () => {
  const client = await WireClient.connect(port);
  const body = (fault: string) => ({ model: "m", prompt: "x", max_tokens: 2, understudy: { fault } });
  const first = client.post("/v1/completions", body("E9"));
  await client.until(() => client.isOver(first));
  expect(client.end).toBe("open");
  const second = client.post("/v1/completions", body("S2"));
  await client.until(() => client.isOver(second));
  expect([client.end, client.of(second, FrameType.Headers).length]).toEqual(["fin", 0]);
  await ask({ asked: "chat", streams: true }, "accept", "E8,accept");
  const refused = await WireClient.connect(port);
  await refused.until(() => refused.end !== "open");
  expect(refused.frames).toEqual([]);
});

test("Node's client reads whole answers, streams and errors on one connection", async () => {
  const session = http2.connect(url);
  const contentOf = (path: string, body: object) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly [number, string]>();
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/json" });
    let [status, text] = [0, ""];
    stream.on("response", (head) => (status = Number(head[":status"])));
    stream.on("data", (data) => (text += data));
    stream.on("end", () => resolve([status, text]));
    stream.on("error", reject);
    stream.end(JSON.stringify(body));
    return promise;
  };
  const chat = { model: "m", messages: [{ role: "user", content: "x" }], understudy: { script: SAID } };
  const [whole, stream, wrong, unknown] = await Promise.all([
    contentOf("/v1/chat/completions", chat),
    contentOf("/v1/chat/completions", { ...chat, stream: true }),
    contentOf("/v1/chat/completions", { ...chat, max_tokens: "x" }),
    contentOf("/nowhere", {}),
  ]);
  session.close();
  expect(JSON.parse(whole[1]).choices[0].message.content).toBe(SAID);
  const deltas = stream[1].split("\n\n").filter((event) => event.startsWith("data: {"));
  expect(deltas.map((event) => JSON.parse(event.slice(6)).choices[0]?.delta.content ?? "").join("")).toBe(SAID);
  expect([whole[0], stream[0], wrong[0], unknown[0]]).toEqual([200, 200, 400, 404]);
});

/** Python environment with a pinned h2. CI always has it. */
const python = new URL("../../.venv-guidellm-slim/bin/python", import.meta.url).pathname;

test.skipIf(!existsSync(python) && process.env.CI === undefined)(
  "Python's httpx over h2 reads whole, encoded and partial answers and error codes, and its next stream is served",
  async () => {
    const child = Bun.spawn([python, new URL("httpx_http2.py", import.meta.url).pathname], {
      stdin: "pipe",
      stdout: "pipe",
    });
    const chat = { model: "m", messages: [{ role: "user", content: "x" }], stream: true };
    const order = (fault: string) => ({ script: SAID, ...(fault === "" ? {} : { fault }) });
    const WHOLE = ["", "B4", "B1", "S1,split", "S12@e3,100KB", "H6,gzip", "H7,bytes=100", "H9,103", "T4"];
    const BROKEN: readonly (readonly [plan: string, error: RegExp])[] = [
      [
        "E10@e2,reset,internal",
        /^RemoteProtocolError: <StreamReset stream_id:\d+, error_code:(2|ErrorCodes.INTERNAL_ERROR)/,
      ],
      [
        "E10@e2,reset,refused",
        /^RemoteProtocolError: <StreamReset stream_id:\d+, error_code:(7|ErrorCodes.REFUSED_STREAM)/,
      ],
      // h2 treats this as the end of the connection, although by RFC 9113, 6.8 the stream continues.
      ["E10@e2,goaway", /^(\w*ProtocolError: .*RECV_DATA|RemoteProtocolError: <ConnectionTerminated)/],
      ["H3,long", /Error: (InvalidBodyLengthError: )?Expected \d+ bytes, received \d+/],
      ["E6@e2", /^RemoteProtocolError: /],
      ["E7@e2", /^(ReadError|RemoteProtocolError)/],
    ];
    const plans = [...WHOLE, ...BROKEN.map(([plan]) => plan), ""];
    for (const plan of plans)
      child.stdin.write(
        `${JSON.stringify({ url: `${url}/v1/chat/completions`, body: { ...chat, understudy: order(plan) } })}\n`,
      );
    await child.stdin.end();
    const seen = (await child.stdout.text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { version: string; status: number; text: string; error: string | null });
    const textOf = (text: string) =>
      Buffer.from(text, "latin1")
        .toString()
        .split(/\r?\n\r?\n/)
        .filter((event) => event.startsWith("data: {"))
        .map((event) => JSON.parse(event.slice(6)).choices[0]?.delta.content ?? "")
        .join("");
    for (const [at, plan] of plans.entries()) {
      const { version, status, text, error } = seen[at]!;
      const wrong = BROKEN.find(([broken]) => broken === plan)?.[1];
      // A reset may come before httpx has reported the head.
      if (wrong !== undefined) expect(error, plan).toMatch(wrong);
      else expect([plan, version, status, error, textOf(text)]).toEqual([plan, "HTTP/2", 200, null, SAID]);
    }
  },
);

test("bytes for a client with closed windows are held and counted, and are sent when the windows open", async () => {
  const client = await WireClient.connect(port, 1000);
  const id = client.post("/v1/completions", {
    model: "m",
    prompt: "x",
    stream: true,
    max_tokens: 200,
    ignore_eos: true,
  });
  await eventually(async () => (await sample(server.url, "understudy_held_bytes")) > 0);
  expect(client.body(id).length).toBe(1000);
  client.send(windowUpdate(id, 2 ** 20));
  await client.until(() => client.isOver(id));
  expect(client.body(id).toString()).toEndWith("data: [DONE]\n\n");
  client.leave();
});

test("HTTP/2 works with TLS and ALPN, and an idle connection ends with GOAWAY after its timeout", async () => {
  const file = (name: string) => new URL(`../conformance/tls/${name}`, import.meta.url).pathname;
  const flags = "--timing none --http2-port 0 --timeout-keep-alive 1".split(" ");
  const server = await hosted([...flags, "--ssl-certfile", file("server.pem"), "--ssl-keyfile", file("server.key")]);
  const ca = readFileSync(file("ca.pem"));
  const session = http2.connect(server.http2Url!, { ca });
  const away = new Promise<number>((resolve) => session.once("goaway", resolve));
  const stream = session.request({ ":path": "/health" });
  expect(await new Promise((resolve) => stream.once("response", (head) => resolve(head[":status"])))).toBe(200);
  stream.resume();
  expect([session.alpnProtocol, await away]).toEqual(["h2", 0]);
  await server.stop();
});

test("nothing is left behind: no generation and no waiting bytes", async () => {
  for (const name of ["vllm:num_requests_running", "understudy_streams_open", "understudy_held_bytes"])
    expect([name, await sample(server.url, name)]).toEqual([name, 0]);
  figure("http2Cases", cases.length + CODES.length + CUTS.length + 1);
});

test("a reset stream counts as a client that disconnected, and the connection continues; a shutdown sends GOAWAY and lets the answer finish", async () => {
  const flags = "--timing constant:ttft=5ms,itl=20ms --served-model-name m --http2-port 0 --shutdown-timeout 20";
  const server = await serve(flags.split(" "));
  await eventually(() => server.output().includes("HTTP/2"));
  const client = await WireClient.connect(Number(/HTTP\/2 +http:\S+:(\d+)/.exec(server.output())![1]));
  const body = (tokens: number) => ({ model: "m", prompt: "x", stream: true, max_tokens: tokens, ignore_eos: true });
  const left = client.post("/v1/completions", body(5000));
  const id = client.post("/v1/completions", body(40));
  await client.until(() => client.body(left).length > 0 && client.body(id).length > 0);
  client.send(frame(FrameType.RstStream, 0, left, Buffer.from([0, 0, 0, 8])));
  await eventually(async () => (await sample(server.url, "understudy_streams_open")) === 1);
  expect(await sample(server.url, 'understudy_requests_total{outcome="abort"}')).toBe(1);
  const code = server.stop();
  await client.until(() => client.frames.some(({ type }) => type === FrameType.GoAway));
  expect(client.isOver(id)).toBe(false);
  await client.until(() => client.end !== "open");
  expect(client.body(id).toString()).toEndWith("data: [DONE]\n\n");
  expect([client.end, await code]).toEqual(["fin", 0]);
});
