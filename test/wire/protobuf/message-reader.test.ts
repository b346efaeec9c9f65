/** Tests that messages are decoded like by the protobuf library, within limits, and that any bytes end with bounded effort. */
import { expect, test } from "bun:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { atOnce } from "../../../src/base/pieces.ts";
import { type InferMessage, readInfer } from "../../../src/servers/triton/grpc/infer-request.ts";
import { readMessage } from "../../../src/servers/triton/grpc/reading.ts";
import { HeldMessages } from "../../../src/wire/grpc/held-messages.ts";
import { LateList, LateMap } from "../../../src/wire/protobuf/late-fields.ts";
import type { ReadMessage } from "../../../src/wire/protobuf/message-reader.ts";
import { MessageRefused, MessageRoom } from "../../../src/wire/protobuf/message-room.ts";
import { NumberList } from "../../../src/wire/protobuf/number-list.ts";
import { NotProtobuf } from "../../../src/wire/protobuf/wire.ts";
import { times } from "../../size.ts";
import { messageNamed } from "../../triton/descriptor.ts";
import { ATTACKS, entries, field, withContents } from "../../triton/wire-messages.ts";

const FIELDS_MOST = 16_384;
const roomOf = (held = new HeldMessages(2 ** 30), most = FIELDS_MOST) => new MessageRoom(most, held);
const REQUEST = messageNamed("ModelInferRequest");

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const text = fc.string({ unit: "grapheme", maxLength: 40 });
const bytes = fc.uint8Array({ maxLength: 40 });
const choice = fc.oneof(
  fc.record({ case: fc.constant("boolParam"), value: fc.boolean() }),
  fc.record({ case: fc.constant("int64Param"), value: int64 }),
  fc.record({ case: fc.constant("uint64Param"), value: uint64 }),
  fc.record({ case: fc.constant("stringParam"), value: text }),
  fc.record({ case: fc.constant("doubleParam"), value: fc.double() }),
);
const parameters = fc.dictionary(
  text.filter((key) => !/_|^\d+$/.test(key)),
  choice.map((parameterChoice) => ({ parameterChoice })),
  { maxKeys: 4 },
);
const list = <T>(of: fc.Arbitrary<T>) => fc.array(of, { maxLength: 30 });
const contents = fc.record({
  boolContents: list(fc.boolean()),
  intContents: list(fc.integer()),
  int64Contents: list(int64),
  uintContents: list(fc.nat()),
  uint64Contents: list(uint64),
  fp32Contents: list(fc.float()),
  fp64Contents: list(fc.double()),
  bytesContents: list(bytes),
});
const requests = fc.record({
  modelName: text,
  modelVersion: text,
  id: text,
  parameters,
  inputs: fc.array(
    fc.record({
      name: text,
      datatype: text,
      shape: list(int64),
      parameters,
      contents: fc.option(contents, { nil: undefined }),
    }),
    { maxLength: 4 },
  ),
  outputs: fc.array(fc.record({ name: text, parameters }), { maxLength: 4 }),
  rawInputContents: fc.array(bytes, { maxLength: 4 }),
});

const camel = (name: string) => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());

/** Converts a decoded value to the form of the library. */
function plain(value: unknown): unknown {
  if (value instanceof NumberList) {
    if (value.type !== "bytes")
      return Array.from(value.numbers as Iterable<number | bigint>, (one) => (value.type === "bool" ? one === 1 : one));
    const [all, texts] = [Buffer.from(value.numbers as Uint8Array), [] as number[][]];
    for (let at = 0; at < all.length; ) {
      const end = at + 4 + all.readUInt32LE(at);
      texts.push([...all.subarray(at + 4, end)]);
      at = end;
    }
    return texts;
  }
  if (value instanceof Uint8Array) return [...value];
  if (Array.isArray(value) || value instanceof LateList) return Array.from(value, plain);
  if (value instanceof Map || value instanceof LateMap)
    return Object.fromEntries([...value].map(([key, one]) => [key, plain(one)]));
  if (typeof value !== "object" || value === null) return value;
  if ("case" in value) {
    const { case: name, value: chosen } = value as { case: string; value: unknown };
    return { case: camel(name), value: plain(chosen) };
  }
  const members = Object.entries(value).filter(([key]) => key !== "$typeName" && key !== "$unknown");
  return Object.fromEntries(members.map(([key, one]) => [camel(key), plain(one)]));
}

