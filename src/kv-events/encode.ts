/** Encodes batches of KV events as a version of vLLM does. Source: msgspec 0.22.0 with the classes that `profiles.ts` lists. */
import type { MsgpackValue } from "../wire/msgpack/values.ts";
import { MsgpackWriter } from "../wire/msgpack/writer.ts";
import type { BlockRemoved, BlockStored, KvCacheEvent, KvEventBatch } from "./batch.ts";
import {
  type EventShape,
  eventShape,
  type KvEventsProfile,
  OPTIONAL_FIELDS,
  type RemovedField,
  type StoredField,
} from "./profiles.ts";

type FieldValues<Event, Field extends string> = Readonly<Record<Field, (event: Event) => unknown>>;

const STORED_VALUES: FieldValues<BlockStored, StoredField> = {
  block_hashes: (event) => event.blockHashes,
  parent_block_hash: (event) => event.parentBlockHash,
  token_ids: (event) => event.tokenIds,
  block_size: (event) => event.blockSize,
  lora_id: (event) => event.loraId,
  medium: (event) => event.medium,
  lora_name: (event) => event.loraName,
  extra_keys: (event) => event.extraKeys,
  group_idx: (event) => event.groupIdx,
  kv_cache_spec_kind: (event) => event.kvCacheSpecKind,
  kv_cache_spec_sliding_window: (event) => event.kvCacheSpecSlidingWindow,
  locality: (event) => event.locality,
  ownership: (event) => event.ownership,
  session_id: (event) => event.sessionId,
  lookahead_token_ids: (event) => event.lookaheadTokenIds,
};

const REMOVED_VALUES: FieldValues<BlockRemoved, RemovedField> = {
  block_hashes: (event) => event.blockHashes,
  medium: (event) => event.medium,
  group_idx: (event) => event.groupIdx,
  locality: (event) => event.locality,
  ownership: (event) => event.ownership,
};

export class KvEventsEncoder {
  readonly #shape: EventShape;
  readonly #writer = new MsgpackWriter();

  constructor(profile: KvEventsProfile) {
    this.#shape = eventShape(profile);
  }

  /** Returns the payload of a message. A field that the profile lacks is left out. */
  encode({ ts, events, dataParallelRank }: KvEventBatch): Buffer {
    const writer = this.#writer;
    writer.reset();
    writer.array(3);
    writer.float64(ts);
    writer.array(events.length);
    for (const event of events) this.#event(event);
    writer.value(dataParallelRank);
    return writer.copy();
  }

  #event(event: KvCacheEvent): void {
    const { stored, removed } = this.#shape;
    if (event.type === "BlockStored") this.#fields(event.type, event, stored, STORED_VALUES);
    else if (event.type === "BlockRemoved") this.#fields(event.type, event, removed, REMOVED_VALUES);
    else this.#fields(event.type, event, [], {});
  }

  #fields<Event, Field extends StoredField>(
    type: string,
    event: Event,
    fields: readonly Field[],
    values: FieldValues<Event, Field>,
  ): void {
    const writer = this.#writer;
    if (!this.#shape.isMap) {
      // msgspec leaves no element of an array out, even at its default.
      writer.array(1 + fields.length);
      writer.text(type);
      for (const field of fields) writer.value(values[field](event) as MsgpackValue);
      return;
    }
    const shown = fields.filter((field) => !OPTIONAL_FIELDS.has(field) || values[field](event) !== null);
    writer.map(1 + shown.length, 1 + fields.length);
    writer.text("type");
    writer.text(type);
    for (const field of shown) {
      writer.text(field);
      writer.value(values[field](event) as MsgpackValue);
    }
  }
}
