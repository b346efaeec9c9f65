/** Sends random bytes to listening sockets, with and without a handshake before. Nothing is held afterwards, and peers can join. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { WallClock } from "../../../src/base/clock.ts";
import { seeded } from "../../../src/base/random.ts";
import { greeting, ready } from "../../../src/wire/zmtp/frames.ts";
import type { SocketType } from "../../../src/wire/zmtp/peer.ts";
import { ZmtpSocket } from "../../../src/wire/zmtp/socket.ts";
import { seed, sized } from "../../size.ts";

setDefaultTimeout(120_000);

const clock = new WallClock();
const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
afterAll(() => clock.close());

const MS = sized("fronts", { sample: 400, whole: 20_000 });
const OTHER: Partial<Record<SocketType, SocketType>> = { ROUTER: "DEALER", PUB: "SUB", PULL: "PUSH" };
const CONNECTIONS = 8;

test.each(["ROUTER", "PUB", "PULL"] as const)("a %s survives random bytes", async (type) => {
  const draw = seeded(seed);
  const socket = new ZmtpSocket(type, { timer });
  const endpoint = socket.bind("tcp://127.0.0.1:0");
  const port = Number(endpoint.split(":").at(-1));
  const until = performance.now() + MS;
  let sent = 0;
  const attack = async () => {
    while (performance.now() < until) {
      const closed = Promise.withResolvers<void>();
      const connection = await Bun.connect({
        ...{ hostname: "127.0.0.1", port },
        socket: { data() {}, close: () => closed.resolve(), error: () => closed.resolve() },
      });
      const head = draw() % 3;
      if (head > 0) connection.write(greeting(head === 1 ? 0 : 1));
      if (head === 2) connection.write(ready(OTHER[type]!, null));
      const bytes = Buffer.from(Array.from({ length: 1 + (draw() % 2000) }, () => draw() & 255));
      sent += connection.write(bytes);
      await Promise.race([closed.promise, Bun.sleep(5)]);
      connection.terminate();
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, attack));
  expect(sent).toBeGreaterThan(10_000);
  for (let turns = 0; socket.heldBytes > 0 && turns < 500; turns++) await Bun.sleep(2);
  expect(socket.heldBytes).toBe(0);
  const joined = Promise.withResolvers<void>();
  const peer = new ZmtpSocket(OTHER[type]!, { timer, onJoin: () => joined.resolve() });
  peer.connect(endpoint);
  await joined.promise;
  await Promise.all([peer.close(), socket.close()]);
});
