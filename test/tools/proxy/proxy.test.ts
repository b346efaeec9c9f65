/** Tests that a proxy forwards answers unchanged, disturbs them by a plan, and records them. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { posted } from "../../conformance/raw-socket.ts";
import { readWire } from "../../faults/wire.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { eventually, sample } from "../../server.ts";

setDefaultTimeout(60_000);

const main = new URL("../../../src/main.ts", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-proxy-"));
const proxies: Bun.Subprocess[] = [];
let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--served-model-name", "m", "--timing", "constant:ttft=5ms,itl=2ms", "--seed", "3"]);
});
afterAll(async () => {
  for (const proxy of proxies) proxy.kill();
  await server.stop();
  rmSync(folder, { recursive: true });
});

let started = 0;
async function proxy(to: string, ...words: string[]): Promise<{ url: string; port: number }> {
  const file = join(folder, `ready-${started++}.json`);
  const command = [process.execPath, main, "proxy", "--to", to, "--port", "0", "--ready-file", file, ...words];
  proxies.push(Bun.spawn(command, { stdout: "ignore", stderr: "ignore" }));
  await eventually(() => existsSync(file), 2000);
  const { url } = JSON.parse(readFileSync(file, "utf8"));
  return { url, port: Number(new URL(url).port) };
}

const portOf = (url: string) => Number(new URL(url).port);
const request = { model: "m", stream: true, prompt: "x", max_tokens: 12, ignore_eos: true, seed: 1 };
const closing = (body: object) => posted("/v1/completions", body, ["Connection: close"]);
/** Removes the date, ids and chunk sizes, which differ each time. */
const plain = (bytes: Buffer) =>
  bytes
    .toString()
    .replace(/^date: .*\r\n/m, "")
    .replaceAll(/"created":\d+|cmpl-[0-9a-f-]+/g, "")
    .replaceAll(/^[0-9a-f]+\r\n(?=data)/gm, "");

/** Returns the events without chunk framing. */
const eventsOf = (bytes: Buffer) => plain(bytes).match(/data: .*\n\n/g);
const headOf = (bytes: Buffer) => plain(bytes).split("\r\n\r\n")[0]!;

test("without a plan, status, headers and bodies of streams, whole answers and errors equal the server's", async () => {
  const { url, port } = await proxy(server.url);
  for (const body of [request, { ...request, stream: false }, { model: "nobody", prompt: "x" }]) {
    const [direct, passed] = await Promise.all([
      readWire(portOf(server.url), closing(body)),
      readWire(port, closing(body)),
    ]);
    expect(eventsOf(passed.bytes)).toEqual(eventsOf(direct.bytes));
    expect(headOf(passed.bytes).split("\r\n").toSorted()).toEqual(headOf(direct.bytes).split("\r\n").toSorted());
  }
  const models = await Promise.all([server.url, url].map(async (at) => (await fetch(`${at}/v1/models`)).text()));
  expect(JSON.parse(models[1]!).data[0].id).toBe("m");
  expect((await fetch(`${url}/nowhere`)).status).toBe(404);
});

test("fixed and random plans disturb answers, and a client's disconnect reaches the server", async () => {
  const { port } = await proxy(server.url, "--fault", "B8;E6@e3");
  const { bytes, end } = await readWire(port, closing(request));
  expect(end).toBe("fin");
  expect(bytes.toString().match(/data: /g)?.length).toBe(3);
  expect(bytes.indexOf(Buffer.from("\ufeffdata:"))).toBeGreaterThan(0);
  expect(bytes.toString()).toContain("x-understudy-fault: B8@head;E6@e3#seed=0,key=0");
  const refused = await proxy(server.url, "--fault-rate", "100", "--faults", "A4");
  expect((await readWire(refused.port, closing(request))).bytes.toString()).toMatch(/^HTTP\/1\.1 401 /);
  const { port: clean } = await proxy(server.url);
  const socket = net.connect({ port: clean, host: "127.0.0.1" });
  socket.on("error", () => {});
  socket.on("data", () => socket.resetAndDestroy());
  const aborts = () => sample(server.url, 'understudy_requests_total{outcome="abort"}');
  const before = await aborts();
  socket.write(closing({ ...request, max_tokens: 4000 }));
  await eventually(async () => (await aborts()) === before + 1);
});

