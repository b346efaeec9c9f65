/** Tests taking apart what a peer sends: any pieces, refusals, and the cost of any bytes. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { ZmtpDecoder, ZmtpError } from "../../../src/wire/zmtp/decoder.ts";
import { command, greeting, ready, zmtpParts } from "../../../src/wire/zmtp/frames.ts";
import { fuzz, mutated } from "../../fuzz.ts";
import { times } from "../../size.ts";

// A collection of the heap takes long in a process that other tests share.
setDefaultTimeout(60_000);

/** Feeds the bytes in pieces of the given sizes, again and again. Returns what was found, or the error. */
function decoded(bytes: Uint8Array, sizes: readonly number[]) {
  const found: unknown[] = [];
  const decoder = new ZmtpDecoder({
    onGreeting: (facts) => found.push(facts),
    onCommand: (name, data) => found.push([name, Buffer.from(data).toString("hex")]),
    onMessage: (frames) => found.push(frames.map((frame) => Buffer.from(frame).toString("hex"))),
  });
  for (let from = 0, at = 0; from < bytes.length; from += sizes[at++ % sizes.length]!)
    decoder.feed(bytes.subarray(from, from + sizes[at % sizes.length]!));
  return { found, held: decoder.heldBytes };
}

const frame = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.integer({ min: 200, max: 300 }).map((length) => new Uint8Array(length).fill(7)),
  fc.constantFrom(65_535, 65_536, 200_000).map((length) => new Uint8Array(length).fill(1)),
);
const messages = fc.array(fc.array(frame, { minLength: 1, maxLength: 4 }), { maxLength: 5 });
const HEAD = [greeting(1), ready("DEALER", Buffer.from("me"))];

test("messages arrive as they were sent, in pieces of any size", () => {
  fc.assert(
    fc.property(messages, fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1, maxLength: 5 }), (all, sizes) => {
      const bytes = Buffer.concat([...HEAD, ...all.flatMap(zmtpParts), command("PING", Buffer.from("0001", "hex"))]);
      const { found, held } = decoded(bytes, sizes);
      expect(found.slice(2)).toEqual([
        ...all.map((frames) => frames.map((one) => Buffer.from(one).toString("hex"))),
        ["PING", "0001"],
      ]);
      expect(held).toBe(0);
    }),
    { seed: 1, numRuns: times(150) },
  );
});

const long = (flags: number, length: bigint) => {
  const bytes = Buffer.alloc(9);
  bytes[0] = flags;
  bytes.writeBigUInt64BE(length, 1);
  return bytes;
};

test.each<[string, Buffer, string]>([
  ["version 1", Buffer.from("0100"), "the peer does not speak ZMTP 3: no greeting"],
  ["HTTP", Buffer.from("GET / HTTP/1.1\r\n"), "the peer does not speak ZMTP 3: no greeting"],
  ["version 2", Buffer.from("ff00000000000000017f01", "hex"), "the peer speaks version 2 of ZMTP, not version 3"],
  ["a frame of 1 GB", Buffer.concat([...HEAD, long(2, 2n ** 30n)]), "a message of more than 67108864 bytes"],
  ["a frame of 2^63 bytes", Buffer.concat([...HEAD, long(3, 2n ** 63n)]), "a message of more than 67108864 bytes"],
  ["unknown flags", Buffer.concat([...HEAD, Buffer.from([8, 0])]), "no frame has the flags 8"],
  ["a command with more frames", Buffer.concat([...HEAD, Buffer.from([5, 1, 0])]), "no frame has the flags 5"],
  ["a nameless command", Buffer.concat([...HEAD, Buffer.from([4, 1, 0])]), "a command without a name"],
  [
    "too many frames",
    Buffer.concat([...HEAD, Buffer.from("0100".repeat(8193), "hex")]),
    "a message of more than 8192 frames",
  ],
])("refused: %s", (_, bytes, why) => {
  expect(() => decoded(bytes, [1_000_000])).toThrow(why);
  expect(() => decoded(bytes, [1])).toThrow(ZmtpError);
});

test("a command has at most 65,536 bytes", () => {
  expect(() => decoded(Buffer.concat([...HEAD, long(6, 65_537n)]), [1_000_000])).toThrow(
    "a command of 65537 bytes, and 65536 are accepted",
  );
});

test("the frames of a message count together", () => {
  const half = [long(3, 2n ** 25n), Buffer.alloc(2 ** 25)];
  expect(() => decoded(Buffer.concat([...HEAD, ...half, ...half, long(2, 1n)]), [2 ** 20])).toThrow(
    "a message of more than 67108864 bytes",
  );
});

test("an announced frame takes memory only for what has arrived", () => {
  const { held } = decoded(Buffer.concat([...HEAD, long(2, 2n ** 26n), Buffer.alloc(1000)]), [100]);
  expect(held).toBeLessThan(3000);
});

test("any bytes are read in CPU time and memory in proportion to them", () => {
  const parts = messages.map((all) => [...HEAD, ...all.flatMap(zmtpParts)].map((part) => Buffer.from(part)));
  const stream = fc.oneof(
    mutated(parts),
    fc.uint8Array({ maxLength: 600 }).map((all) => Buffer.concat([...HEAD, all])),
    fc.uint8Array({ maxLength: 600 }).map((all) => Buffer.from(all)),
  );
  const reading = (size: number) => () => {
    const kept: unknown[] = [];
    const keep = (...found: readonly unknown[]) => kept.push(found);
    const decoder = new ZmtpDecoder({ onGreeting: keep, onCommand: keep, onMessage: keep });
    return (bytes: Buffer) => {
      try {
        for (let from = 0; from < bytes.length; from += size) decoder.feed(bytes.subarray(from, from + size));
      } catch (error) {
        if (!(error instanceof ZmtpError)) throw error;
      }
      return [decoder, kept];
    };
  };
  for (const size of [3, 65_536])
    fuzz(120, stream, { usPerByte: 4, usMore: 2000, memoryPerByte: 500, memoryMore: 8192 }, reading(size));
});
