/** Does a connection keep to HTTP/2, whatever the client does? Frames in, frames out, without sockets. */
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

test("a request, its body and its answer; the settings are acknowledged", () => {
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

test("who has not sent all when all is answered is told that it need not; what was under way is nothing wrong", () => {
  const peer = new Peer();
  peer.greet();
  peer.open(1).stream.head(HEAD, true);
  peer.send(data(1, "late"), headers(1, true, [["x", "y"]]));
  expect([peer.resets, peer.goAway, peer.connection.streams]).toEqual([{ 1: Http2Code.None }, null, 0]);
});

test("bytes may come one by one", () => {
  const peer = new Peer();
  const all = Buffer.concat([PREFACE, settings(), headers(1), data(1, "abc", true)]);
  for (const byte of all) peer.connection.data(Buffer.from([byte]));
  expect(peer.owners.get(1)!.told).toEqual(["data 3", "ended"]);
});

test("requests that come all at once share turns: other work has its own in between, and none is lost or out of order", () => {
  const peer = new Peer().greet();
  const ids = Array.from({ length: 200 }, (_, at) => 2 * at + 1);
  const whole = Buffer.concat(ids.map((id) => headers(id, true)));
  peer.connection.data(whole.subarray(0, whole.length - 5));
  const opened = () => [...peer.owners.keys()];
  const seen = [opened().length];
  expect(peer.paused).toBe(true);
  // Bytes that the kernel had handed over before.
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

test("a connection that ends while requests of it wait is read no further", () => {
  const peer = new Peer().greet();
  const frames = Array.from({ length: 100 }, (_, at) => headers(2 * at + 1, true));
  peer.connection.data(Buffer.concat(frames));
  const opened = peer.owners.size;
  peer.connection.lost();
  peer.turn();
  expect([peer.owners.size, opened < 100, peer.paused]).toEqual([opened, true, false]);
});

test("padding, priority, blocks of headers in parts, frames and settings of unknown kinds", () => {
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

/** What a client does wrong, and the code that ends the connection. */
const wrong: readonly (readonly [string, number, readonly Uint8Array[]])[] = [
  ["no preface", Http2Code.Protocol, [Buffer.from("GET / HTTP/1.1\r\n\r\n")]],
  ["no settings first", Http2Code.Protocol, [PREFACE, windowUpdate(0, 1)]],
  [
    "a frame that is too large",
    Http2Code.FrameSize,
    [PREFACE, settings(), frame(FrameType.Data, 0, 1, Buffer.alloc(16_385))],
  ],
  ["settings of a stream", Http2Code.Protocol, [PREFACE, frame(FrameType.Settings, 0, 1)]],
  ["settings of another length", Http2Code.FrameSize, [PREFACE, frame(FrameType.Settings, 0, 0, Buffer.alloc(5))]],
  [
    "an acknowledgement with settings",
    Http2Code.FrameSize,
    [PREFACE, frame(FrameType.Settings, 1, 0, Buffer.alloc(6))],
  ],
  ["a push that is neither on nor off", Http2Code.Protocol, [PREFACE, settings([2, 2])]],
  ["a first window that is too large", Http2Code.FlowControl, [PREFACE, settings([4, 2 ** 31])]],
  ["a size of frames that is too small", Http2Code.Protocol, [PREFACE, settings([5, 16_383])]],
];
const later: readonly (readonly [string, number, readonly Uint8Array[]])[] = [
  ["data of a stream that is idle", Http2Code.Protocol, [data(1, "x")]],
  ["data of no stream", Http2Code.Protocol, [data(0, "x")]],
  ["headers of no stream", Http2Code.Protocol, [headers(0)]],
  ["an even stream", Http2Code.Protocol, [headers(2)]],
  ["data behind the end", Http2Code.StreamClosed, [headers(1, true), data(1, "x")]],
  ["headers behind the end", Http2Code.StreamClosed, [headers(1, true), headers(1, true)]],
  ["a stream below the last one", Http2Code.StreamClosed, [headers(5, true), headers(3)]],
  [
    "data behind a reset",
    Http2Code.StreamClosed,
    [headers(1), frame(FrameType.RstStream, 0, 1, four(8)), data(1, "x")],
  ],
  ["a reset of a stream that is idle", Http2Code.Protocol, [frame(FrameType.RstStream, 0, 1, four(8))]],
  ["a reset of another length", Http2Code.FrameSize, [headers(1), frame(FrameType.RstStream, 0, 1)]],
  ["a window of a stream that is idle", Http2Code.Protocol, [windowUpdate(1, 1)]],
  ["a window that grows by nothing", Http2Code.Protocol, [windowUpdate(0, 0)]],
  ["a window that grows too far", Http2Code.FlowControl, [windowUpdate(0, 2 ** 31 - 1)]],
  ["a window of another length", Http2Code.FrameSize, [frame(FrameType.WindowUpdate, 0, 0, Buffer.alloc(3))]],
  ["a ping of another length", Http2Code.FrameSize, [frame(FrameType.Ping, 0, 0, Buffer.alloc(7))]],
  ["a ping of a stream", Http2Code.Protocol, [frame(FrameType.Ping, 0, 1, Buffer.alloc(8))]],
  ["a push", Http2Code.Protocol, [frame(FrameType.PushPromise, 4, 1, Buffer.alloc(4))]],
  ["a continuation of nothing", Http2Code.Protocol, [frame(FrameType.Continuation, 4, 1)]],
  ["a block that is interrupted", Http2Code.Protocol, [frame(FrameType.Headers, 0, 1), windowUpdate(0, 1)]],
  [
    "a block that is another's",
    Http2Code.Protocol,
    [frame(FrameType.Headers, 0, 1), frame(FrameType.Continuation, 4, 3)],
  ],
  ["a block that is none", Http2Code.Compression, [frame(FrameType.Headers, 4, 1, Buffer.from([0xff, 0xff]))]],
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
  ["a priority of another length", Http2Code.FrameSize, [frame(FrameType.Priority, 0, 3, Buffer.alloc(4))]],
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
    // Whatever comes afterwards is nobody's.
    const seen = peer.frames.length;
    peer.send(headers(99));
    expect(peer.frames.length).toBe(seen);
  },
);

/** Requests that are malformed, and a body that is not as long as it was said. */
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
  ["a pseudo header behind others", [headers(1, true, [["x", "y"], ...REQUEST])]],
  ["capitals", [headers(1, true, with_(["X-a", "y"]))]],
  ["a connection's own header", [headers(1, true, with_(["connection", "close"]))]],
  ["te that is not trailers", [headers(1, true, with_(["te", "gzip"]))]],
  ["a length that is no number", [headers(1, true, with_(["content-length", "x"]))]],
  ["more than was said", [headers(1, false, with_(["content-length", "1"])), data(1, "xy")]],
  ["less than was said", [headers(1, false, with_(["content-length", "3"])), data(1, "xy", true)]],
  ["nothing where something was said", [headers(1, true, with_(["content-length", "3"]))]],
  ["trailers that do not end", [headers(1), headers(1, false, [["x", "y"]])]],
  ["trailers with a pseudo header", [headers(1), headers(1, true, [[":path", "y"]])]],
  ["a window that grows by nothing", [headers(1), windowUpdate(1, 0)]],
];
test.each(malformed)("the stream ends, and no other: %s", (_, parts) => {
  const peer = new Peer();
  peer.greet().send(...parts);
  expect([peer.resets, peer.goAway, peer.connection.streams]).toEqual([{ 1: Http2Code.Protocol }, null, 0]);
  expect(peer.owners.get(1)?.told.at(-1) ?? "gone").toBe("gone");
  peer.send(headers(3, true));
  expect(peer.owners.get(3)!.told).toEqual(["ended"]);
});

test("a window of a stream that grows too far ends the stream", () => {
  const peer = new Peer();
  peer.greet();
  peer.open(1);
  peer.send(windowUpdate(1, 2 ** 31 - 1));
  expect([peer.resets, peer.goAway]).toEqual([{ 1: Http2Code.FlowControl }, null]);
});

test("the end of a server: nobody new is served, and the connection is done with its last stream", () => {
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

test("a reset by the client drops what waits, a reset by the owner too, and neither is told twice", () => {
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

test("windows and a slow kernel: no byte too many, none out of order, and all of them as soon as there is room", () => {
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
        // Room for everything: nothing may be left.
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
