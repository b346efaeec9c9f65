/** Tests ZeroMQ sockets against each other, and against peers that violate the protocol, over loopback connections. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WallClock } from "../../../src/base/clock.ts";
import { command, greeting, ready, readyProperties, zmtpParts } from "../../../src/wire/zmtp/frames.ts";
import type { SocketType } from "../../../src/wire/zmtp/peer.ts";
import { type ZmtpOptions, ZmtpSocket } from "../../../src/wire/zmtp/socket.ts";

setDefaultTimeout(20_000);

const clock = new WallClock();
const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

interface TestSocket {
  readonly socket: ZmtpSocket;
  readonly got: { readonly frames: readonly string[]; readonly from: Buffer }[];
  readonly lines: string[];
}

function made(type: SocketType, options: Partial<ZmtpOptions> = {}): TestSocket {
  const got: TestSocket["got"] = [];
  const lines: string[] = [];
  const socket = new ZmtpSocket(type, {
    timer,
    onMessage: (frames, from) => got.push({ frames: frames.map((frame) => Buffer.from(frame).toString()), from }),
    log: (line) => lines.push(line),
    ...options,
  });
  open.push(() => socket.close());
  return { socket, got, lines };
}

async function until(isDone: () => boolean): Promise<void> {
  for (let turns = 0; !isDone(); turns++) {
    if (turns > 8000) throw new Error("it did not happen");
    await Bun.sleep(1);
  }
}

const bytes = (...texts: readonly string[]) => texts.map((text) => Buffer.from(text));
const LOCAL = "tcp://127.0.0.1:*";

/** Opens a plain connection. Returns it with everything that it receives. */
async function raw(address: string) {
  const parts: Buffer[] = [];
  const state = { closed: false };
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: Number(address.split(":").at(-1)),
    socket: {
      data: (_, part) => void parts.push(Buffer.from(part)),
      close: () => {
        state.closed = true;
      },
    },
  });
  open.push(() => socket.terminate());
  return { socket, state, received: () => Buffer.concat(parts) };
}

test("a ROUTER sees the identities of DEALERs, and answers each", async () => {
  const router = made("ROUTER");
  const address = router.socket.bind(LOCAL);
  const dealers = ["a", "b"].map((name) => made("DEALER", { identity: Buffer.from(name) }));
  for (const { socket } of dealers) socket.connect(address);
  await until(() => router.socket.peers.length === 2);
  for (const [at, { socket }] of dealers.entries()) await until(() => socket.send(bytes(`hello ${at}`, "", "more")));
  await until(() => router.got.length === 2);
  for (const { frames, from } of router.got) router.socket.sendTo(from, [...bytes(...frames), from]);
  await until(() => dealers.every(({ got }) => got.length === 1));
  expect(dealers.map(({ got }) => got[0]!.frames)).toEqual([
    ["hello 0", "", "more", "a"],
    ["hello 1", "", "more", "b"],
  ]);
  expect(router.socket.sendTo(Buffer.from("c"), bytes("x"))).toBe(false);
  expect(router.socket.dropped).toBe(1);
});

test("a PUSH that connects delivers to a PULL, over an ipc path too, and long frames arrive whole", async () => {
  const folder = mkdtempSync(join(tmpdir(), "zmtp-"));
  open.push(() => rmSync(folder, { recursive: true }));
  const pull = made("PULL");
  const endpoints = [pull.socket.bind(LOCAL), pull.socket.bind(`ipc://${folder}/socket`)];
  for (const endpoint of endpoints) {
    const push = made("PUSH");
    push.socket.connect(endpoint);
    await until(() => push.socket.peers.length === 1);
    expect(push.socket.send(bytes(endpoint, "x".repeat(3_000_000)))).toBe(true);
  }
  await until(() => pull.got.length === 2);
  expect(pull.got.map(({ frames: [first, second] }) => [first, second!.length])).toEqual(
    endpoints.map((endpoint) => [endpoint, 3_000_000]),
  );
});

test("a PUSH sends to its peers in turn", async () => {
  const pulls = [made("PULL"), made("PULL")];
  const push = made("PUSH");
  for (const { socket } of pulls) push.socket.connect(socket.bind(LOCAL));
  await until(() => push.socket.peers.length === 2);
  for (let at = 0; at < 10; at++) push.socket.send(bytes(`${at}`));
  await until(() => pulls.every(({ got }) => got.length === 5));
});

test("a SUB gets the messages of its topics, also after a later subscription, and none after taking it back", async () => {
  const pub = made("PUB");
  const sub = made("SUB");
  sub.socket.subscribe(Buffer.from("a"));
  sub.socket.connect(pub.socket.bind(LOCAL));
  const wanted = (topic: string) => pub.socket.publish(bytes(topic, "-")) === 1;
  await until(() => wanted("a1"));
  const before = sub.got.length;
  expect(pub.socket.publish(bytes("b1"))).toBe(0);
  sub.socket.subscribe(Buffer.from("b"));
  await until(() => wanted("b2"));
  sub.socket.unsubscribe(Buffer.from("a"));
  await until(() => !wanted("a2"));
  sub.socket.unsubscribe(Buffer.from("b"));
  await until(() => !wanted("b3"));
  expect(before).toBeLessThanOrEqual(sub.got.length);
  expect(sub.got.every(({ frames }) => /^(a|b)/.test(frames[0]!))).toBe(true);
});