/** Removes missing and empty fields. */
function present(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(present);
  if (typeof value !== "object" || value === null) return value;
  const isEmpty = (one: unknown) =>
    one === undefined ||
    one === "" ||
    (typeof one === "object" && one !== null && Object.keys(one).length === 0 && !("case" in one));
  const kept = Object.entries(value);
  return Object.fromEntries(
    kept
      .map(([key, one]) => [key, key === "parameters" ? one : present(one)] as const)
      .filter(([, one]) => !isEmpty(one)),
  );
}

const libraryRead = (given: Uint8Array) => present(plain(fromBinary(REQUEST, given)));
const ownRead = (given: Uint8Array) => present(plain(atOnce(readInfer(given, roomOf()))));

test("any request is decoded like by the library", () => {
  fc.assert(
    fc.property(requests, (given) => {
      const encoded = toBinary(REQUEST, create(REQUEST, given as never));
      expect(ownRead(encoded)).toEqual(libraryRead(encoded));
    }),
    { numRuns: times(300) },
  );
});

test.each([1, 40, 600, 70_000])(
  "lists, texts and messages of about %i bytes, with and without late elements",
  (size) => {
    const numbers = Array.from({ length: size }, (_, at) => at % 200);
    const long = { name: "x".repeat(size), datatype: "INT64", shape: [BigInt(size)] };
    const inputs = [
      { ...long, contents: { int64Contents: numbers.map(BigInt), fp32Contents: numbers, boolContents: [true] } },
      { ...long, parameters: { p: { parameterChoice: { case: "stringParam", value: "é".repeat(size) } } } },
      { ...long, contents: { bytesContents: [Buffer.alloc(size, 7), Buffer.alloc(3)], fp64Contents: numbers } },
    ];
    for (const copies of [1, 30]) {
      const given = {
        modelName: "m",
        inputs: Array.from({ length: copies }, () => inputs)
          .flat()
          .slice(0, 3 + copies),
      };
      const encoded = toBinary(REQUEST, create(REQUEST, given as never));
      expect(ownRead(encoded)).toEqual(libraryRead(encoded));
    }
  },
);

test("unpacked numbers with other fields between them, and unknown fields", () => {
  const one = field(1, "m");
  const numbers = Buffer.from([0x10, 1, 0x10, 0x96, 1, 0x12, 2, 3, 4, 0x18, 7, 0x10, 5, 0x50, 0, 0x42, 1, 65, 0x42, 0]);
  const given = Buffer.concat([Buffer.from([0xf8, 1, 0]), withContents("m", "INT32", 5, numbers), one]);
  expect(ownRead(given)).toEqual(libraryRead(given));
  const group = Buffer.from([0xbb, 3, 0x08, 1, 0xc3, 3, 0xc4, 3, 0xbc, 3]);
  expect(ownRead(Buffer.concat([group, one]))).toEqual({ modelName: "m" });
});

const mutated = fc
  .tuple(
    requests,
    fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }),
    fc.nat(),
    fc.uint8Array({ maxLength: 60 }),
  )
  .map(([given, changes, cut, random]) => {
    const made = Buffer.concat([toBinary(REQUEST, create(REQUEST, given as never)), random]);
    for (const [at, byte] of changes) if (made.length > 0) made[at % made.length] = byte;
    return made.subarray(0, cut % 4 === 0 ? cut % (made.length + 1) : made.length);
  });

