/** Tests the encoder and the decoder of KV events: recorded payloads, any batch in each profile, and malformed payloads. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { KvCacheEvent, KvEventBatch } from "../../src/kv-events/batch.ts";
import { decodeKvEvents, KvEventsError } from "../../src/kv-events/decode.ts";
import { KvEventsEncoder } from "../../src/kv-events/encode.ts";
import { eventShape, KV_EVENTS_PROFILES, REMOVED_FIELDS, STORED_FIELDS } from "../../src/kv-events/profiles.ts";
import { decodeMsgpack } from "../../src/wire/msgpack/reader.ts";
import type { MsgpackValue } from "../../src/wire/msgpack/values.ts";
import { MsgpackWriter } from "../../src/wire/msgpack/writer.ts";
import { mutated } from "../fuzz.ts";
import { times } from "../size.ts";
import { batches } from "./events.ts";
import real from "./real-bytes.json";

const bytes = (hex: string) => Buffer.from(hex, "hex");
const written = (value: MsgpackValue): Buffer => {
  const writer = new MsgpackWriter();
  writer.value(value);
  return writer.copy();
};
const eventsOf = (payload: Uint8Array) => decodeKvEvents(payload).events.map(({ event }) => event);

const STORED: KvCacheEvent = {
  type: "BlockStored",
  blockHashes: [9565920418023091444n, 4068268036314535099n],
  parentBlockHash: null,
  tokenIds: [1, 2, 3, 4, 5, 6, 7, 8],
  blockSize: 4,
  loraId: null,
  medium: "GPU",
  loraName: null,
  extraKeys: [["zz"], null],
  groupIdx: 0,
  kvCacheSpecKind: "full_attention",
  kvCacheSpecSlidingWindow: null,
  locality: null,
  ownership: null,
  sessionId: null,
  lookaheadTokenIds: null,
};
const REMOVED: KvCacheEvent = {
  type: "BlockRemoved",
  blockHashes: [Buffer.alloc(32, 1)],
  medium: "GPU",
  groupIdx: 0,
  locality: null,
  ownership: null,
};
const RECORDED: readonly (readonly [payload: string, batch: KvEventBatch])[] = [
  [real.batches.stored, { ts: 1795230635.5, events: [STORED], dataParallelRank: 0 }],
  [real.batches.cleared, { ts: 1.5, events: [{ type: "AllBlocksCleared" }], dataParallelRank: 0 }],
  [real.batches.removed, { ts: 1.5, events: [REMOVED], dataParallelRank: 3 }],
];

test("payloads of vLLM's classes are encoded with the same bytes, and decoded", () => {
  const encoder = new KvEventsEncoder("0.33.0");
  for (const [payload, batch] of RECORDED) {
    expect(encoder.encode(batch).toString("hex")).toBe(payload);
    const decoded = decodeKvEvents(bytes(payload));
    expect(decoded).toEqual({
      ...batch,
      events: batch.events.map((event) => ({ event, isMap: true, unknownFields: [] })),
    });
  }
});

test("each profile has the fields of its version, and arrays end with 0.22.0", () => {
  const batch = { ts: 1, events: [STORED, REMOVED, { type: "AllBlocksCleared" } as const], dataParallelRank: 0 };
  const shown = KV_EVENTS_PROFILES.map((profile) => {
    const [, events] = decodeMsgpack(new KvEventsEncoder(profile).encode(batch)) as [number, readonly MsgpackValue[]];
    const sizes = events.map((event) => (event instanceof Map ? `map ${event.size}` : (event as []).length));
    return `${profile}: ${sizes.join(", ")}`;
  });
  expect(shown).toEqual([
    "0.9.2: 6, 2, 1",
    "0.10.2: 7, 3, 1",
    "0.14.0: 8, 3, 1",
    "0.18.0: 9, 3, 1",
    "0.22.0: 12, 4, 1",
    "0.26.0: map 11, map 4, map 1",
    "0.30.0: map 11, map 4, map 1",
    "0.33.0: map 11, map 4, map 1",
  ]);
});

/** Names of the fields in a decoded event. */
const camel = (field: string) => field.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

/** Returns the event without the fields that a profile lacks. */
function reduced(event: KvCacheEvent, kept: readonly string[], all: readonly string[]): KvCacheEvent {
  const lost = all.filter((field) => !kept.includes(field)).map((field) => [camel(field), null] as const);
  return { ...event, ...Object.fromEntries(lost) };
}

