/** Tests the memory that the bodies of all requests take together. Bodies without room wait, and are answered later. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import { tritonApp } from "../../../../src/servers/triton/http/app.ts";
import type { ServerAround } from "../../../../src/servers/triton/inference/around.ts";
import { HeldBodies } from "../../../../src/servers/triton/inference/held-bodies.ts";
import { eventually } from "../../../server.ts";
import { startTriton, type TritonChild } from "../../../triton/child.ts";
import { pureServer } from "../../../triton/pure-server.ts";

test("a body beyond the limit is answered with 400", async () => {
  const server = pureServer([`--model-repository=${import.meta.dir}/../../../triton/models`], new VirtualClock());
  const turns = { nowUs: () => 0 };
  const config = { overHttp: { maxInputBytes: null, maxBodyBytes: 800, restricted: [] } };
  const app = tritonApp({ server, config, bodies: new HeldBodies(turns), turns } as unknown as ServerAround);
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  writer.closed.catch(() => {});
  const answer = app.handle(new Request("http://x/v2/repository/index", { method: "POST", body: readable }));
  for (let part = 0; part < 3; part++) writer.write(Buffer.alloc(300, " ")).catch(() => {});
  const { status, text } = await answer.then(async (made) => ({ status: made.status, text: await made.text() }));
  expect([status, text]).toEqual([400, '{"error":"request body exceeds the 800 bytes that are taken here"}']);
});

const MIB = 2 ** 20;
/** Largest memory of the server in MB for any bodies. Supervisors usually end a server at about 1000. */
const MB_MOST = 850;
let server: TritonChild;
beforeAll(async () => {
  server = await startTriton(["--openai", "--openai-port=0", "--enable-kserve-frontends"]);
});
afterAll(() => server.stop());

const peakMb = () => Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))![1]) / 1024;
const isHealthy = async () => (await fetch(`${server.url}/v2/health/live`)).status === 200;

/** Sends a request. Resolves to the status and the length of the answer when it is complete. */
function send(url: string, head: string, body: Uint8Array): Promise<readonly [string, number]> {
  const { port, pathname } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), "127.0.0.1");
    let status = "";
    let bytes = 0;
    socket.on("error", reject);
    socket.on("data", (part) => {
      if (bytes === 0) status = part.toString("latin1", 9, 12);
      bytes += part.length;
    });
    socket.on("close", () => resolve([status, bytes]));
    socket.write(
      `POST ${pathname} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n${head}\r\n`,
    );
    socket.write(body);
  });
}

const BODY_BYTES = 58_000_000;
const fill = (before: string, unit: string, after: string) =>
  Buffer.from(before + unit.repeat((BODY_BYTES - before.length - after.length) / unit.length) + after);
const ONE_TEXT = '{"inputs":[{"name":"text_input","shape":[1],"datatype":"BYTES","data":["';
const raw = Buffer.alloc(BODY_BYTES);
raw.writeUInt32LE(BODY_BYTES - 4);
const RAW_HEAD = `{"inputs":[{"name":"text_input","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":${BODY_BYTES}}}],"outputs":[{"name":"text_output","parameters":{"binary_data":true}}]}`;

/** Path, headers, body, and the smallest number of bytes of the answer. */
const BODIES: Readonly<Record<string, readonly [string, string, Uint8Array, number]>> = {
  "generate, a text": ["echo/generate", "", fill('{"text_input":"', "word ", '"}'), BODY_BYTES],
  "generate, a text with escapes": ["echo/generate", "", fill('{"text_input":"', "\\n\\u00e9", '"}'), BODY_BYTES / 3],
  "infer, a text": ["echo/infer", "", fill(ONE_TEXT, "word ", '"]}]}'), BODY_BYTES],
  "infer, packed": [
    "echo/infer",
    "Content-Encoding: gzip\r\n",
    gzipSync(fill(ONE_TEXT, "word ", '"]}]}'), { level: 1 }),
    BODY_BYTES,
  ],
  "infer, binary": [
    "echo/infer",
    `Inference-Header-Content-Length: ${RAW_HEAD.length}\r\n`,
    Buffer.concat([Buffer.from(RAW_HEAD), raw]),
    BODY_BYTES,
  ],
};

test("bodies of 58 MB at once are answered", async () => {
  for (const [name, [path, head, body, least]] of Object.entries(BODIES)) {
    const url = `${server.url}/v2/models/${path}`;
    const count = name === "generate, a text" ? 10 : 5;
    const answers = Promise.all(Array.from({ length: count }, () => send(url, head, body)));
    expect(await isHealthy()).toBe(true);
    for (const [status, bytes] of await answers) {
      expect([name, status]).toEqual([name, "200"]);
      expect(bytes).toBeGreaterThanOrEqual(least);
    }
    expect(peakMb(), name).toBeLessThan(MB_MOST);
  }
}, 300_000);

test("bodies of 58 MB at once at the OpenAI front end are answered", async () => {
  const body = fill('{"model":"echo","messages":[{"role":"user","content":"', "word ", '"}]}');
  const answers = Array.from({ length: 5 }, () => send(`${server.openai}/v1/chat/completions`, "", body));
  for (const [status] of await Promise.all(answers)) expect(status).toMatch(/^[245]\d\d$/);
  expect(peakMb()).toBeLessThan(MB_MOST);
}, 120_000);

test("incomplete bodies use bounded memory, and other requests are answered", async () => {
  const sent = "POST /v2/models/echo/generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n";
  const body = Buffer.alloc(40 * MIB, " ");
  const sockets = Array.from({ length: 24 }, () => connect(Number(new URL(server.url).port), "127.0.0.1"));
  for (const socket of sockets) {
    socket.on("error", () => undefined);
    socket.write(sent);
    socket.write(body);
  }
  await eventually(() => sockets.some(({ bytesWritten }) => bytesWritten > 40 * MIB), 10_000);
  const small = await fetch(`${server.url}/v2/models/echo/generate`, { method: "POST", body: '{"text_input":"a"}' });
  expect(small.status).toBe(200);
  expect(peakMb()).toBeLessThan(MB_MOST);
  for (const socket of sockets) socket.destroy();
  // The room is free again.
  const url = `${server.url}/v2/models/echo/generate`;
  expect((await send(url, "", fill('{"text_input":"', "word ", '"}')))[0]).toBe("200");
}, 60_000);
