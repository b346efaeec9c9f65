/** Tests one HTTP/2 connection without sockets: frames in, frames out, for correct and incorrect clients. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { FrameFlag, FrameType, Http2Code, PREFACE } from "../../../src/wire/http2/frames.ts";
import { encodeFields, type HeaderField } from "../../../src/wire/http2/hpack.ts";
import { times } from "../../size.ts";
import { frame, headers, type Owner, Peer, REQUEST, settings, windowUpdate } from "./peer.ts";

const four = (value: number) => {
  const made = Buffer.alloc(4);
  made.writeUInt32BE(value);
  return made;
};
const with_ = (...fields: HeaderField[]): readonly HeaderField[] => [...REQUEST, ...fields];
const HEAD = encodeFields([[":status", "200"]]);
const TRAILERS = encodeFields([["grpc-status", "0"]]);
const data = (id: number, text: string, ends = false) =>
  frame(FrameType.Data, ends ? FrameFlag.EndStream : 0, id, Buffer.from(text));

test("a request with its body and answer; settings are acknowledged", () => {
  const peer = new Peer();
  peer.greet();
  const owner = peer.open(1);
  peer.send(data(1, "one"), data(1, "", true));
  expect(owner.told).toEqual(["data 3", "ended"]);
  owner.stream.head(HEAD, false);
  owner.stream.write(Buffer.from("answer"));
  owner.stream.end(TRAILERS);
  peer.turn();
  expect(peer.fields(1)).toEqual([
    [":status", "200"],
    ["grpc-status", "0"],
  ]);
  expect(Buffer.concat(peer.data.get(1)!).toString()).toBe("answer");
  expect([peer.ended.has(1), peer.resets, peer.connection.streams]).toEqual([true, {}, 0]);
  expect(peer.of(FrameType.Settings).map(({ flags, payload }) => [flags, payload.length])).toEqual([
    [0, 12],
    [FrameFlag.Ack, 0],
  ]);
});

test("after a complete answer an unfinished request gets a reset without error, and its late frames are ignored", () => {
  const peer = new Peer();
  peer.greet();
  peer.open(1).stream.head(HEAD, true);
  peer.send(data(1, "late"), headers(1, true, [["x", "y"]]));
  expect([peer.resets, peer.goAway, peer.connection.streams]).toEqual([{ 1: Http2Code.None }, null, 0]);
});

test("bytes may arrive one by one", () => {
  const peer = new Peer();
  const all = Buffer.concat([PREFACE, settings(), headers(1), data(1, "abc", true)]);
  for (const byte of all) peer.connection.data(Buffer.from([byte]));
  expect(peer.owners.get(1)!.told).toEqual(["data 3", "ended"]);
});

test("requests that arrive all at once are spread over turns, complete and in order", () => {
  const peer = new Peer().greet();
  const ids = Array.from({ length: 200 }, (_, at) => 2 * at + 1);
  const whole = Buffer.concat(ids.map((id) => headers(id, true)));
  peer.connection.data(whole.subarray(0, whole.length - 5));
  const opened = () => [...peer.owners.keys()];
  const seen = [opened().length];
  expect(peer.paused).toBe(true);
  // Bytes that the kernel had delivered before the pause.
  peer.connection.data(whole.subarray(whole.length - 5));
  expect(opened()).toHaveLength(seen[0]!);
  while (peer.paused) {
    peer.oneTurn();
    seen.push(opened().length);
  }
  const perTurn = seen.map((count, at) => count - (seen[at - 1] ?? 0));
  expect([Math.max(...perTurn) <= 64, Math.min(...perTurn) > 0]).toEqual([true, true]);
  expect(opened()).toEqual(ids);
  peer.turn();
  expect(peer.goAway).toBe(null);
});

test("after a connection has ended, its waiting requests are not read", () => {
  const peer = new Peer().greet();
  const frames = Array.from({ length: 100 }, (_, at) => headers(2 * at + 1, true));
  peer.connection.data(Buffer.concat(frames));
  const opened = peer.owners.size;
  peer.connection.lost();
  peer.turn();
  expect([peer.owners.size, opened < 100, peer.paused]).toEqual([opened, true, false]);
});

test("padding, priority, header blocks in parts, and unknown frames and settings", () => {
  const peer = new Peer();
  peer.greet([0x99, 7]);
  const block = encodeFields(REQUEST);
  const padded = Buffer.concat([Buffer.from([3]), four(0), Buffer.from([16]), block.subarray(0, 5), Buffer.alloc(3)]);
  peer.send(
    frame(FrameType.Headers, FrameFlag.Padded | FrameFlag.Priority, 1, padded),
    frame(FrameType.Continuation, 0, 1),
    frame(FrameType.Continuation, FrameFlag.EndHeaders, 1, block.subarray(5)),
    frame(0x42, 0, 0, Buffer.from("whatever")),
    frame(FrameType.Priority, 0, 5, Buffer.concat([four(1), Buffer.from([3])])),
    frame(FrameType.Data, FrameFlag.Padded | FrameFlag.EndStream, 1, Buffer.from([2, 65, 0, 0])),
  );
  expect([peer.owners.get(1)!.told, peer.goAway]).toEqual([["data 1", "ended"], null]);
});

/** Errors of a client, and the code with which the connection ends. */
const wrong: readonly (readonly [string, number, readonly Uint8Array[]])[] = [
  ["a missing preface", Http2Code.Protocol, [Buffer.from("GET / HTTP/1.1\r\n\r\n")]],
  ["a first frame that is not SETTINGS", Http2Code.Protocol, [PREFACE, windowUpdate(0, 1)]],
  [
    "a frame that is too large",
    Http2Code.FrameSize,
    [PREFACE, settings(), frame(FrameType.Data, 0, 1, Buffer.alloc(16_385))],
  ],
  ["settings of a stream", Http2Code.Protocol, [PREFACE, frame(FrameType.Settings, 0, 1)]],
  ["settings of a wrong length", Http2Code.FrameSize, [PREFACE, frame(FrameType.Settings, 0, 0, Buffer.alloc(5))]],
  [
    "an acknowledgement with settings",
    Http2Code.FrameSize,
    [PREFACE, frame(FrameType.Settings, 1, 0, Buffer.alloc(6))],
  ],
  ["a push setting that is neither 0 nor 1", Http2Code.Protocol, [PREFACE, settings([2, 2])]],
  ["an initial window that is too large", Http2Code.FlowControl, [PREFACE, settings([4, 2 ** 31])]],
  ["a maximum frame size that is too small", Http2Code.Protocol, [PREFACE, settings([5, 16_383])]],
];
const later: readonly (readonly [string, number, readonly Uint8Array[]])[] = [
  ["data on a stream that was never opened", Http2Code.Protocol, [data(1, "x")]],
  ["data on stream 0", Http2Code.Protocol, [data(0, "x")]],
  ["headers on stream 0", Http2Code.Protocol, [headers(0)]],
  ["a stream with an even number", Http2Code.Protocol, [headers(2)]],
  ["data after the end", Http2Code.StreamClosed, [headers(1, true), data(1, "x")]],
  ["headers after the end", Http2Code.StreamClosed, [headers(1, true), headers(1, true)]],
  ["a stream number below the last one", Http2Code.StreamClosed, [headers(5, true), headers(3)]],
  ["data after a reset", Http2Code.StreamClosed, [headers(1), frame(FrameType.RstStream, 0, 1, four(8)), data(1, "x")]],
  ["a reset of a stream that was never opened", Http2Code.Protocol, [frame(FrameType.RstStream, 0, 1, four(8))]],
  ["a reset of a wrong length", Http2Code.FrameSize, [headers(1), frame(FrameType.RstStream, 0, 1)]],
  ["a window update on a stream that was never opened", Http2Code.Protocol, [windowUpdate(1, 1)]],
  ["a window update of 0", Http2Code.Protocol, [windowUpdate(0, 0)]],
  ["a window update beyond the maximum", Http2Code.FlowControl, [windowUpdate(0, 2 ** 31 - 1)]],
  ["a window update of a wrong length", Http2Code.FrameSize, [frame(FrameType.WindowUpdate, 0, 0, Buffer.alloc(3))]],
  ["a ping of a wrong length", Http2Code.FrameSize, [frame(FrameType.Ping, 0, 0, Buffer.alloc(7))]],
  ["a ping on a stream", Http2Code.Protocol, [frame(FrameType.Ping, 0, 1, Buffer.alloc(8))]],
  ["a push", Http2Code.Protocol, [frame(FrameType.PushPromise, 4, 1, Buffer.alloc(4))]],
  ["a continuation without headers", Http2Code.Protocol, [frame(FrameType.Continuation, 4, 1)]],
  [
    "a header block interrupted by another frame",
    Http2Code.Protocol,
    [frame(FrameType.Headers, 0, 1), windowUpdate(0, 1)],
  ],
  [
    "a continuation on another stream",
    Http2Code.Protocol,
    [frame(FrameType.Headers, 0, 1), frame(FrameType.Continuation, 4, 3)],
  ],
  ["an invalid header block", Http2Code.Compression, [frame(FrameType.Headers, 4, 1, Buffer.from([0xff, 0xff]))]],
  [
    "padding that is too long",
    Http2Code.Protocol,
    [headers(1), frame(FrameType.Data, FrameFlag.Padded, 1, Buffer.from([9, 1]))],
  ],
  [
    "a stream that depends on itself",
    Http2Code.Protocol,
    [frame(FrameType.Priority, 0, 3, Buffer.concat([four(3), Buffer.alloc(1)]))],
  ],
  ["a priority of a wrong length", Http2Code.FrameSize, [frame(FrameType.Priority, 0, 3, Buffer.alloc(4))]],
  [
    "three pings in a row",
    Http2Code.Calm,
    Array.from({ length: 4 }, () => frame(FrameType.Ping, 0, 0, Buffer.alloc(8))),
  ],
];
test.each([...wrong, ...later.map(([name, code, parts]) => [name, code, [PREFACE, settings(), ...parts]] as const)])(
  "the connection ends: %s",
  (_, code, parts) => {
    const peer = new Peer();
    peer.send(...parts);
    expect([peer.goAway, peer.done, peer.connection.streams]).toEqual([code, true, 0]);
    for (const { told } of peer.owners.values()) expect(told.at(-1)).toBe("gone");
    // Frames after the end are ignored.
    const seen = peer.frames.length;
    peer.send(headers(99));
    expect(peer.frames.length).toBe(seen);
  },
);

