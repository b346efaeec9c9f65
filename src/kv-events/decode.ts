/**
 * Decodes batches of KV events, as arrays and as maps. It is as strict as msgspec 0.22.0 with vLLM's classes, but keeps events and
 * fields that it does not know.
 */
import { decodeMsgpack, MsgpackError } from "../wire/msgpack/reader.ts";
import { Float32, type MsgpackValue } from "../wire/msgpack/values.ts";
import type { BlockRemoved, BlockStored, KvCacheEvent, KvEventBatch } from "./batch.ts";
import type { EventHash, EventKeys } from "./block-hashes.ts";
import { OPTIONAL_FIELDS, REMOVED_FIELDS, STORED_FIELDS, type StoredField } from "./profiles.ts";

/** A payload that is no batch of events. The message says what and where. */
export class KvEventsError extends Error {
  override readonly name = "KvEventsError";
}

/** An event whose type is unknown. */
export interface UnknownKvEvent {
  readonly type: "unknown";
  readonly tag: string;
}

export interface DecodedKvEvent {
  readonly event: KvCacheEvent | UnknownKvEvent;
  readonly isMap: boolean;
  /** Names of unknown keys, or `#16` for the element at index 16 of a longer array. */
  readonly unknownFields: readonly string[];
}

/** The rank may be absent, because it has a default. */
const ELEMENTS_LEAST = 2;

/** Decodes a payload, the third frame of a message. Throws a `KvEventsError`. */
export function decodeKvEvents(payload: Uint8Array): KvEventBatch<DecodedKvEvent> {
  let value: MsgpackValue;
  try {
    value = decodeMsgpack(payload);
  } catch (error) {
    if (error instanceof MsgpackError) throw new KvEventsError(error.message);
    throw error;
  }
  if (!Array.isArray(value) || value.length < ELEMENTS_LEAST)
    throw new KvEventsError("a batch must be a list [ts, events, data_parallel_rank]");
  const [ts, events, rank = null] = value as readonly MsgpackValue[];
  const seconds = ts instanceof Float32 ? ts.value : ts;
  if (typeof seconds !== "number") wrong("ts", "a number");
  return {
    ts: seconds as number,
    events: list(events!, "events").map((event, at) => decodedEvent(event, `events[${at}]`)),
    dataParallelRank: orNull(int)(rank, "data_parallel_rank"),
  };
}

function decodedEvent(value: MsgpackValue, place: string): DecodedKvEvent {
  if (value instanceof Map) {
    const tag = text(value.get("type") ?? null, `${place}.type`);
    const fieldNames = namesOf(tag);
    const read: FieldReader = (name, _index, reader) => {
      const field = value.get(name);
      if (field === undefined && !OPTIONAL_FIELDS.has(name as StoredField)) wrong(`${place}.${name}`, "present");
      return reader(field ?? null, `${place}.${name}`);
    };
    const unknownFields = [...value.keys()].filter((key) => key !== "type" && !fieldNames.includes(key as string));
    return { event: eventOf(tag, read), isMap: true, unknownFields: unknownFields.map(String) };
  }
  const elements = list(value, place);
  const tag = text(elements[0] ?? null, `${place}[0]`);
  const known = namesOf(tag).length;
  const read: FieldReader = (name, index, reader) => {
    // Earlier versions have fewer elements, but none lacks the first ones.
    if (index >= elements.length && index <= leastOf(tag)) wrong(`${place}[${index}], ${name}`, "present");
    return reader(elements[index] ?? null, `${place}[${index}], ${name}`);
  };
  const unknownFields = elements.slice(known + 1).map((_, at) => `#${known + 1 + at}`);
  return { event: eventOf(tag, read), isMap: false, unknownFields: tag in NAMES ? unknownFields : [] };
}

type ValueReader<T> = (value: MsgpackValue, place: string) => T;
/** Reads a field by its name in a map, or its index in an array. */
type FieldReader = <T>(name: string, index: number, reader: ValueReader<T>) => T;