test("a missing server gives 502, and incomplete or invalid streams are forwarded as they are", async () => {
  const gone = await proxy("http://127.0.0.1:1");
  const { bytes } = await readWire(gone.port, closing(request));
  expect(bytes.toString()).toMatch(/^HTTP\/1\.1 502 Bad Gateway\r\n[\s\S]*"type":"ProxyError"/);
  const answers = [
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ndata: 1\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nno events at all",
  ];
  const odd = Bun.listen<undefined>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(answers.shift()!);
        socket.end();
      },
    },
  });
  const { port } = await proxy(`http://127.0.0.1:${odd.port}`);
  const broken = await readWire(port, closing(request));
  expect(broken.bytes.toString()).toContain("data: 1");
  expect(broken.bytes.toString().endsWith("0\r\n\r\n")).toBe(false);
  const short = await readWire(port, closing({ ...request, stream: false }));
  expect(short.bytes.toString().endsWith("0\r\n\r\n")).toBe(false);
  expect((await readWire(port, closing(request))).bytes.toString()).toContain("no events at all");
  odd.stop(true);
});

test("each exchange is recorded in a file with its events and times, and without keys", async () => {
  const records = join(folder, "records");
  const { url, port } = await proxy(server.url, "--record", records);
  const { bytes } = await readWire(
    port,
    posted("/v1/completions", { ...request, max_tokens: 100 }, [
      "Connection: close",
      "Authorization: Bearer very-secret",
    ]),
  );
  await readWire(port, closing({ ...request, stream: false }));
  await fetch(`${url}/v1/models`);
  await eventually(() => readdirSync(records).length === 2);
  const files = readdirSync(records)
    .toSorted()
    .map((name) => readFileSync(join(records, name), "utf8"));
  const [stream] = files.map((text) => JSON.parse(text));
  expect(files.join("")).not.toContain("secret");
  expect(stream.match.path).toBe("/v1/completions");
  expect(stream.match.body.prompt).toEqual({ equals: "x" });
  const { recorded } = stream.answer;
  expect([recorded.status, recorded.broken, recorded.events.length]).toEqual([200, false, 101]);
  expect(recorded.events.map(([, text]: [number, string]) => text).join("")).toBe(
    bytes
      .toString()
      .split("\r\n\r\n")
      .slice(1)
      .join("\r\n\r\n")
      .replaceAll(/[0-9a-f]+\r\n|\r\n/g, (part) => (part === "\r\n" ? "" : "")),
  );
  const again = Bun.spawnSync([process.execPath, main, "proxy", "--to", server.url, "--record", records]);
  expect([again.exitCode, again.stderr.toString()]).toEqual([
    2,
    `understudy proxy: --record ${records}: has records already; take an empty folder\n`,
  ]);
  const times = recorded.events.map(([us]: [number, string]) => us);
  expect(times).toEqual(times.toSorted((a: number, b: number) => a - b));
  expect(times.at(-1) - times[0]).toBeGreaterThan(5000);
});

test("fault explain describes a plan in words and bytes, and wrong command lines are refused", () => {
  const explain = (plan: string) => Bun.spawnSync([process.execPath, main, "fault", "explain", plan]);
  const explanation = explain("B8;E7@e2+10#seed=7").stdout.toString();
  expect(explanation).toContain("B8, stage text: byte order mark at the start");
  expect(explanation).toContain("\\xef\\xbb\\xbfdata:");
  expect(explanation).toContain("before event 2, byte 10; after=50000");
  expect(explanation).toMatch(/waits 50000 us\n> ends: rst/);
  const wrong = explain("B99");
  expect([wrong.exitCode, wrong.stderr.toString()]).toEqual([
    2,
    'understudy fault: fault plan, character 1: "B99" is not a fault; understudy fault list prints them, B1 to C3\n',
  ]);
  for (const [words, why] of [
    [["proxy"], "needs --to URL"],
    [["proxy", "--to", "ftp://x"], "--to: takes an http or https URL"],
    [["proxy", "--to", "http://x", "--fault", "B99"], "--fault B99: fault plan, character 1"],
    [["proxy", "--to", "http://x", "--fault-plan", "none.yaml"], "--fault-plan none.yaml: "],
    [["proxy", "--to", "http://x", "--record", main], `--record ${main}: EEXIST`],
    [["proxy", "--to", "http://x", "word"], "word: unknown"],
  ] as const) {
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, ...words]);
    expect([words, exitCode, stderr.toString().includes(why)]).toEqual([words, 2, true]);
  }
});