test("an XSUB subscribes with a message", async () => {
  const pub = made("PUB");
  const xsub = made("XSUB");
  xsub.socket.connect(pub.socket.bind(LOCAL));
  await until(() => xsub.socket.peers.length === 1);
  xsub.socket.send([Buffer.from([1])]);
  await until(() => pub.socket.publish(bytes("READY")) === 1);
  await until(() => xsub.got.length > 0);
});

test("a version 3.1 peer subscribes with commands, and gets a PONG with the context of its PING", async () => {
  const pub = made("PUB");
  const { socket, received } = await raw(pub.socket.bind(LOCAL));
  socket.write(Buffer.concat([greeting(1), ready("SUB", null), command("SUBSCRIBE", Buffer.from("t"))]));
  await until(() => pub.socket.publish(bytes("t1")) === 1);
  socket.write(command("PING", Buffer.from("000affee", "hex")));
  await until(() => received().includes(command("PONG", Buffer.from("ffee", "hex"))));
  socket.write(command("CANCEL", Buffer.from("t")));
  await until(() => pub.socket.publish(bytes("t2")) === 0);
});

test("a connection is opened again after the peer has gone, and the identity and the topics are sent again", async () => {
  const first = made("PUB");
  const address = first.socket.bind(LOCAL);
  const sub = made("SUB");
  sub.socket.subscribe(Buffer.from("t"));
  sub.socket.connect(address);
  await until(() => first.socket.publish(bytes("t1")) === 1);
  await first.socket.close();
  await until(() => sub.socket.peers.length === 0);
  const second = made("PUB");
  second.socket.bind(address);
  await until(() => second.socket.publish(bytes("t2")) === 1);
  await until(() => sub.got.some(({ frames }) => frames[0] === "t2"));
});

test("a subscriber that never reads loses messages, which are counted, and memory stays flat", async () => {
  const pub = made("PUB", { highWaterMark: 100 });
  const { socket } = await raw(pub.socket.bind(LOCAL));
  socket.pause();
  socket.write(Buffer.concat([greeting(0), ready("SUB", null), ...zmtpParts([Buffer.from([1])])]));
  const message = [Buffer.from("t"), Buffer.alloc(10_000)];
  await until(() => pub.socket.publish(message) === 1);
  await until(() => pub.socket.publish(message) === 1 && pub.socket.dropped > 0);
  const held = pub.socket.heldBytes;
  for (let at = 0; at < 5000; at++) pub.socket.publish(message);
  expect(pub.socket.dropped).toBeGreaterThan(5000);
  expect(pub.socket.heldBytes).toBeLessThanOrEqual(Math.max(held, 101 * 10_020));
});

test("a PUSH refuses messages above its high-water mark, and tells when there is room again", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const push = made("PUSH", { highWaterMark: 10, onDrain: resolve });
  const { socket, received } = await raw(push.socket.bind(LOCAL));
  socket.write(Buffer.concat([greeting(1), ready("PULL", null)]));
  await until(() => push.socket.peers.length === 1);
  socket.pause();
  let sent = 0;
  const big = [Buffer.alloc(100_000, 5)];
  while (push.socket.send(big)) sent++;
  expect(push.socket.send(big)).toBe(false);
  socket.resume();
  await promise;
  await until(() => received().length >= sent * 100_009);
  expect(push.socket.heldBytes).toBe(0);
});

test("closing waits for what must be sent, and drops it after the linger time", async () => {
  const push = made("PUSH");
  const pull = made("PULL");
  push.socket.connect(pull.socket.bind(LOCAL));
  await until(() => push.socket.peers.length === 1);
  for (let at = 0; at < 50; at++) push.socket.send([Buffer.alloc(200_000)]);
  await push.socket.close(10_000);
  await until(() => pull.got.length === 50);
  const stuck = made("PUSH");
  const { socket } = await raw(stuck.socket.bind(LOCAL));
  socket.write(Buffer.concat([greeting(1), ready("PULL", null)]));
  await until(() => stuck.socket.peers.length === 1);
  socket.pause();
  while (stuck.socket.send([Buffer.alloc(1_000_000)]));
  await stuck.socket.close(20);
  expect(stuck.socket.heldBytes).toBe(0);
});