const NAMES: Readonly<Record<string, readonly string[]>> = {
  BlockStored: STORED_FIELDS,
  BlockRemoved: REMOVED_FIELDS,
  AllBlocksCleared: [],
};
const namesOf = (tag: string): readonly string[] => (Object.hasOwn(NAMES, tag) ? NAMES[tag]! : []);
/** Index of the last element that every version has. */
const leastOf = (tag: string): number => (tag === "BlockStored" ? 5 : 1);

function eventOf(tag: string, read: FieldReader): KvCacheEvent | UnknownKvEvent {
  if (tag === "BlockStored") return storedOf(read);
  if (tag === "BlockRemoved") return removedOf(read);
  return tag === "AllBlocksCleared" ? { type: tag } : { type: "unknown", tag };
}

const storedOf = (read: FieldReader): BlockStored => ({
  type: "BlockStored",
  blockHashes: read("block_hashes", 1, listOf(hash)),
  parentBlockHash: read("parent_block_hash", 2, orNull(hash)),
  tokenIds: read("token_ids", 3, listOf(int)),
  blockSize: read("block_size", 4, int),
  loraId: read("lora_id", 5, orNull(int)),
  medium: read("medium", 6, orNull(text)),
  loraName: read("lora_name", 7, orNull(text)),
  extraKeys: read("extra_keys", 8, orNull(listOf(orNull(listOf(eventKey))))) as readonly (EventKeys | null)[] | null,
  groupIdx: read("group_idx", 9, orNull(int)),
  kvCacheSpecKind: read("kv_cache_spec_kind", 10, orNull(text)),
  kvCacheSpecSlidingWindow: read("kv_cache_spec_sliding_window", 11, orNull(int)),
  locality: read("locality", 12, orNull(text)),
  ownership: read("ownership", 13, orNull(text)),
  sessionId: read("session_id", 14, orNull(text)),
  lookaheadTokenIds: read("lookahead_token_ids", 15, orNull(listOf(listOf(int)))),
});

const removedOf = (read: FieldReader): BlockRemoved => ({
  type: "BlockRemoved",
  blockHashes: read("block_hashes", 1, listOf(hash)),
  medium: read("medium", 2, orNull(text)),
  groupIdx: read("group_idx", 3, orNull(int)),
  locality: read("locality", 4, orNull(text)),
  ownership: read("ownership", 5, orNull(text)),
});

function wrong(place: string, accepted: string): never {
  throw new KvEventsError(`${place} must be ${accepted}`);
}

function list(value: MsgpackValue, place: string): readonly MsgpackValue[] {
  return Array.isArray(value) ? (value as readonly MsgpackValue[]) : wrong(place, "a list");
}

const int: ValueReader<number> = (value, place) =>
  typeof value === "number" && Number.isSafeInteger(value) ? value : wrong(place, "an integer below 2^53");

const text: ValueReader<string> = (value, place) => (typeof value === "string" ? value : wrong(place, "a text"));

const hash: ValueReader<EventHash> = (value, place) => {
  if (value instanceof Uint8Array || typeof value === "bigint") return value;
  return typeof value === "number" && Number.isInteger(value) ? BigInt(value) : wrong(place, "an integer or bytes");
};

const listOf =
  <T>(reader: ValueReader<T>): ValueReader<T[]> =>
  (value, place) =>
    list(value, place).map((one, at) => reader(one, `${place}[${at}]`));

const orNull =
  <T>(reader: ValueReader<T>): ValueReader<T | null> =>
  (value, place) =>
    value === null ? null : reader(value, place);

const eventKey: ValueReader<EventKeys[number]> = (value, place) => {
  if (typeof value === "string" || value instanceof Uint8Array) return value;
  return listOf(keyPart)(value, place);
};

const keyPart: ValueReader<string | number | Uint8Array> = (value, place) =>
  typeof value === "string" || value instanceof Uint8Array ? value : int(value, place);
