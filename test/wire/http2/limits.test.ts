/** Tests the limits of HTTP/2 in docs/reference/limits.md. */
import { expect, test } from "bun:test";
import net from "node:net";
import { WallClock } from "../../../src/base/clock.ts";
import { UnfinishedRequests } from "../../../src/wire/http/unfinished.ts";
import { uvicorn } from "../../../src/wire/http1/head.ts";
import { apiKeepAlive } from "../../../src/wire/http2/api.ts";
import { type ExchangeServer, Http2Exchange } from "../../../src/wire/http2/exchange.ts";
import { FrameFlag, FrameType, Http2Code } from "../../../src/wire/http2/frames.ts";
import { encodeFields } from "../../../src/wire/http2/hpack.ts";
import { Http2Server } from "../../../src/wire/http2/server.ts";
import { frame, headers, Peer, settings } from "./peer.ts";

const HEAD = encodeFields([[":status", "200"]]);
const four = (value: number) => {
  const made = Buffer.alloc(4);
  made.writeUInt32BE(value);
  return made;
};
const data = (id: number, text: string) => frame(FrameType.Data, 0, id, Buffer.from(text));
const kib64 = (id: number) =>
  Buffer.concat(Array.from({ length: 4 }, () => frame(FrameType.Data, 0, id, Buffer.alloc(16_384 - 1))));
const opened = (peer: Peer, id: number) =>
  peer
    .of(FrameType.WindowUpdate)
    .filter((one) => one.id === id)
    .map(({ payload }) => payload.readUInt32BE(0));

test("a client that exceeds a window is cut off; reading reopens the window, to 1 MiB for the stream", () => {
  const peer = new Peer();
  peer.greet();
  const owner = peer.open(1);
  owner.stream.pause();
  peer.send(kib64(1), frame(FrameType.Data, 0, 1, Buffer.alloc(3)));
  expect([owner.bytes, peer.goAway, opened(peer, 1)]).toEqual([65_535, null, []]);
  owner.stream.resume();
  peer.turn();
  expect(opened(peer, 1)).toEqual([2 ** 20]);
  owner.stream.pause();
  peer.send(...Array.from({ length: 64 }, () => frame(FrameType.Data, 0, 1, Buffer.alloc(16_384))));
  expect(peer.goAway).toBeNull();
  peer.send(frame(FrameType.Data, 0, 1, Buffer.alloc(1)));
  expect([peer.goAway, owner.told.at(-1)]).toEqual([Http2Code.FlowControl, "gone"]);
});

test("a connection keeps at most 16 MiB unread; reading, answering and resetting streams makes room", () => {
  const peer = new Peer();
  peer.greet();
  const given = () => opened(peer, 0).reduce((sum, bytes) => sum + bytes, 65_535);
  expect(given()).toBe(2 ** 24);
  const owners = Array.from({ length: 256 }, (_, at) => peer.open(2 * at + 1));
  for (const { stream } of owners) {
    stream.pause();
    peer.send(kib64(stream.id));
  }
  const each = 4 * 16_383;
  expect([given(), owners.reduce((sum, { bytes }) => sum + bytes, 0)]).toEqual([2 ** 24, 256 * each]);
  const [read, answered, reset] = owners;
  read!.stream.resume();
  peer.turn();
  expect(given()).toBe(2 ** 24 + each);
  answered!.stream.head(HEAD, true);
  peer.send(frame(FrameType.RstStream, 0, reset!.stream.id, four(8)));
  expect(given()).toBe(2 ** 24 + 3 * each);
  const room = given() - 256 * each;
  const fill = (id: number, bytes: number) => {
    peer.open(id).stream.pause();
    for (let left = bytes; left > 0; left -= 16_384)
      peer.send(frame(FrameType.Data, 0, id, Buffer.alloc(Math.min(left, 16_384))));
  };
  const whole = Math.floor(room / 65_535);
  for (let at = 0; at < whole; at++) fill(513 + 2 * at, 65_535);
  fill(601, room % 65_535);
  expect(peer.goAway).toBeNull();
  peer.send(frame(FrameType.Data, 0, 601, Buffer.alloc(1)));
  expect(peer.goAway).toBe(Http2Code.FlowControl);
});