/** Malformed requests, and bodies of another length than announced. */
const malformed: readonly (readonly [string, readonly Uint8Array[]])[] = [
  ["no method", [headers(1, true, REQUEST.slice(1))]],
  [
    "no path",
    [
      headers(
        1,
        true,
        REQUEST.filter(([name]) => name !== ":path"),
      ),
    ],
  ],
  [
    "an empty path",
    [
      headers(
        1,
        true,
        REQUEST.map(([name, value]) => [name, name === ":path" ? "" : value]),
      ),
    ],
  ],
  ["a method twice", [headers(1, true, with_([":method", "POST"]))]],
  ["a status", [headers(1, true, [...REQUEST, [":status", "200"]])]],
  ["a pseudo-header after other fields", [headers(1, true, [["x", "y"], ...REQUEST])]],
  ["a name in capitals", [headers(1, true, with_(["X-a", "y"]))]],
  ["a field that only HTTP/1 has", [headers(1, true, with_(["connection", "close"]))]],
  ["te other than trailers", [headers(1, true, with_(["te", "gzip"]))]],
  ["a content-length that is not a number", [headers(1, true, with_(["content-length", "x"]))]],
  ["a body longer than announced", [headers(1, false, with_(["content-length", "1"])), data(1, "xy")]],
  ["a body shorter than announced", [headers(1, false, with_(["content-length", "3"])), data(1, "xy", true)]],
  ["no body although one was announced", [headers(1, true, with_(["content-length", "3"]))]],
  ["trailers that do not end the stream", [headers(1), headers(1, false, [["x", "y"]])]],
  ["trailers with a pseudo-header", [headers(1), headers(1, true, [[":path", "y"]])]],
  ["a window update of 0", [headers(1), windowUpdate(1, 0)]],
];
test.each(malformed)("only the stream ends: %s", (_, parts) => {
  const peer = new Peer();
  peer.greet().send(...parts);
  expect([peer.resets, peer.goAway, peer.connection.streams]).toEqual([{ 1: Http2Code.Protocol }, null, 0]);
  expect(peer.owners.get(1)?.told.at(-1) ?? "gone").toBe("gone");
  peer.send(headers(3, true));
  expect(peer.owners.get(3)!.told).toEqual(["ended"]);
});

