/** Tests the limits of docs/reference/limits.md on a proxy's memory and records. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { epochSeconds, WallClock } from "../../../src/base/clock.ts";
import { PassingEvents } from "../../../src/tools/proxy/events.ts";
import { RecordedAnswer, Recorder } from "../../../src/tools/proxy/recorder.ts";
import { ProxyServer } from "../../../src/tools/proxy/server.ts";
import { eventually } from "../../server.ts";

const MIB = 2 ** 20;
const folder = mkdtempSync(join(tmpdir(), "understudy-proxy-limits-"));
afterAll(() => rmSync(folder, { recursive: true }));

let recorded = 0;
function recorder(): { recorder: Recorder; files: () => number; reports: string[] } {
  const path = join(folder, `${recorded++}`);
  const reports: string[] = [];
  return { recorder: new Recorder(path, (line) => reports.push(line)), files: () => readdirSync(path).length, reports };
}
const passing = (prompt: string) => ({
  method: "POST",
  target: "/v1/completions",
  fields: [],
  body: Buffer.from(JSON.stringify({ prompt })),
});
function answer(...texts: string[]): RecordedAnswer {
  const made = new RecordedAnswer(200, [], 0);
  for (const [at, text] of texts.entries()) made.event(at, text);
  return made;
}

test("a record of more than 1 MiB is not written, and its events are not kept in memory", () => {
  const { recorder: single, files, reports } = recorder();
  single.keep(passing("a"), answer("x".repeat(MIB - 1000)), false);
  const long = answer("x".repeat(MIB), "x", "x".repeat(MIB));
  expect(long.events).toEqual([]);
  single.keep(passing("b"), long, false);
  single.keep(passing("c".repeat(MIB)), answer("x"), false);
  expect([files(), reports]).toEqual([1, Array(2).fill("not recorded: /v1/completions, more than 1048576 bytes")]);
});

test("recording ends after 1,000 records or 16 MiB, the limits of a folder of fixtures, with one line", () => {
  const many = recorder();
  for (let i = 0; i < 1002; i++) many.recorder.keep(passing(`${i % 10}`), answer("x"), false);
  const large = recorder();
  for (let i = 0; i < 18; i++) large.recorder.keep(passing(`${i}`), answer("x".repeat(MIB - 1000)), false);
  expect([many.files(), many.reports.length, large.files(), large.reports.length]).toEqual([1000, 1, 16, 1]);
  expect(large.reports[0]).toBe(
    "nothing more is recorded: a folder of fixtures has 1000 files, 16777216 bytes at most",
  );
});

test("8 MiB without an empty line pass as one event", () => {
  const events = new PassingEvents();
  const part = Buffer.alloc(MIB, 120);
  const seen = Array.from({ length: 20 }, () => events.push(part)).flat();
  expect(seen.map(({ length }) => length)).toEqual([9 * MIB, 9 * MIB]);
  expect(events.end().length).toBe(2 * MIB);
});

/** Runs a proxy in front of a server. `taken` returns the number of bytes that the server has sent. */
async function proxied(
  handle: (socket: net.Socket) => void,
  use: (port: number, taken: () => number) => Promise<void>,
): Promise<void> {
  const sockets: net.Socket[] = [];
  const upstream = net.createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.once("data", () => handle(socket));
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const { port } = upstream.address() as net.AddressInfo;
  const clock = new WallClock();
  const options = { host: "127.0.0.1", port: 0, planFor: null, recorder: null, clock, epochSeconds, say: () => {} };
  const server = new ProxyServer({ ...options, to: new URL(`http://127.0.0.1:${port}`) });
  await use(Number(new URL(server.url).port), () => sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0));
  await server.close();
  for (const socket of sockets) socket.destroy();
  upstream.close();
  clock.close();
}

test("a body of more than 64 MiB is refused with 413, and no byte reaches the server", async () => {
  let asked = 0;
  const handle = () => void asked++;
  await proxied(handle, async (port) => {
    const { status } = await fetch(`http://127.0.0.1:${port}/v1/completions`, {
      method: "POST",
      body: Buffer.alloc(64 * MIB + 1),
    });
    expect([status, asked]).toEqual([413, 0]);
  });
});

test("while the client does not read, the proxy does not read from the server", async () => {
  const part = Buffer.alloc(MIB, 120);
  const handle = (socket: net.Socket) => {
    socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    const more = () => {
      while (socket.bytesWritten < 100 * MIB && socket.write(part));
      if (socket.bytesWritten >= 100 * MIB) socket.end();
    };
    socket.on("drain", more);
    more();
  };
  await proxied(handle, async (port, taken) => {
    const client = net.connect({ port, host: "127.0.0.1" });
    client.pause();
    client.write("POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}");
    let before = -1;
    await eventually(() => {
      const now = taken();
      const still = now > 0 && now === before;
      before = now;
      return still;
    });
    // The kernel's buffers of two connections, and one part.
    expect(taken()).toBeLessThan(64 * MIB);
    let bytes = 0;
    client.on("data", (data) => {
      bytes += data.length;
    });
    client.resume();
    await eventually(() => bytes > 100 * MIB);
    client.destroy();
  });
});
