/**
 * Measures the heap memory of messages with any fields and sizes. Accepted messages take at most eight times their bytes, as
 * messages and as requests, and no more than the server counts.
 */
import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { atOnce } from "../../src/base/pieces.ts";
import { Inference, type InferRead } from "../../src/servers/triton/grpc/answers.ts";
import { type GrpcWish, readInfer } from "../../src/servers/triton/grpc/infer-request.ts";
import { readMessage } from "../../src/servers/triton/grpc/reading.ts";
import type { ServerAround } from "../../src/servers/triton/inference/around.ts";
import { SharedMemory } from "../../src/servers/triton/tensors/shared-memory.ts";
import type { GrpcCall } from "../../src/wire/grpc/call.ts";
import { HeldMessages } from "../../src/wire/grpc/held-messages.ts";
import { MessageRefused, MessageRoom } from "../../src/wire/protobuf/message-room.ts";
import { entries, field, manyOf, SMALL_FIELDS, withContents, withRaw } from "./wire-messages.ts";

const FIELDS_MOST = 16_384;
const KIB = 1024;
/** Sizes of the measured messages. Longer messages of many small fields have too many fields. */
const SIZES = [KIB, 32 * KIB];
/** Total size of the copies that are kept, so that the memory of one can be measured. */
const HELD_BYTES = 2 ** 19;
/** Bytes of the objects of the shortest message. */
const FIXED_BYTES = 2048;
/** Returns the memory limit of a message. The hundredth is for the garbage collector's own data. */
const mostOf = ({ length }: Uint8Array): number => 8.08 * length + FIXED_BYTES;

const heapBytes = (): number => {
  Bun.gc(true);
  // `heapSize` includes the memory of buffers.
  return heapStats().heapSize;
};

/** Returns the heap bytes of one result while all copies are kept; null if the message is refused. */
function heapOf(make: () => unknown, bytes: number): number | null {
  const copies = Math.max(4, Math.ceil(HELD_BYTES / bytes));
  try {
    make();
    const held = new Array<unknown>(copies);
    const before = heapBytes();
    for (let at = 0; at < copies; at++) held[at] = make();
    return (heapBytes() - before) / copies;
  } catch (why) {
    expect(why instanceof MessageRefused).toBe(true);
    return null;
  }
}

const room = (held = new HeldMessages(2 ** 40)) => new MessageRoom(FIELDS_MOST, held);

const CONTENTS: readonly (readonly [string, (bytes: number) => Buffer])[] = [
  ["numbers of 32 bits", (bytes) => withContents("m", "INT32", bytes, field(2, Buffer.alloc(bytes, 1)))],
  ["numbers of 64 bits", (bytes) => withContents("m", "INT64", bytes, field(3, Buffer.alloc(bytes, 1)))],
  ["numbers as a field each", (bytes) => withContents("m", "INT32", bytes, Buffer.alloc(bytes & ~1, Buffer.of(16, 1)))],
  ["doubles", (bytes) => withContents("m", "FP64", bytes, field(7, Buffer.alloc(bytes & ~7)))],
  ["texts of a tensor", (bytes) => withContents("m", "BYTES", bytes, Buffer.alloc(bytes & ~1, Buffer.of(0x42, 0)))],
  ["a shape", (bytes) => field(5, field(3, Buffer.alloc(bytes, 1)))],
  ["a name", (bytes) => field(1, Buffer.alloc(bytes, 97))],
  ["a name beyond Latin-1", (bytes) => field(1, Buffer.concat([Buffer.from("€"), Buffer.alloc(bytes, 97)]))],
  ["raw contents", (bytes) => withRaw("m", "INT8", bytes, Buffer.alloc(bytes))],
  ["an input with many parameters", (bytes) => field(5, manyOf(SMALL_FIELDS["boolean parameters"]!, bytes))],
];
const KINDS = [
  ...Object.entries(SMALL_FIELDS).map(([name, unit]) => [name, (bytes: number) => manyOf(unit, bytes)] as const),
  ...CONTENTS,
];

test.each(KINDS)("%s: at most eight times the bytes, and no more than is counted", (_, body) => {
  for (const size of SIZES) {
    const given = body(size);
    let counted = 0;
    const taken = heapOf(() => {
      const held = new HeldMessages(2 ** 40);
      const read = atOnce(readInfer(Buffer.from(given), room(held)));
      counted = held.bytes;
      return read;
    }, size);
    if (taken === null) continue;
    expect(taken, `${size} bytes`).toBeLessThan(mostOf(given));
    expect(counted, `${size} bytes`).toBeLessThan(mostOf(given));
    // The count is an estimate, because objects of the same kind differ in size.
    expect(taken, `${size} bytes`).toBeLessThan(1.5 * (counted + given.length) + FIXED_BYTES);
  }
});

const around = {
  ...{ memory: new SharedMemory(), messages: new HeldMessages(2 ** 40), turns: { nowUs: () => 0 } },
  ...{ config: { overGrpc: { forward: null, messageFields: FIELDS_MOST } }, server: { facts: {} } },
} as unknown as ServerAround;

/** Requests with parameters, which are accepted in any number, whatever the model. */
test.each(KINDS.filter(([name]) => name.includes("parameters")))("a request with %s", (_, body) => {
  const inference = new Inference(around);
  for (const size of SIZES) {
    const given = body(size);
    const taken = heapOf(() => {
      const read = inference.read(given, {} as GrpcCall);
      if ("code" in read) throw new MessageRefused(read as never);
      return read;
    }, size);
    if (taken !== null) expect(taken, `${size} bytes`).toBeLessThan(mostOf(given));
  }
});

test("a message whose fields would take more than eight times its bytes is refused", () => {
  const refused = (count: number) => {
    const given = manyOf(SMALL_FIELDS["boolean parameters"]!, 11 * count);
    return new Inference(around).read(given, {} as GrpcCall);
  };
  expect(refused(73)).toMatchObject({ wish: { fields: { parameters: { length: 73 } } } });
  expect(refused(74)).toEqual({
    code: "RESOURCE_EXHAUSTED",
    message:
      "Received message whose fields take more memory than max (8192 bytes, which is 8 times its bytes, but at least 8192)",
  });
  const values = field(2, Buffer.concat(Array.from({ length: 3000 }, () => field(1, "ab"))));
  const settings = field(1, Buffer.concat([field(1, "trace_level"), values]));
  expect(() => atOnce(readMessage("TraceSettingRequest", settings, room()))).toThrow("take more memory than max (96");
});

test("requests that real clients send are accepted: a thousand inputs of one number, a hundred parameters", () => {
  const inputs = manyOf(SMALL_FIELDS["inputs as a client sends them"]!, 32_000);
  const read = new Inference(around).read(Buffer.concat([field(1, "m"), inputs, entries(4, 100)]), {} as GrpcCall);
  expect(read).toMatchObject({ model: "m", wish: { fields: { parameters: { length: 100 } } } });
  expect(((read as InferRead).wish as GrpcWish).fields.inputs.length).toBeGreaterThan(1000);
});
