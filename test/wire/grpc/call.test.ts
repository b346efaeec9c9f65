/** Tests calls without sockets: messages and their limits, compression, deadlines and statuses. */
import { expect, test } from "bun:test";
import { deflateSync, gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { parsePlan } from "../../../src/faults/parse.ts";
import type { CallHandler, GrpcCall } from "../../../src/wire/grpc/call.ts";
import { encodingOf } from "../../../src/wire/grpc/compression.ts";
import { timeoutUs } from "../../../src/wire/grpc/deadlines.ts";
import { FaultyMessages } from "../../../src/wire/grpc/faulty.ts";
import { HeldMessages } from "../../../src/wire/grpc/held-messages.ts";
import { MESSAGE_HEAD_BYTES } from "../../../src/wire/grpc/incoming.ts";
import { GrpcServer } from "../../../src/wire/grpc/server.ts";
import { pacing } from "../../../src/wire/http/deadlines.ts";
import { WaitingBytes } from "../../../src/wire/http/waiting-bytes.ts";
import { FrameFlag, FrameType, Http2Code } from "../../../src/wire/http2/frames.ts";
import type { HeaderField } from "../../../src/wire/http2/hpack.ts";
import { times } from "../../size.ts";
import { frame, headers, Peer } from "../http2/peer.ts";

const MESSAGE_BYTES = 1000;
const HELD_BYTES = 1500;
const WAITING_BYTES = 250;

const CALL: readonly HeaderField[] = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/t.T/Echo"],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
];

/**
 * A server with one method, which records events in `told` and returns each message. `window`: initial window of streams, in
 * bytes.
 */
function served(window?: number) {
  const clock = new VirtualClock();
  const told: string[] = [];
  const broken: unknown[] = [];
  const calls: GrpcCall[] = [];
  const echo = (call: GrpcCall): CallHandler => {
    calls.push(call);
    if (call.metadata("pack") !== null) call.encoding = "gzip";
    return {
      message(bytes) {
        told.push(`message ${Buffer.from(bytes).toString("latin1").slice(0, 12)}`);
        if (bytes[0] === 33) throw new Error("a mistake");
        call.send(Buffer.concat([Buffer.alloc(MESSAGE_HEAD_BYTES), bytes]));
      },
      halfClosed() {
        told.push("half-closed");
        call.end();
      },
      cancelled: () => told.push("cancelled"),
    };
  };
  const waiting = new WaitingBytes(WAITING_BYTES);
  const limits = {
    clock,
    waiting,
    messageBytes: MESSAGE_BYTES,
    turns: { nowUs: () => clock.now() },
    held: new HeldMessages(HELD_BYTES),
    broken: (why: unknown) => broken.push(why),
  };
  const peer = new Peer(new GrpcServer(new Map([["/t.T/Echo", echo]]), limits));
  peer.greet(...(window === undefined ? [] : [[4, window] as const]));
  return { peer, clock, told, broken, calls, waiting };
}

const message = (body: Uint8Array | string, flag = 0): Buffer => {
  const bytes = Buffer.from(body as string);
  const head = Buffer.from([flag, 0, 0, 0, 0]);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
};
const data = (id: number, bytes: Uint8Array, ends = false) =>
  frame(FrameType.Data, ends ? FrameFlag.EndStream : 0, id, bytes);
const call = (...more: HeaderField[]) => headers(1, false, [...CALL, ...more]);
const statusOf = (peer: Peer, id = 1) => {
  const fields = Object.fromEntries(peer.fields(id));
  return [fields["grpc-status"], fields["grpc-message"]];
};
const answers = (peer: Peer, id = 1) => Buffer.concat(peer.data.get(id) ?? []);

test("messages arrive whole, however they are cut into frames", () => {
  const parts = fc.array(fc.string({ maxLength: 200 }), { maxLength: 6 });
  fc.assert(
    fc.property(parts, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (texts, cuts) => {
      const { peer, told } = served();
      const all = Buffer.concat(texts.map((text) => message(text.replace(/^!/, "."))));
      peer.send(call());
      for (let at = 0, turn = 0; at < all.length; turn++) {
        const to = at + cuts[turn % cuts.length]!;
        peer.send(data(1, all.subarray(at, to)));
        at = to;
      }
      peer.send(data(1, Buffer.alloc(0), true));
      expect(told.filter((one) => one.startsWith("message")).length).toBe(texts.length);
      expect(answers(peer)).toEqual(all);
      expect([statusOf(peer), told.at(-1)]).toEqual([["0", undefined], "half-closed"]);
    }),
    { numRuns: times(200) },
  );
});

const HEADS = [
  [":status", "200"],
  ["content-type", "application/grpc"],
] as const;

