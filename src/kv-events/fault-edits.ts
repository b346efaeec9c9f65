/** Changes the events in a payload, whatever its encoding. Source of the fields: `profiles.ts`. */
import type { Random } from "../base/random.ts";
import { decodeMsgpack } from "../wire/msgpack/reader.ts";
import { Float32, type MsgpackValue } from "../wire/msgpack/values.ts";
import { MsgpackWriter } from "../wire/msgpack/writer.ts";
import { REMOVED_FIELDS, STORED_FIELDS } from "./profiles.ts";

type MutableMap = Map<MsgpackValue, MsgpackValue>;
type MutableEvent = MutableMap | MsgpackValue[];

const UNKNOWN_TAG = "BlockPinned";
const UNKNOWN_FIELD = "pinned_until";
const HASH_BYTES = 32;
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  BlockStored: STORED_FIELDS,
  BlockRemoved: REMOVED_FIELDS,
};

export type PayloadEdit = (payload: Buffer, random: Random) => Buffer | null;

const typeOf = (event: MutableEvent): MsgpackValue => (event instanceof Map ? event.get("type")! : event[0]!);

/** Returns the payload with changed events, or null if `edit` returns false. */
function edited(payload: Buffer, edit: (events: MutableEvent[]) => boolean): Buffer | null {
  const [ts, events, rank] = decodeMsgpack(payload) as readonly MsgpackValue[];
  if (!edit(events as MutableEvent[])) return null;
  const writer = new MsgpackWriter();
  writer.array(3);
  writer.float64(ts instanceof Float32 ? ts.value : (ts as number));
  writer.value(events!);
  writer.value(rank ?? null);
  return writer.copy();
}

/** Draws a hash like those of the events: an integer, or bytes. */
function drawnHash(events: readonly MutableEvent[], random: Random): MsgpackValue {
  const isBytes = events.some((event) => {
    const hashes = event instanceof Map ? event.get("block_hashes") : event[1];
    return Array.isArray(hashes) && hashes[0] instanceof Uint8Array;
  });
  if (!isBytes) return (BigInt(random()) << 32n) | BigInt(random());
  return Buffer.from(Array.from({ length: HASH_BYTES }, () => random() & 0xff));
}

/** Returns an event in the form of the others. `fields`: values after the tag, in the order of an array. */
const eventLike = (events: readonly MutableEvent[], tag: string, fields: Readonly<Record<string, MsgpackValue>>) =>
  events[0] instanceof Map
    ? new Map<MsgpackValue, MsgpackValue>([["type", tag], ...Object.entries(fields)])
    : [tag, ...Object.values(fields)];

/** Puts an event of an unknown type before the others. */
export const withUnknownEvent: PayloadEdit = (payload, random) =>
  edited(payload, (events) => {
    events.unshift(eventLike(events, UNKNOWN_TAG, { block_hashes: [drawnHash(events, random)] }));
    return true;
  });

/** Adds an unknown field to the first event. */
export const withUnknownField: PayloadEdit = (payload) =>
  edited(payload, (events) => {
    const event = events[0]!;
    if (event instanceof Map) event.set(UNKNOWN_FIELD, 0);
    else {
      const known = FIELDS[String(typeOf(event))]?.length ?? 0;
      while (event.length <= known) event.push(null);
      event.push(0);
    }
    return true;
  });

/** Gives the first stored blocks a parent that was never stored. */
export const withWrongParent: PayloadEdit = (payload, random) =>
  edited(payload, (events) => {
    const event = events.find((one) => typeOf(one) === "BlockStored");
    if (event === undefined) return false;
    const hash = drawnHash(events, random);
    if (event instanceof Map) event.set("parent_block_hash", hash);
    else event[2] = hash;
    return true;
  });

/** Removes a block that was never stored. */
export const withUnknownRemoval: PayloadEdit = (payload, random) =>
  edited(payload, (events) => {
    events.push(eventLike(events, "BlockRemoved", { block_hashes: [drawnHash(events, random)], medium: "GPU" }));
    return true;
  });

/** Flips bits of all hashes, so that the events are those of an engine with other hashes. */
export const withOtherHashes: PayloadEdit = (payload) =>
  edited(payload, (events) => {
    for (const event of events) {
      if (event instanceof Map) {
        for (const name of ["block_hashes", "parent_block_hash"])
          if (event.has(name)) event.set(name, otherHash(event.get(name)!));
      } else
        for (const at of typeOf(event) === "BlockStored" ? [1, 2] : [1])
          if (at < event.length) event[at] = otherHash(event[at]!);
    }
    return true;
  });

const MASK = 0x5bd1e9955bd1e995n;

function otherHash(value: MsgpackValue): MsgpackValue {
  if (Array.isArray(value)) return (value as readonly MsgpackValue[]).map(otherHash);
  if (value instanceof Uint8Array) return Uint8Array.from(value, (byte) => byte ^ 0x5b);
  return typeof value === "number" || typeof value === "bigint" ? BigInt.asUintN(64, BigInt(value)) ^ MASK : value;
}
