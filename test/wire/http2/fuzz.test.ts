/** Fuzzes HTTP/2 connections and HPACK. Each input must end, with CPU time and memory in proportion to its bytes. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { OpenCount } from "../../../src/wire/http/open-count.ts";
import { Http2Connection } from "../../../src/wire/http2/connection.ts";
import { ConnectionError, FrameFlag, FrameType, PREFACE } from "../../../src/wire/http2/frames.ts";
import { encodeFields, HpackDecoder } from "../../../src/wire/http2/hpack.ts";
import { PingRules } from "../../../src/wire/http2/pings.ts";
import type { Http2Stream } from "../../../src/wire/http2/stream.ts";
import { fuzz, mutated } from "../../fuzz.ts";
import { frame, headers, REQUEST, settings, windowUpdate } from "./peer.ts";

// A collection of the heap takes long in a process that other tests share.
setDefaultTimeout(60_000);

const HEAD = encodeFields([[":status", "200"]]);
const TURNS_MOST = 100_000;
const PINGS = { leastIntervalMs: 0, strikesMost: 0, withoutCalls: true };

/** Answers every request with a few bytes and drops its body. */
const answering = (stream: Http2Stream) => {
  stream.head(HEAD, false);
  stream.write(Buffer.from("some bytes of an answer"));
  return { data() {}, ended: () => stream.end(), gone() {} };
};

/**
 * Returns a function that feeds bytes to a connection in parts of `partBytes`, and after each part runs all turns. The client
 * reads everything.
 */
function connection(partBytes = Number.POSITIVE_INFINITY): (bytes: Buffer) => Http2Connection {
  const later: (() => void)[] = [];
  const nothing = () => {};
  const one: Http2Connection = new Http2Connection({
    ...{ application: { open: answering }, pings: new PingRules(PINGS, () => 0), address: "127.0.0.1", port: 1 },
    ...{ heard: nothing, acknowledged: nothing, settled: nothing, rests: nothing, refuseNext: nothing, done: nothing },
    ...{ cut: nothing, pause: nothing, resume: nothing, failed: nothing, nowUs: () => 0 },
    openStreams: new OpenCount(nothing),
    write: (_, __, length) => length,
    later: (run) => void later.push(run),
    queue: () => void later.push(() => one.turn()),
  });
  return (bytes) => {
    let turns = 0;
    for (let from = 0; from < bytes.length; from += partBytes) {
      one.data(bytes.subarray(from, from + partBytes));
      for (; later.length > 0 && turns < TURNS_MOST; turns++) later.shift()!();
    }
    expect(turns).toBeLessThan(TURNS_MOST);
    return one;
  };
}

/** Like `connection`, with open streams. */
function withStreams(count: number): (bytes: Buffer) => Http2Connection {
  const feed = connection();
  feed(Buffer.concat([PREFACE, settings(), ...Array.from({ length: count }, (_, at) => headers(2 * at + 1))]));
  return feed;
}

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((all) => Buffer.from(all));
const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const four = uint32.map((value) => {
  const made = Buffer.alloc(4);
  made.writeUInt32BE(value);
  return made;
});
const id = fc.oneof(fc.nat(10), fc.nat(9000)).map((at) => 2 * at + 1);
const flags = fc.constantFrom(0, FrameFlag.EndStream, FrameFlag.EndHeaders, 5, FrameFlag.Padded, 0x2d);
const name = fc.stringMatching(/^[a-z-]{1,12}$/);
const fields = fc
  .array(fc.tuple(name, fc.stringMatching(/^[ -~]{0,40}$/)), { maxLength: 6 })
  .map((more) => [...REQUEST, ...more]);
const letters = (length: number) => Buffer.alloc(length - (length % 5), Buffer.from([0x18, 0xc6, 0x31, 0x8c, 0x63]));

/** A field in one of the forms of RFC 7541, section 6, with its texts plain or Huffman-coded. */
const text = fc.oneof(
  fc.stringMatching(/^[ -~]{0,30}$/).map((value) => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)])),
  fc.integer({ min: 0, max: 120 }).map((length) => {
    const coded = letters(length);
    return Buffer.concat([Buffer.from([0x80 | coded.length]), coded]);
  }),
  fc.integer({ min: 255, max: 8000 }).map((length) => {
    const coded = letters(length);
    const rest = coded.length - 0x7f;
    return Buffer.concat([Buffer.from([0xff, 0x80 | (rest % 128), rest >> 7]), coded]);
  }),
);
const field = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 80 }).map((index) => Buffer.from([0x80 | index])) },
  fc.tuple(fc.constantFrom(0x00, 0x10, 0x40), text, text).map(([form, key, value]) => {
    return Buffer.concat([Buffer.from([form]), key, value]);
  }),
  fc.tuple(fc.integer({ min: 1, max: 61 }), text).map(([index, value]) => {
    return Buffer.concat([Buffer.from([0x40 | index]), value]);
  }),
  fc.nat(30).map((size) => Buffer.from([0x20 | size])),
);
const fieldsOfBlock = fc.array(field, { maxLength: 12 });
const block = fieldsOfBlock.map((all) => Buffer.concat(all));

