/**
 * Tests that unusual answers are recorded and played back unchanged: other line ends, an end within an event, an incomplete
 * body.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { PassingEvents, withLineFeeds } from "../../../src/tools/proxy/events.ts";
import { posted } from "../../conformance/raw-socket.ts";
import { readWire } from "../../faults/wire.ts";
import { hosted } from "../../hosted.ts";
import { eventually } from "../../server.ts";

setDefaultTimeout(60_000);

const main = new URL("../../../src/main.ts", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-odd-"));
afterAll(() => rmSync(folder, { recursive: true }));

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const SSE = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const ANSWERS = [
  `${SSE}${chunk('data: {"a":1}\r\n\r\n')}${chunk("event: x\r\ndata: 2\r\n\r\nda")}${chunk("ta: 3\r\n\r\n")}0\r\n\r\n`,
  `${SSE}${chunk("data: 1\r\rdata: 2\r\r")}${chunk(": said last")}0\r\n\r\n`,
  `${SSE}${chunk("data: 1\n\nda")}`,
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"half": `,
  "HTTP/1.1 418 No Coffee\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>\r\n",
];
const asked = (at: number) => posted("/v1/completions", { model: "m", prompt: `${at}` }, ["Connection: close"]);

/** Returns the body without its framing, and whether it is complete. */
function bodyOf(bytes: Buffer): { body: string; whole: boolean } {
  const text = bytes.toString();
  const [head, body] = [text.split("\r\n\r\n")[0]!, text.slice(text.indexOf("\r\n\r\n") + 4)];
  if (!/chunked/i.test(head)) return { body, whole: Number(/content-length: (\d+)/i.exec(head)![1]) === body.length };
  let [joined, rest, whole] = ["", body, false];
  for (let size = /^([0-9a-f]+)\r\n/.exec(rest); size !== null && !whole; size = /^([0-9a-f]+)\r\n/.exec(rest)) {
    const from = size[0].length;
    const bytes = Number.parseInt(size[1]!, 16);
    joined += rest.slice(from, from + bytes);
    rest = rest.slice(from + bytes + 2);
    whole = bytes === 0;
  }
  return { body: joined, whole };
}

test("the proxy forwards and plays back unusual answers byte for byte", async () => {
  let next = 0;
  const server = Bun.listen<undefined>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(ANSWERS[next++]!);
        socket.end();
      },
    },
  });
  const ready = join(folder, "ready.json");
  const records = join(folder, "records");
  const words = ["--to", `http://127.0.0.1:${server.port}`, "--port", "0", "--ready-file", ready, "--record", records];
  const proxy = Bun.spawn([process.execPath, main, "proxy", ...words], { stdout: "ignore", stderr: "ignore" });
  await eventually(() => existsSync(ready), 2000);
  const port = Number(new URL((await Bun.file(ready).json()).url).port);
  for (const [at, answer] of ANSWERS.entries()) {
    const { bytes } = await readWire(port, asked(at));
    expect(bodyOf(bytes)).toEqual(bodyOf(Buffer.from(answer)));
    await eventually(() => readdirSync(records).length === at + 1);
  }
  proxy.kill();
  server.stop(true);
  const player = await hosted(["--served-model-name", "m", "--fixtures", records]);
  for (const [at, answer] of ANSWERS.entries()) {
    const { bytes } = await readWire(Number(new URL(player.url).port), asked(at));
    expect(bodyOf(bytes)).toEqual(bodyOf(Buffer.from(answer)));
    expect(bytes.toString().split(" ")[1]).toBe(answer.split(" ")[1]!);
  }
  await player.stop();
});

test("any split of the bytes gives the same events, without loss", () => {
  const line = fc.constantFrom("data: x", "data: é", ": c", "event: e");
  const ends = fc.constantFrom("\n", "\r\n", "\r");
  const event = fc
    .tuple(fc.array(line, { minLength: 1, maxLength: 3 }), ends)
    .map(([lines, end]) => `${lines.join(end)}${end}${end}`);
  const cuts = fc.array(fc.nat({ max: 12 }), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 5 }), cuts, (events, sizes) => {
      const bytes = Buffer.from(events.join(""));
      const passing = new PassingEvents();
      const seen: string[] = [];
      for (let at = 0, cut = 0; at < bytes.length; cut++) {
        const size = 1 + sizes[cut % sizes.length]!;
        seen.push(...passing.push(bytes.subarray(at, at + size)));
        at += size;
      }
      const rest = passing.end();
      if (rest !== "") seen.push(rest);
      expect(seen.join("")).toBe(events.join(""));
      expect(seen.map(withLineFeeds)).toEqual(events.map(withLineFeeds));
    }),
    { numRuns: 500 },
  );
});