/** Makes views of a payload comparable. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return [...value];
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
}

test("any batch is decoded as it was encoded, as far as the profile has its fields", () => {
  fc.assert(
    fc.property(batches, fc.constantFrom(...KV_EVENTS_PROFILES), (batch, profile) => {
      const shape = eventShape(profile);
      const decoded = decodeKvEvents(new KvEventsEncoder(profile).encode(batch));
      const expected = batch.events.map((event) => {
        if (event.type === "BlockStored") return reduced(event, shape.stored, STORED_FIELDS);
        return event.type === "BlockRemoved" ? reduced(event, shape.removed, REMOVED_FIELDS) : event;
      });
      expect([decoded.ts, decoded.dataParallelRank]).toEqual([batch.ts, batch.dataParallelRank]);
      expect(
        decoded.events.every(({ isMap, unknownFields }) => isMap === shape.isMap && unknownFields.length === 0),
      ).toBe(true);
      expect(plain(decoded.events.map(({ event }) => event))).toEqual(plain(expected));
    }),
    { numRuns: times(300) },
  );
});

test("a spoiled payload is decoded or refused with a KvEventsError", () => {
  const payloads = fc
    .tuple(batches, fc.constantFrom(...KV_EVENTS_PROFILES))
    .map(([batch, profile]) => [...new KvEventsEncoder(profile).encode(batch)].map((byte) => Buffer.from([byte])));
  fc.assert(
    fc.property(mutated(payloads), (payload) => {
      try {
        decodeKvEvents(payload);
      } catch (error) {
        expect(error).toBeInstanceOf(KvEventsError);
      }
    }),
    { numRuns: times(300) },
  );
});

test("unknown events and fields are kept by name", () => {
  const removed = new Map<MsgpackValue, MsgpackValue>([
    ...([["type", "BlockRemoved"]] as const),
    ...([["block_hashes", [-5]]] as const),
    ...([["medium", null]] as const),
    ...([["colour", "red"]] as const),
  ]);
  const events = [removed, ["Moved", 1, 2], ["BlockRemoved", [7], "GPU", 0, null, null, "red"]];
  const decoded = decodeKvEvents(written([1.5, events, 0]));
  expect(decoded.events.map(({ event: { type }, unknownFields }) => [type, unknownFields])).toEqual([
    ["BlockRemoved", ["colour"]],
    ["unknown", []],
    ["BlockRemoved", ["#6"]],
  ]);
  expect(decoded.events[0]!.event).toMatchObject({ blockHashes: [-5n] });
  expect(decoded.events[1]!.event).toEqual({ type: "unknown", tag: "Moved" });
});

test("a batch without a rank is accepted, as before 0.10", () => {
  expect(decodeKvEvents(written([2.5, [["AllBlocksCleared"]]])).dataParallelRank).toBeNull();
  expect(eventsOf(written([2.5, [["BlockRemoved", [1]]]]))).toMatchObject([{ blockHashes: [1n], medium: null }]);
});

test.each([
  [[1.5], "a batch must be a list [ts, events, data_parallel_rank]"],
  [["now", []], "ts must be a number"],
  [[1, 2], "events must be a list"],
  [[1, [5]], "events[0] must be a list"],
  [[1, [[5]]], "events[0][0] must be a text"],
  [[1, [["BlockStored", [1], null, [1]]]], "events[0][4], block_size must be present"],
  [[1, [["BlockStored", ["x"], null, [1], 1, null]]], "events[0][1], block_hashes[0] must be an integer or bytes"],
  [[1, [["BlockRemoved", [1.5]]]], "events[0][1], block_hashes[0] must be an integer or bytes"],
  [[1, [new Map([["type", "BlockRemoved"]])]], "events[0].block_hashes must be present"],
  [[1, [], "0"], "data_parallel_rank must be an integer below 2^53"],
] as readonly (readonly [MsgpackValue, string])[])("%j is refused: %s", (value, message) => {
  expect(() => decodeKvEvents(written(value))).toThrow(new KvEventsError(message));
});

test("a payload that is not MessagePack is refused", () => {
  expect(() => decodeKvEvents(Buffer.from("HTTP/1.1 200 OK"))).toThrow(KvEventsError);
  expect(() => decodeKvEvents(Buffer.alloc(0))).toThrow(KvEventsError);
});