const frames = fc.oneof(
  fc.array(fc.tuple(fc.nat(8), uint32), { maxLength: 40 }).map((pairs) => settings(...pairs)),
  fc.tuple(id, fields, fc.boolean()).map(([at, all, ends]) => headers(at, ends, all)),
  fc.tuple(id, block).map(([at, all]) => frame(FrameType.Headers, 5, at, Buffer.concat([encodeFields(REQUEST), all]))),
  fc.tuple(id, fc.nat(2 ** 31 - 1)).map(([at, more]) => windowUpdate(at, more)),
  fc.nat(2 ** 31 - 1).map((more) => windowUpdate(0, more)),
  fc.tuple(id, four).map(([at, code]) => frame(FrameType.RstStream, 0, at, code)),
  fc.tuple(id, four).map(([at, on]) => frame(FrameType.Priority, 0, at, Buffer.concat([on, Buffer.from([1])]))),
  fc.tuple(id, flags, bytes(300)).map(([at, flag, data]) => frame(FrameType.Data, flag, at, data)),
  fc.tuple(id, flags, bytes(100)).map(([at, flag, part]) => frame(FrameType.Continuation, flag, at, part)),
  bytes(8).map((data) => frame(FrameType.Ping, 0, 0, Buffer.concat([data, Buffer.alloc(8 - data.length)]))),
  fc.tuple(fc.nat(12), fc.nat(255), id, bytes(50)).map(([type, flag, at, data]) => frame(type, flag, at, data)),
);
/** Many frames of one kind, on one stream after another. */
const flood = fc
  .tuple(
    fc.constantFrom<(at: number, value: number) => Buffer>(
      (at) => frame(FrameType.Data, 0, at),
      (at) => frame(FrameType.Data, FrameFlag.EndStream, at, Buffer.from("x")),
      (at, value) => windowUpdate(at, 1 + (value % 1000)),
      (at) => frame(FrameType.RstStream, 0, at, Buffer.alloc(4)),
      (at) => frame(FrameType.Priority, 0, at, Buffer.from([0, 0, 0, 0, 1])),
      (at, value) => settings([4, (at * value) % 100]),
      (at, value) => settings(...Array.from({ length: 32 }, (_, entry) => [4, (at + entry * value) % 70_000] as const)),
      (at, value) => frame(FrameType.Headers, 5, 2 ** 20 + at, Buffer.from([0x83, 0x86, 0x84, 0x80 | (value % 62)])),
    ),
    fc.integer({ min: 1, max: 4000 }),
    fc.nat(100_000),
  )
  .map(([make, count, value]) => Buffer.concat(Array.from({ length: count }, (_, at) => make(2 * at + 1, value))));
const valid = fc.array(fc.oneof({ weight: 4, arbitrary: frames }, flood), { maxLength: 8 });
const greeting = Buffer.concat([PREFACE, settings()]);
const stream = fc.oneof(
  mutated(valid).map((all) => Buffer.concat([greeting, all])),
  mutated(valid.map((all) => [greeting, ...all])),
  bytes(600),
  bytes(600).map((all) => Buffer.concat([greeting, all])),
);

/** Five times the cost of the most expensive inputs. (A decoder that worked bit by bit left 37 bytes of garbage per byte.) */
const BOUNDS = { usPerByte: 0.6, usMore: 3000, memoryPerByte: 20, memoryMore: 20_000 };

test("HTTP/2: any bytes end, with CPU time and memory in proportion to them", () => {
  fuzz(1500, stream, BOUNDS, connection);
});

test("HTTP/2: the same for bytes that arrive one by one", () => {
  fuzz(200, stream, { ...BOUNDS, usPerByte: 2 }, () => connection(1));
});

test("HTTP/2: the same with 4,096 other streams open", () => {
  fuzz(120, mutated(valid), BOUNDS, () => withStreams(4096), 1);
}, 60_000);

test("HPACK: any bytes end, with CPU time and memory in proportion to them", () => {
  const decoding = () => {
    const decoder = new HpackDecoder();
    return (all: Buffer) => {
      try {
        return [decoder, decoder.decode(all)];
      } catch (error) {
        expect(error).toBeInstanceOf(ConnectionError);
        return decoder;
      }
    };
  };
  fuzz(3000, fc.oneof(mutated(fieldsOfBlock), bytes(600)), { ...BOUNDS, memoryMore: 4000 }, decoding);
});