test("a window update of a stream beyond the maximum ends the stream", () => {
  const peer = new Peer();
  peer.greet();
  peer.open(1);
  peer.send(windowUpdate(1, 2 ** 31 - 1));
  expect([peer.resets, peer.goAway]).toEqual([{ 1: Http2Code.FlowControl }, null]);
});

test("a retiring connection refuses new streams and ends with its last stream", () => {
  const peer = new Peer();
  peer.greet();
  const owner = peer.open(1);
  peer.connection.retire();
  peer.send(headers(3), data(3, "for nobody"));
  expect([peer.goAway, peer.done, peer.owners.has(3)]).toEqual([Http2Code.None, false, false]);
  owner.stream.head(HEAD, true);
  peer.turn();
  expect([peer.done, peer.ended.has(1)]).toEqual([true, true]);
});

test("a reset by the client or by the server drops queued data, and is reported at most once", () => {
  const peer = new Peer();
  peer.greet([4, 10]);
  const [one, two] = [peer.open(1), peer.open(3)];
  for (const { stream } of [one, two]) {
    stream.head(HEAD, false);
    stream.write(Buffer.alloc(100));
  }
  peer.send(frame(FrameType.RstStream, 0, 1, four(8)));
  two.stream.reset(Http2Code.Calm);
  peer.turn();
  expect([one.told, two.told, one.stream.queued, two.stream.queued]).toEqual([["gone"], [], 0, 0]);
  expect([peer.resets, peer.connection.streams]).toEqual([{ 3: Http2Code.Calm }, 0]);
  peer.connection.lost();
  expect(one.told).toEqual(["gone"]);
});