const curve = greeting(1);
curve.fill(0, 12, 32).write("CURVE", 12, "latin1");
test.each<[string, Buffer, string]>([
  ["HTTP", Buffer.from("GET / HTTP/1.1\r\n\r\n"), "the peer does not speak ZMTP 3: no greeting"],
  ["CURVE", curve, "the peer wants the mechanism CURVE; NULL is accepted"],
  [
    "a foreign type",
    Buffer.concat([greeting(1), ready("SUB", null)]),
    "the peer's socket is SUB; accepted: DEALER, ROUTER, REQ",
  ],
  ["no type", Buffer.concat([greeting(1), command("READY", Buffer.alloc(0))]), "the peer's socket is nameless"],
  ["an early message", Buffer.concat([greeting(1), ...zmtpParts(bytes("x"))]), "a message before READY"],
  ["an ERROR", Buffer.concat([greeting(1), command("ERROR", Buffer.from("\x02no"))]), "the peer refused: no"],
  ["a long identity", Buffer.concat([greeting(1), ready("DEALER", Buffer.alloc(256))]), "an identity of 256 bytes"],
])("a peer is closed with the reason, and others go on: %s", async (_, sent, why) => {
  const router = made("ROUTER");
  const address = router.socket.bind(LOCAL);
  const { socket, state } = await raw(address);
  socket.write(sent);
  await until(() => state.closed);
  expect(router.lines).toEqual([expect.stringContaining(`a ZeroMQ peer was closed: ${why}`)]);
  const dealer = made("DEALER");
  dealer.socket.connect(address);
  await until(() => dealer.socket.send(bytes("x")));
  await until(() => router.got.length === 1);
});

test("a second peer with the same identity is refused", async () => {
  const router = made("ROUTER");
  const address = router.socket.bind(LOCAL);
  made("DEALER", { identity: Buffer.from("a") }).socket.connect(address);
  await until(() => router.socket.peers.length === 1);
  const { socket, state } = await raw(address);
  socket.write(Buffer.concat([greeting(1), ready("DEALER", Buffer.from("a"))]));
  await until(() => state.closed);
  expect(router.socket.peers.length).toBe(1);
});

test("a socket has at most 1,024 peers, and a handshake has 30 seconds", async () => {
  let nowUs = 0;
  let expire = () => {};
  const late = {
    nowUs: () => nowUs,
    after: (us: number, act: () => void) => {
      expect(us).toBe(30e6);
      expire = act;
      return () => {};
    },
  };
  const router = made("ROUTER", { timer: late });
  const address = router.socket.bind(LOCAL);
  const peers: Awaited<ReturnType<typeof raw>>[] = [];
  for (let at = 0; at < 1030; at++) peers.push(await raw(address));
  await until(() => peers.filter(({ state }) => state.closed).length === 6);
  nowUs = 30e6;
  expire();
  await until(() => peers.every(({ state }) => state.closed));
  expect(router.socket.heldBytes).toBe(0);
  expect(router.lines.length).toBe(1024);
  expect(router.lines[0]).toBe("a ZeroMQ peer was closed: the handshake took too long");
});

test("a publisher that ignores topics does not get through to a SUB", async () => {
  const sub = made("SUB");
  sub.socket.subscribe(Buffer.from("a"));
  const { socket } = await raw(sub.socket.bind(LOCAL));
  socket.write(
    Buffer.concat([greeting(1), ready("PUB", null), ...zmtpParts(bytes("b", "1")), ...zmtpParts(bytes("a", "2"))]),
  );
  await until(() => sub.got.length > 0);
  expect(sub.got.map(({ frames }) => frames)).toEqual([["a", "2"]]);
});

test("a high-water mark of 0 limits only the bytes", async () => {
  const push = made("PUSH", { highWaterMark: 0 });
  const { socket } = await raw(push.socket.bind(LOCAL));
  socket.write(Buffer.concat([greeting(1), ready("PULL", null)]));
  await until(() => push.socket.peers.length === 1);
  socket.pause();
  let sent = 0;
  while (sent < 5000 && push.socket.send([Buffer.alloc(1000)])) sent++;
  expect(sent).toBe(5000);
  while (push.socket.send([Buffer.alloc(1_000_000)]));
  expect(push.socket.heldBytes).toBeLessThan(2 ** 26 + 2_000_000);
});

test("a malformed address and a port in use are refused", () => {
  const { socket } = made("PUB");
  for (const wrong of ["tcp://", "tcp://a", "tcp://a:70000", "udp://a:1", "ipc://"])
    expect(() => socket.bind(wrong)).toThrow(`${wrong} is no address; accepted: tcp://HOST:PORT, ipc://PATH`);
  const address = socket.bind(LOCAL);
  expect(() => made("PUB").socket.bind(address)).toThrow(`${address} is in use`);
});

test("the properties of READY are read, and malformed ones are not", () => {
  const whole = ready("DEALER", Buffer.from("me")).subarray(8);
  expect([...readyProperties(whole)!].map(([name, value]) => [name, Buffer.from(value).toString()])).toEqual([
    ["socket-type", "DEALER"],
    ["identity", "me"],
  ]);
  for (let length = 1; length < whole.length; length++)
    if (length !== 22) expect(readyProperties(whole.subarray(0, length))).toBeNull();
});