test("any bytes give a message, an error or a refusal, with bounded memory that is returned", () => {
  fc.assert(
    fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 300 })), (given) => {
      const held = new HeldMessages(2 ** 30);
      const room = roomOf(held);
      try {
        atOnce(readInfer(given, room));
      } catch (why) {
        expect(why instanceof NotProtobuf || why instanceof MessageRefused).toBe(true);
      }
      expect(held.bytes).toBeLessThanOrEqual(8192 + 12 * given.length);
      room.free();
      expect(held.bytes).toBe(0);
    }),
    { numRuns: times(2000) },
  );
});

const typeOf = (method: string) => (method.includes("Check") ? "ServerLiveRequest" : `${method}Request`);

test.each(Object.entries(ATTACKS))(
  "%s: decoded or refused, within eight times its bytes, in short slices",
  (_, { method, body, isRead }) => {
    const given = body();
    const held = new HeldMessages(2 ** 30);
    const room = roomOf(held);
    const work = readMessage(typeOf(method), given, room);
    let [pieces, most] = [0, 0];
    let ended: unknown = null;
    const before = process.cpuUsage();
    try {
      for (let done = false; !done; pieces++) {
        done = work.next().done ?? false;
        most = Math.max(most, held.bytes);
      }
      room.keep(given.length);
    } catch (why) {
      ended = why;
    }
    const { user, system } = process.cpuUsage(before);
    expect(user + system).toBeLessThan(given.length);
    expect(most + given.length).toBeLessThan(8 * given.length);
    if (isRead) expect(ended).toBeNull();
    else expect(ended instanceof MessageRefused || ended instanceof NotProtobuf).toBe(true);
    // No slice processes more than a quarter of a megabyte.
    if (isRead) expect(pieces).toBeGreaterThanOrEqual(given.length / 2 ** 18 - 1);
  },
);

test("a message has at most 16,384 fields: messages, entries, texts and raw contents; a text counts again per KiB", () => {
  const refused = (given: Uint8Array, most = FIELDS_MOST): boolean => {
    try {
      atOnce(readInfer(given, roomOf(undefined, most)));
      return false;
    } catch (why) {
      expect((why as MessageRefused).status).toEqual({
        code: "RESOURCE_EXHAUSTED",
        message: `Received message with more fields than max (${most}); --grpc-max-message-fields allows more`,
      });
      return true;
    }
  };
  const many = (count: number) => Buffer.alloc(2 * count, Buffer.from([0x2a, 0]));
  expect([refused(many(16_384)), refused(many(16_385))]).toEqual([false, true]);
  expect([refused(many(16_385), 20_000), refused(many(20_001), 20_000)]).toEqual([false, true]);
  // Each entry counts three times: itself, its key and its value.
  expect([refused(entries(4, 5461)), refused(entries(4, 5462))]).toEqual([false, true]);
  const name = (kib: number) => field(1, Buffer.alloc(kib * 1024 - 1, 97));
  expect([refused(name(16_384)), refused(name(16_385))]).toEqual([false, true]);
  // Memory of numbers beyond four times their encoded size counts as a field per 256 bytes.
  const numbers = (count: number) => withContents("m", "INT64", count, field(3, Buffer.alloc(count, 1)));
  expect([refused(numbers(1_000_000)), refused(numbers(1_100_000))]).toEqual([false, true]);
  // Numbers within that size do not count.
  expect(refused(withContents("m", "FP32", 1, field(6, Buffer.alloc(8_000_000))))).toBe(false);
});

test("the memory of messages in all calls has a common limit", () => {
  const held = new HeldMessages(100_000);
  const numbers = withContents("m", "FP64", 1, field(7, Buffer.alloc(48_000)));
  const [first, second] = [roomOf(held), roomOf(held)];
  const read = atOnce(readInfer(numbers, first)) as InferMessage & ReadMessage;
  expect(read.model_name).toBe("m");
  expect(() => atOnce(readInfer(Buffer.concat([numbers, numbers]), second))).toThrow(
    "messages of more than 100000 bytes are under way",
  );
  second.free();
  first.free();
  expect(held.bytes).toBe(0);
});