test("the header blocks before, after and instead of answers", () => {
  const { peer, calls } = served();
  peer.send(call(), data(1, message("a"), true));
  expect(peer.fields(1)).toEqual([
    ...HEADS.map((one) => [...one] as [string, string]),
    ["grpc-accept-encoding", "identity, deflate, gzip"],
    ["grpc-status", "0"],
  ]);
  peer.send(headers(3, false, CALL));
  calls[1]!.end({ code: "NOT_FOUND", message: " 100 % ü\nnext " });
  peer.turn();
  expect(peer.fields(3)).toEqual([
    ...HEADS.map((one) => [...one] as [string, string]),
    ["grpc-status", "5"],
    ["grpc-message", "%20100 %25 %C3%BC%0Anext%20"],
  ]);
  // Calls after the end have no effect.
  calls[1]!.end();
  calls[1]!.send(message("late"));
  peer.turn();
  expect(peer.data.get(3)).toBeUndefined();
});

test.each([
  ["no method at the path", [[":path", "/t.T/Other"]], "12"],
  ["an unknown compression", [["grpc-encoding", "snappy"]], "12"],
  ["too much metadata", [["long", "x".repeat(20_000)]], "8"],
] as const)("refused: %s", (_, changes, status) => {
  const { peer, told } = served();
  const names = changes.map(([name]) => name as string);
  peer.send(
    headers(
      1,
      false,
      [...CALL.filter(([name]) => !names.includes(name)), ...changes].sort(
        ([a], [b]) => Number(!a.startsWith(":")) - Number(!b.startsWith(":")),
      ),
    ),
  );
  peer.send(data(1, message("a"), true));
  expect([statusOf(peer)[0], told, peer.goAway]).toEqual([status, [], null]);
});

test("requests that are not gRPC calls get an HTTP error", () => {
  const { peer } = served();
  peer.send(
    headers(
      1,
      true,
      CALL.map(([name, value]) => [name, name === ":method" ? "GET" : value]),
    ),
  );
  peer.send(
    headers(
      3,
      true,
      CALL.filter(([name]) => name !== "content-type"),
    ),
  );
  expect([peer.fields(1), peer.fields(3)]).toEqual([[[":status", "405"]], [[":status", "415"]]]);
});

test("a message above the limit is refused before it arrives; one at the limit passes", () => {
  const { peer, told } = served();
  peer.send(call(), data(1, message("x".repeat(MESSAGE_BYTES))));
  const head = Buffer.from([0, 0, 0, 0, 0]);
  head.writeUInt32BE(MESSAGE_BYTES + 1, 1);
  peer.send(data(1, head));
  expect([statusOf(peer), told.at(-1)]).toEqual([
    ["8", "Received message larger than max (1001 vs. 1000)"],
    "cancelled",
  ]);
  const huge = Buffer.from([0, 255, 255, 255, 255]);
  peer.send(headers(3, false, CALL), data(3, huge.subarray(0, 3)), data(3, huge.subarray(3)));
  expect(statusOf(peer, 3)).toEqual(["8", "Received message larger than max (4294967295 vs. 1000)"]);
});

test("incomplete messages of all calls together are limited, and counted down at the end of each call", () => {
  const { peer } = served();
  const part = message("x".repeat(900)).subarray(0, 800);
  peer.send(call(), data(1, part), headers(3, false, CALL), data(3, part));
  expect([statusOf(peer, 1)[0], statusOf(peer, 3)[0]]).toEqual([undefined, "8"]);
  peer.send(frame(FrameType.RstStream, 0, 1, Buffer.from([0, 0, 0, 8])), headers(5, false, CALL), data(5, part));
  expect(statusOf(peer, 5)[0]).toBeUndefined();
  peer.send(data(5, message("x".repeat(900)).subarray(800), true));
  expect([statusOf(peer, 5)[0], answers(peer, 5).length]).toEqual(["0", 905]);
});

test("compressed requests; refused if too large, invalid or without a grpc-encoding", () => {
  const { peer, told } = served();
  peer.send(call(["grpc-encoding", "gzip"]), data(1, message(gzipSync("abc"), 1)), data(1, message("plain"), true));
  expect([told, statusOf(peer)[0]]).toEqual([["message abc", "message plain", "half-closed"], "0"]);
  const cases = [
    ["deflate", message(deflateSync("abc"), 1), "0"],
    ["gzip", message(gzipSync(Buffer.alloc(MESSAGE_BYTES + 1)), 1), "8"],
    ["gzip", message("no gzip", 1), "13"],
    ["identity", message(gzipSync("abc"), 1), "13"],
    ["gzip", message("abc", 2), "13"],
  ] as const;
  for (const [at, [encoding, bytes, status]] of cases.entries()) {
    const id = 3 + 2 * at;
    peer.send(headers(id, false, [...CALL, ["grpc-encoding", encoding]]), data(id, bytes, true));
    expect([encoding, statusOf(peer, id)[0]]).toEqual([encoding, status]);
  }
});

