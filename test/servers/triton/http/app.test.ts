/** How many bytes of bodies may be on their way at once? Whoever brings more is refused, and leaves no trace in the count. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { VirtualClock } from "../../../../src/base/virtual-clock.ts";
import { tritonApp } from "../../../../src/servers/triton/http/app.ts";
import type { ServerAround } from "../../../../src/servers/triton/inference/around.ts";
import { WaitingBytes } from "../../../../src/wire/http/waiting-bytes.ts";
import { eventually } from "../../../server.ts";
import { startTriton } from "../../../triton/child.ts";
import { pureServer } from "../../../triton/pure-server.ts";

const MOST = 1000;
const coming = new WaitingBytes(MOST);
const server = pureServer([`--model-repository=${import.meta.dir}/../../../triton/models`], new VirtualClock());
const config = { overHttp: { maxInputBytes: null, maxBodyBytes: 800, restricted: [] } };
const app = tritonApp({ server, config, coming, turns: { nowUs: () => 0 } } as unknown as ServerAround);

/** An index whose body comes as it is told to. */
function sender() {
  const stream = new TransformStream<Uint8Array, Uint8Array>();
  const writer = stream.writable.getWriter();
  writer.closed.catch(() => {});
  const request = new Request("http://x/v2/repository/index", { method: "POST", body: stream.readable });
  const answer = app.handle(request).then(async (made) => [made.status, (await made.text()).slice(0, 50)]);
  return {
    answer,
    send: async (text: string) => {
      writer.write(Buffer.from(text)).catch(() => {});
      for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done));
    },
    end: () => writer.close(),
  };
}

test("more than the limit together is a 503, more than one may have a 400; the others go on", async () => {
  const [first, second, third] = [sender(), sender(), sender()];
  await first.send(" ".repeat(600));
  await second.send(" ".repeat(399));
  expect(coming.bytes).toBe(999);
  await third.send("{}");
  expect(await third.answer).toEqual([503, '{"error":"too many bytes of bodies come at once"}']);
  expect(coming.bytes).toBe(999);
  await second.send(" ".repeat(300));
  expect(await second.answer).toEqual([503, '{"error":"too many bytes of bodies come at once"}']);
  const fourth = sender();
  await fourth.send(" ".repeat(200));
  await first.send(" ".repeat(200));
  await first.send(" ");
  expect((await first.answer)[0]).toBe(400);
  expect(coming.bytes).toBe(200);
  await fourth.send("{}");
  await fourth.end();
  expect((await fourth.answer)[0]).toBe(200);
  expect(coming.bytes).toBe(0);
});

const MIB = 2 ** 20;
/** Megabytes that bodies may take beside the server: 512 of bytes, and those of reads that were not collected yet. */
const HELD_MB_MOST = 850;

test("bodies that never come whole take bounded memory, and others are answered", async () => {
  const server = await startTriton([]);
  const peakMb = () => Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))![1]) / 1024;
  const before = peakMb();
  const head = "POST /v2/models/echo/generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n";
  const body = Buffer.alloc(40 * MIB, " ");
  const answers: string[] = [];
  const sockets = Array.from({ length: 24 }, () => connect(Number(new URL(server.url).port), "127.0.0.1"));
  for (const socket of sockets) {
    socket.on("error", () => undefined);
    socket.on("data", (answer) => answers.push(answer.toString("latin1", 9, 12)));
    socket.write(head);
    socket.write(body);
  }
  await eventually(() => answers.length > 0, 10_000);
  expect(new Set(answers)).toEqual(new Set(["503"]));
  expect((await fetch(`${server.url}/v2/health/live`)).status).toBe(200);
  expect(peakMb() - before).toBeLessThan(HELD_MB_MOST);
  for (const socket of sockets) socket.destroy();
  await server.stop();
}, 60_000);