type Act =
  | { readonly kind: "write" | "widen"; readonly stream: number; readonly bytes: number }
  | { readonly kind: "connection" | "first" | "drain"; readonly bytes: number }
  | { readonly kind: "end"; readonly stream: number }
  | { readonly kind: "turn" };

const STREAMS = 4;
const stream = fc.nat(STREAMS - 1);
const acts: fc.Arbitrary<Act> = fc.oneof(
  {
    arbitrary: fc.record({ kind: fc.constant("write" as const), stream, bytes: fc.integer({ min: 1, max: 40_000 }) }),
    weight: 5,
  },
  {
    arbitrary: fc.record({ kind: fc.constant("widen" as const), stream, bytes: fc.integer({ min: 1, max: 90_000 }) }),
    weight: 3,
  },
  {
    arbitrary: fc.record({
      kind: fc.constantFrom("connection" as const, "first" as const),
      bytes: fc.integer({ min: 1, max: 90_000 }),
    }),
    weight: 3,
  },
  {
    arbitrary: fc.record({ kind: fc.constant("drain" as const), bytes: fc.oneof(fc.nat(3000), fc.nat(200_000)) }),
    weight: 4,
  },
  { arbitrary: fc.record({ kind: fc.constant("end" as const), stream }), weight: 1 },
  { arbitrary: fc.constant({ kind: "turn" as const }), weight: 2 },
);

test("with any windows and a slow kernel: no byte too many, none out of order, and all as soon as there is room", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 70_000 }),
      fc.nat(100_000),
      fc.array(acts, { maxLength: 60 }),
      (first, takes, all) => {
        const peer = new Peer();
        peer.greet([4, first]);
        const owners = Array.from({ length: STREAMS }, (_, at) => peer.open(2 * at + 1, true));
        const written = owners.map(() => [] as Buffer[]);
        for (const { stream: one } of owners) one.head(HEAD, false);
        peer.turn();
        peer.takes = takes;
        let next = 0;
        for (const act of all)
          play(peer, owners, act, (at, bytes) => {
            const part = Buffer.alloc(bytes, next++ % 251);
            written[at]!.push(part);
            return part;
          });
        for (const { stream: one } of owners) one.end(TRAILERS);
        // With unlimited room nothing may be left.
        peer.drain(Number.POSITIVE_INFINITY);
        peer.widen(0, 10_000_000);
        for (const { stream: one } of owners) if (!peer.ended.has(one.id)) peer.widen(one.id, 10_000_000);
        for (const [at, { stream: one }] of owners.entries()) {
          expect(Buffer.concat(peer.data.get(one.id) ?? [])).toEqual(Buffer.concat(written[at]!));
          expect([peer.ended.has(one.id), one.queued]).toEqual([true, 0]);
        }
        expect([peer.connection.streams, peer.goAway]).toEqual([0, null]);
      },
    ),
    { numRuns: times(400) },
  );
});

function play(peer: Peer, owners: readonly Owner[], act: Act, part: (at: number, bytes: number) => Buffer): void {
  if (act.kind === "write") {
    const { stream: one } = owners[act.stream]!;
    if (!one.ended) one.write(part(act.stream, act.bytes));
  } else if (act.kind === "widen") {
    const { id } = owners[act.stream]!.stream;
    if (!peer.ended.has(id)) peer.widen(id, act.bytes);
  } else if (act.kind === "connection") peer.widen(0, act.bytes);
  else if (act.kind === "first") peer.rewindow(act.bytes);
  else if (act.kind === "drain") peer.drain(act.bytes);
  else if (act.kind === "end") owners[act.stream]!.stream.end(TRAILERS);
  else peer.turn();
}
