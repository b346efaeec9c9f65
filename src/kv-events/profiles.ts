/**
 * Lists how the events of vLLM's versions are encoded. A profile is named after the first version that was looked at. Source:
 * `vllm/distributed/kv_events.py` of the wheels 0.9.2, 0.10.2, 0.14.0, 0.18.0, 0.22.0, 0.26.0, 0.30.0 and 0.33.0.
 */

/** Fields of `BlockStored` in the order of its array, with the profile that brought each. */
const STORED = {
  block_hashes: "0.9.2",
  parent_block_hash: "0.9.2",
  token_ids: "0.9.2",
  block_size: "0.9.2",
  lora_id: "0.9.2",
  medium: "0.10.2",
  lora_name: "0.14.0",
  extra_keys: "0.18.0",
  group_idx: "0.22.0",
  kv_cache_spec_kind: "0.22.0",
  kv_cache_spec_sliding_window: "0.22.0",
  locality: "0.26.0",
  ownership: "0.30.0",
  session_id: "0.30.0",
  lookahead_token_ids: "0.33.0",
} as const;

const REMOVED = {
  block_hashes: "0.9.2",
  medium: "0.10.2",
  group_idx: "0.22.0",
  locality: "0.26.0",
  ownership: "0.30.0",
} as const;

export type StoredField = keyof typeof STORED;
export type RemovedField = keyof typeof REMOVED;
export const STORED_FIELDS = Object.keys(STORED) as readonly StoredField[];
export const REMOVED_FIELDS = Object.keys(REMOVED) as readonly RemovedField[];

/** Fields that have a default, which is null. A map leaves them out then. */
export const OPTIONAL_FIELDS: ReadonlySet<StoredField> = new Set<StoredField>([
  ...["extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"],
  ...["locality", "ownership", "session_id", "lookahead_token_ids"],
] as StoredField[]);

/** Values of `--kv-events-profile`. */
export const KV_EVENTS_PROFILES = [
  "0.9.2",
  "0.10.2",
  "0.14.0",
  "0.18.0",
  "0.22.0",
  "0.26.0",
  "0.30.0",
  "0.33.0",
] as const;
export type KvEventsProfile = (typeof KV_EVENTS_PROFILES)[number];
export const DEFAULT_PROFILE: KvEventsProfile = "0.33.0";

export interface EventShape {
  /** True if an event is a map with the key `type`, false if it is an array whose first element is the type. */
  readonly isMap: boolean;
  readonly stored: readonly StoredField[];
  readonly removed: readonly RemovedField[];
}

export function eventShape(profile: KvEventsProfile): EventShape {
  const isKnown = (since: KvEventsProfile) => KV_EVENTS_PROFILES.indexOf(since) <= KV_EVENTS_PROFILES.indexOf(profile);
  return {
    isMap: isKnown("0.26.0"),
    stored: STORED_FIELDS.filter((field) => isKnown(STORED[field])),
    removed: REMOVED_FIELDS.filter((field) => isKnown(REMOVED[field])),
  };
}