test("a body that its handler does not read stays unread, whatever its length, until it reads or answers", async () => {
  const exchanges: Http2Exchange[] = [];
  const server = {
    scheme: "http" as const,
    style: uvicorn,
    date: () => "",
    unfinished: new UnfinishedRequests({ nowUs: () => 0, after: () => () => {} }),
    fates: new WeakMap(),
  } satisfies ExchangeServer;
  const peer = new Peer({
    open: (stream, head, line) => {
      const exchange = new Http2Exchange(stream, head, line, server);
      exchanges.push(exchange);
      return exchange;
    },
  });
  peer.greet();
  const ids = Array.from({ length: 200 }, (_, at) => 2 * at + 1);
  for (const id of ids) peer.send(headers(id), kib64(id), frame(FrameType.Data, FrameFlag.EndStream, id));
  const unread = 200 * 4 * 16_383;
  expect(opened(peer, 0)).toEqual([2 ** 24 - 65_535]);
  for (const { request } of exchanges.slice(0, 100)) expect((await request.bytes()).length).toBe(4 * 16_383);
  for (const exchange of exchanges.slice(100)) exchange.answer(404, {}, null);
  peer.turn();
  const given = opened(peer, 0).reduce((sum, bytes) => sum + bytes, 65_535) - 2 ** 24;
  // Read bytes are returned in portions of half of the window, or of the rest of it.
  expect([given > unread / 4, given <= unread, peer.goAway]).toEqual([true, true, null]);
});

test("a header block: 64 KiB, 64 frames", () => {
  const after = (...sizes: readonly number[]) => {
    const peer = new Peer();
    peer.greet().send(frame(FrameType.Headers, 0, 1));
    peer.send(...sizes.map((bytes) => frame(FrameType.Continuation, 0, 1, Buffer.alloc(bytes))));
    return peer.goAway;
  };
  expect([after(...Array(4).fill(16_384)), after(...Array(4).fill(16_384), 1)]).toEqual([null, Http2Code.Calm]);
  expect([after(...Array(63).fill(1)), after(...Array(64).fill(1))]).toEqual([null, Http2Code.Calm]);
});

test("4,096 reset streams are remembered; frames of older ones end the connection", () => {
  const peer = new Peer();
  peer.greet();
  for (let at = 0; at < 4097; at++) peer.open(2 * at + 1).stream.reset(Http2Code.Calm);
  peer.send(data(3, "late"));
  expect(peer.goAway).toBeNull();
  peer.send(data(1, "later"));
  expect(peer.goAway).toBe(Http2Code.StreamClosed);
});

test("a client that has sent no SETTINGS after 120 s is disconnected", async () => {
  const wall = new WallClock();
  const clock = {
    now: () => wall.now() * 600,
    at: (dueUs: number, wake: () => void) => wall.at(dueUs / 600, wake),
    turn: (act: () => void) => wall.turn(act),
  };
  const options = { hostname: "127.0.0.1", port: 0, tls: null, reusePort: false, keepAlive: apiKeepAlive(0), clock };
  const server = new Http2Server({ open: () => ({ data() {}, ended() {}, gone() {} }) }, options);
  const beganUs = clock.now();
  const socket = net.connect({ port: server.port, host: "127.0.0.1" });
  const parts: Buffer[] = [];
  socket.on("data", (part: Buffer) => void parts.push(part));
  await new Promise((resolve) => socket.once("close", resolve));
  expect((clock.now() - beganUs) / 1e6).toBeGreaterThanOrEqual(120);
  expect(Buffer.concat(parts).toString("latin1")).toEndWith("no SETTINGS within 120 s");
  await server.stop(true);
  wall.close();
});

test("streams above the limit are refused", () => {
  const peer = new Peer();
  peer.greet();
  const parts = Array.from({ length: 16_385 }, (_, at) => headers(2 * at + 1));
  peer.send(...parts);
  expect([peer.connection.streams, peer.resets]).toEqual([16_384, { 32769: Http2Code.Refused }]);
});

test("a client that does not read is cut off when too many acknowledgements wait", () => {
  const peer = new Peer();
  peer.greet();
  peer.drain(0);
  const many = Buffer.concat(Array.from({ length: 10_000 }, () => settings()));
  for (let turn = 0; turn < 100 && !peer.cut; turn++) peer.send(many);
  expect(peer.cut).toBe(true);
});
