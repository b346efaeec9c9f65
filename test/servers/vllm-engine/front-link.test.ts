/** Tests the link to a front end with several processes: one that does not read, and requests of processes that it does not have. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { WallClock } from "../../../src/base/clock.ts";
import { FrontLink } from "../../../src/servers/vllm-engine/front-link.ts";
import type { FrontMessage } from "../../../src/servers/vllm-engine/messages/incoming.ts";
import { LAYOUTS } from "../../../src/servers/vllm-engine/messages/layouts.ts";
import type { RequestError } from "../../../src/servers/vllm-engine/messages/request.ts";
import { greeting, ready } from "../../../src/wire/zmtp/frames.ts";
import { encoded, mapOf, SmallFront } from "./small-front.ts";

setDefaultTimeout(30_000);

const clock = new WallClock();
const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
const lines: string[] = [];
const received: FrontMessage[] = [];
const refused: RequestError[] = [];

/** The output of a process with the index 1. It reads only while the test lets it. */
let stalled: Bun.Socket | null = null;
const output = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    open: (socket) => {
      stalled = socket;
      socket.write(greeting(0));
      socket.write(ready("PULL", null));
    },
    data: () => {},
  },
});

let front: SmallFront;
let link: FrontLink;
beforeAll(async () => {
  front = new SmallFront(0, [`tcp://127.0.0.1:${output.port}`]);
  link = new FrontLink({ address: "127.0.0.1", rpcPort: front.rpcPort, rank: 0 }, timer, {
    layout: LAYOUTS["0.33"],
    registration: () => encoded(mapOf({})),
    begins: () => {},
    received: (message) => received.push(message),
    refused: (error) => refused.push(error),
    lost: () => {},
    log: (line) => lines.push(line),
  });
  await front.until(() => link.isReady);
});
afterAll(async () => {
  stalled?.resume();
  await Promise.all([link.close(), front.close()]);
  output.stop(true);
  clock.close();
});

const MESSAGE = Buffer.alloc(1 << 20);

test("what a process does not read is dropped from 64 MiB on, and logged at the first message and when it reads again", async () => {
  stalled!.pause();
  const of = (text: string) => lines.filter((line) => line.includes(text));
  for (let sent = 0; sent < 100; sent++) {
    link.send(1, [MESSAGE]);
    await Bun.sleep(0);
  }
  expect(of("process 1 of the front end")).toEqual([
    "process 1 of the front end does not read: messages to it are dropped",
  ]);
  stalled!.resume();
  await front.until(() => of("reads again").length === 1);
  const [, dropped] = of("reads again")[0]!.match(/; (\d+) messages to it were dropped$/)!;
  // The operating system holds some of the messages.
  expect(Number(dropped)).toBeGreaterThan(20);
  expect(Number(dropped)).toBeLessThanOrEqual(36);
});

const request = (id: string, client: number, prompt: readonly number[] = [1]) =>
  encoded([id, prompt, ...Array(3).fill(null), 0, ...Array(5).fill(null), client]);

test("a message of a process that the front end does not have is dropped", async () => {
  for (const client of [-1, 2]) {
    front.send([Buffer.from([0]), request("nowhere", client)]);
    front.send([Buffer.from([0]), request("nowhere", client, [0.5])]);
    front.send([Buffer.from([3]), encoded([client, 1, "is_sleeping", []])]);
  }
  front.send([Buffer.from([0]), request("there", 1)]);
  front.send([Buffer.from([0]), request("wrong", 1, [0.5])]);
  await front.until(() => refused.length > 0);
  expect(received).toMatchObject([{ type: "add", request: { request_id: "there", client_index: 1 } }]);
  expect(refused).toMatchObject([{ request_id: "wrong", client_index: 1 }]);
  const why = (client: number) =>
    `a message of the front end is dropped: client_index: the front end has 2 processes, and none has the index ${client}`;
  expect(lines.filter((line) => line === why(-1))).toHaveLength(2);
  expect(lines.filter((line) => line === why(2))).toHaveLength(2);
});