test("compressed answers", () => {
  const { peer } = served();
  peer.send(call(["pack", "yes"]), data(1, message("abcabcabc"), true));
  const bytes = answers(peer);
  expect([bytes[0], bytes.readUInt32BE(1), gunzipSync(bytes.subarray(5)).toString()]).toEqual([
    1,
    bytes.length - 5,
    "abcabcabc",
  ]);
  expect(peer.fields(1)).toContainEqual(["grpc-encoding", "gzip"]);
});

test("the compression that each level means", () => {
  const both = "identity, deflate, gzip";
  expect((["none", "low", "medium", "high"] as const).map((level) => encodingOf(level, both))).toEqual([
    null,
    "gzip",
    "deflate",
    "deflate",
  ]);
  expect(["low", "high"].map((level) => encodingOf(level as "low", "identity,gzip"))).toEqual(["gzip", "gzip"]);
  expect(encodingOf("high", "")).toBeNull();
});

test("a deadline ends its call in time, and an ended call has no deadline left", () => {
  const { peer, clock, told } = served();
  peer.send(call(["grpc-timeout", "100m"]), headers(3, false, [...CALL, ["grpc-timeout", "50m"]]));
  peer.send(data(3, message("a"), true));
  clock.advanceTo(99_000);
  peer.turn();
  expect([statusOf(peer), told]).toEqual([
    [undefined, undefined],
    ["message a", "half-closed"],
  ]);
  clock.advanceTo(104_000);
  peer.turn();
  expect([statusOf(peer), told.at(-1), peer.connection.streams]).toEqual([["4", "Deadline Exceeded"], "cancelled", 0]);
});

test("times in grpc-timeout", () => {
  expect(["1H", "2M", "3S", "4m", "5u", "6000n"].map(timeoutUs)).toEqual([3600e6, 120e6, 3e6, 4000, 5, 6]);
  expect(["", "5", "m", "-1S", "123456789S", "1.5S"].map(timeoutUs)).toEqual(new Array(6).fill(null));
});

test("a reset, half a message and a throwing handler end only their own call", () => {
  const { peer, told, broken } = served();
  peer.send(call(), data(1, message("a")), frame(FrameType.RstStream, 0, 1, Buffer.from([0, 0, 0, 8])));
  expect(told).toEqual(["message a", "cancelled"]);
  peer.send(headers(3, false, CALL), data(3, message("abc").subarray(0, 6), true));
  expect(statusOf(peer, 3)[0]).toBe("13");
  peer.send(headers(5, false, CALL), data(5, message("!")));
  expect([statusOf(peer, 5), broken.length]).toEqual([["2", "Unexpected error in RPC handling"], 1]);
  peer.send(headers(7, false, CALL), data(7, message("fine"), true));
  expect([statusOf(peer, 7)[0], peer.goAway, peer.connection.streams]).toEqual(["0", null, 0]);
});

test("clients that do not read: a call whose answer exceeds the common limit is cancelled and reset, others continue", () => {
  const { peer, told, waiting } = served(0);
  const answer = MESSAGE_HEAD_BYTES + 100;
  const ask = (id: number) => peer.send(headers(id, false, CALL), data(id, message("a".repeat(100))));
  for (const id of [1, 3]) ask(id);
  expect([waiting.bytes, peer.resets]).toEqual([2 * answer, {}]);
  ask(5);
  expect([waiting.bytes, peer.resets]).toEqual([2 * answer, { 5: Http2Code.Calm }]);
  expect(told.filter((one) => one === "cancelled")).toHaveLength(1);
  peer.windows.set(1, 0);
  peer.widen(1, 40);
  expect(waiting.bytes).toBe(2 * answer - 40);
  peer.widen(1, 1000);
  expect([answers(peer).length, waiting.bytes]).toEqual([answer, answer]);
  ask(7);
  expect([waiting.bytes, peer.resets]).toEqual([2 * answer, { 5: Http2Code.Calm }]);
  peer.send(frame(FrameType.RstStream, 0, 3, Buffer.from([0, 0, 0, 8])));
  expect(waiting.bytes).toBe(answer);
  peer.connection.lost();
  expect(waiting.bytes).toBe(0);
});

test("messages that a fault holds back count as waiting bytes", () => {
  const { peer, clock, calls, waiting } = served(0);
  const plan = parsePlan("T1@e1,1s");
  const order = { plan, key: "k", isBrief: true, told() {} };
  for (const id of [1, 3]) {
    peer.send(headers(id, false, CALL));
    calls
      .at(-1)!
      .disturb(
        (stream, held, lost) =>
          new FaultyMessages(order, pacing(clock), { stream, connection: peer.connection, held }, lost),
      );
  }
  const answer = MESSAGE_HEAD_BYTES + 20;
  const said = data(1, message("a".repeat(20)));
  for (let sent = 1; sent <= 6; sent++) {
    peer.send(said);
    expect(waiting.bytes).toBe(sent * answer);
  }
  peer.send(data(3, message("a".repeat(100))));
  expect([waiting.bytes, peer.resets]).toEqual([6 * answer, { 3: Http2Code.Calm }]);
  peer.connection.lost();
  expect(waiting.bytes).toBe(0);
});
