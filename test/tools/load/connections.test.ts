/** Tests that connections are opened ahead of time if requests need them one after another, and no more than that. */
import { afterEach, expect, test } from "bun:test";
import type { Socket } from "bun";
import { WallClock } from "../../../src/base/clock.ts";
import { Connections, type ResponseReceiver } from "../../../src/tools/load/clients/connections.ts";
import { eventually } from "../../server.ts";

const REQUESTS = 20;
/** Times on the client's clock. */
const EVERY_US = 5000;
const PAUSE_MS = 5;

let end = () => {};
afterEach(() => end());

/** A receiver whose answer never comes. */
const waiting = (): ResponseReceiver & { lostWhy: string | null } => ({
  over: false,
  keepAlive: true,
  begun: false,
  lostWhy: null,
  sent() {},
  data() {},
  lost(_, why) {
    this.lostWhy = why;
  },
  unreachable(_, why) {
    this.lostWhy = why;
  },
  settle() {},
});

/** A server that only counts connections. `leave`: what it does with connections that sent nothing for `idleMs`. */
function counting(
  idleMs = Number.POSITIVE_INFINITY,
  leave = (socket: Socket<{ text: string }>): unknown => socket.end(),
) {
  const seen = { opened: 0, closedIdle: 0, requests: [] as string[] };
  const server = Bun.listen<{ text: string }>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket: Socket<{ text: string }>) {
        seen.opened++;
        socket.data = { text: "" };
        if (idleMs === Number.POSITIVE_INFINITY) return;
        setTimeout(() => {
          if (socket.data.text !== "" || socket.readyState !== 1) return;
          seen.closedIdle++;
          leave(socket);
        }, idleMs);
      },
      data(socket, bytes) {
        socket.data.text += bytes.toString();
        seen.requests.push(bytes.toString());
      },
    },
  });
  let nowUs = 0;
  const clock = Object.assign(new WallClock(), { now: () => nowUs });
  const pass = (us: number) => {
    nowUs += us;
    return Bun.sleep(PAUSE_MS);
  };
  const target = { hostname: "127.0.0.1", port: server.port, tls: false, insecure: false, ca: null };
  end = () => {
    clock.close();
    server.stop(true);
  };
  return { seen, pass, connections: (pooled = true) => new Connections(target, pooled, clock) };
}

const TOO_LATE = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";

const request = (index: number) => Buffer.from(`request ${index};`);

test("from the third request on, the connection is open before the send; there are as many connections as requests", async () => {
  const { seen, pass, connections } = counting();
  const client = connections();
  for (let i = 0; i < REQUESTS; i++) {
    if (i > 2) await eventually(() => seen.opened > i);
    client.send(request(i), waiting(), REQUESTS - 1 - i);
    await pass(EVERY_US);
  }
  expect(client.opened).toBe(REQUESTS);
  await eventually(() => seen.requests.length === REQUESTS);
  expect(seen.requests).toEqual(Array.from({ length: REQUESTS }, (_, i) => `request ${i};`));
});

test("at most eight connections are opened ahead, and none after the last request or without reuse", async () => {
  const { pass, connections } = counting();
  const [open, closed, never] = [connections(), connections(), connections(false)];
  for (let i = 0; i < 4; i++) {
    open.send(request(i), waiting(), Number.POSITIVE_INFINITY);
    closed.send(request(i), waiting());
    never.send(request(i), waiting(), Number.POSITIVE_INFINITY);
    await pass(EVERY_US);
  }
  await eventually(() => open.opened === 12);
  await pass(EVERY_US);
  expect([open.opened, closed.opened, never.opened]).toEqual([12, 4, 4]);
});

test("for occasional requests no connection is opened ahead", async () => {
  const { pass, connections } = counting();
  const client = connections();
  for (let i = 0; i < 3; i++) {
    client.send(request(i), waiting(), REQUESTS);
    await pass(150_000);
  }
  expect(client.opened).toBe(3);
});

test.each([
  ["closes idle connections", undefined],
  ["tells idle connections that it waited for too long", (socket: Socket<{ text: string }>) => socket.write(TOO_LATE)],
])("a server that soon %s still gets each request once", async (_, leave) => {
  const { seen, pass, connections } = counting(12, leave);
  const client = connections();
  const receivers = Array.from({ length: REQUESTS }, waiting);
  for (const [i, receiver] of receivers.entries()) {
    client.send(request(i), receiver, REQUESTS - 1 - i);
    await pass(EVERY_US);
  }
  await eventually(() => seen.requests.length >= REQUESTS);
  expect(seen.closedIdle).toBeGreaterThan(0);
  expect(seen.requests.toSorted()).toEqual(Array.from({ length: REQUESTS }, (_, i) => `request ${i};`).toSorted());
  expect(receivers.map(({ lostWhy }) => lostWhy)).toEqual(Array(REQUESTS).fill(null));
});

test("no answer has an earlier time than its request, even in a turn with earlier data", async () => {
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: { data: (socket, bytes) => void socket.write(bytes) },
  });
  let [nowUs, looks] = [1000, 0];
  const turns: (() => void)[] = [];
  // Turns of this clock last until the test ends them.
  const clock = Object.assign(new WallClock(), {
    now: () => {
      looks++;
      return nowUs;
    },
    turn: (run: () => void) => void turns.push(run),
  });
  end = () => {
    clock.close();
    server.stop(true);
  };
  const target = { hostname: "127.0.0.1", port: server.port, tls: false, insecure: false, ca: null };
  const client = new Connections(target, true, clock);
  const times: [sentUs: number, cameUs: number][] = [];
  const looked = async (work: () => void, times: number) => {
    const before = looks;
    work();
    await eventually(() => looks >= before + times);
  };
  for (let i = 0; i < 2; i++) {
    nowUs += 1000;
    let sentUs = 0;
    const receiver = {
      ...waiting(),
      sent: (us: number) => (sentUs = us),
      data: (_: Uint8Array, us: number) => times.push([sentUs, us]),
    };
    // The clock is read when a connection is needed, when the request is sent, and when its answer comes.
    await looked(() => client.send(request(i), receiver), 3);
  }
  while (times.length < 2) turns.shift()!();
  expect(times).toEqual([
    [2000, 2000],
    [3000, 3000],
  ]);
});
