/** Configuration of published KV events, as `--kv-events-config` has it. Source: vLLM 0.33.0 `vllm/config/kv_events.py`. */
import { zmtpAddress } from "../wire/zmtp/endpoint.ts";
import type { KvFaultPlan } from "./fault-plan.ts";
import type { HashAlgorithm } from "./hash-algorithms.ts";
import type { KvEventsProfile } from "./profiles.ts";

/** Names and values are those of vLLM, because `GET /kv_event_sources` shows them. */
export interface KvEventsSource {
  readonly enable_kv_cache_events: boolean;
  readonly publisher: "zmq" | "null";
  /** Address of the PUB socket. */
  readonly endpoint: string;
  /** Address of the ROUTER socket. null: nothing can be replayed. */
  readonly replay_endpoint: string | null;
  /** Batches that are kept for replays. */
  readonly buffer_steps: number;
  /** Messages that may wait for a subscriber. 0: their bytes are the only limit. */
  readonly hwm: number;
  /** Batches that may wait for the publisher. 0: its memory is the only limit. */
  readonly max_queue_size: number;
  /** First frame of each message. */
  readonly topic: string;
}

export const KV_EVENTS_DEFAULTS: KvEventsSource = {
  enable_kv_cache_events: false,
  publisher: "null",
  endpoint: "tcp://*:5557",
  replay_endpoint: null,
  buffer_steps: 10_000,
  hwm: 100_000,
  max_queue_size: 100_000,
  topic: "",
};

export interface KvEventsConfig {
  readonly source: KvEventsSource;
  readonly profile: KvEventsProfile;
  readonly algorithm: HashAlgorithm;
  /** Text of PYTHONHASHSEED. null: not set. */
  readonly seed: string | null;
  /** True if events show the low 64 bits of hashes as integers, false if they show all bytes. */
  readonly hasIntHashes: boolean;
  /** Events of a batch. null: a batch has the events of one step, as in vLLM. */
  readonly batchSize: number | null;
  /** Faults of published events. null: none. */
  readonly faults: KvFaultPlan | null;
  /** Rank of the first engine of the server. */
  readonly firstRank: number;
}

/** Reports whether batches are published at all. */
export const publishes = ({ source }: Pick<KvEventsConfig, "source">): boolean =>
  source.enable_kv_cache_events && source.publisher === "zmq";

/** Reports whether vLLM binds the PUB socket to this address. It connects to any other. */
export const isBindEndpoint = (endpoint: string): boolean =>
  endpoint.includes("*") || endpoint.includes("::") || /^(ipc|inproc):\/\//.test(endpoint);

/**
 * Returns the address of a rank: its TCP port plus the rank, or a name with `_dp` and the rank. Returns null if there is none,
 * because a path of `ipc://` cannot be shared.
 */
export function endpointOfRank(endpoint: string, rank: number): string | null {
  if (rank === 0) return endpoint;
  if (endpoint.startsWith("inproc://")) return `${endpoint}_dp${rank}`;
  const [, address, port] = /^(tcp:\/\/.*:)(\d+)$/.exec(endpoint) ?? [];
  if (port === undefined) return endpoint.startsWith("tcp://") ? endpoint : null;
  return Number(port) === 0 ? endpoint : `${address}${Number(port) + rank}`;
}

const COUNT_MOST = 2 ** 31 - 1;
const isCount = (value: unknown): boolean =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= COUNT_MOST;
const COUNT = { isSound: isCount, accepts: `a whole number from 0 to ${COUNT_MOST}` };
const TEXT = { isSound: (value: unknown) => typeof value === "string", accepts: "a text" };
const ENDPOINT_FORMS = "tcp://HOST:PORT, ipc://PATH or inproc://NAME";
const isEndpoint = (value: unknown): boolean =>
  typeof value === "string" && (/^inproc:\/\/./.test(value) || zmtpAddress(value) !== null);

/** Accepted values by key. */
const KEYS: Readonly<
  Record<keyof KvEventsSource, { readonly isSound: (value: unknown) => boolean; readonly accepts: string }>
> = {
  enable_kv_cache_events: { isSound: (value) => typeof value === "boolean", accepts: "true or false" },
  publisher: { isSound: (value) => value === "zmq" || value === "null", accepts: '"zmq" or "null"' },
  endpoint: { isSound: isEndpoint, accepts: ENDPOINT_FORMS },
  replay_endpoint: { isSound: (value) => value === null || isEndpoint(value), accepts: `${ENDPOINT_FORMS}, or null` },
  buffer_steps: COUNT,
  hwm: COUNT,
  max_queue_size: COUNT,
  topic: TEXT,
};

/** Returns the reason why a value of `--kv-events-config` is refused, without the place, or undefined. */
export function wrongKvEventsSource(given: Readonly<Record<string, unknown>>): string | undefined {
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(KEYS, key)) return `unknown key "${key}"; accepted: ${Object.keys(KEYS).join(", ")}`;
    const { isSound, accepts } = KEYS[key as keyof KvEventsSource];
    if (!isSound(value)) return `${key}: must be ${accepts}, not ${JSON.stringify(value)}`;
  }
  return undefined;
}

/** Returns the complete value. Call it only if `wrongKvEventsSource` has found nothing. */
export function kvEventsSource(given: Readonly<Record<string, unknown>>): KvEventsSource {
  const source = { ...KV_EVENTS_DEFAULTS, ...given } as KvEventsSource;
  return { ...source, publisher: (given.publisher ?? (source.enable_kv_cache_events ? "zmq" : "null")) as "zmq" };
}

const PORT_MOST = 65_535;

/** Returns the reason why ranks from `first` on cannot each have their address, or undefined. */
export function wrongRanks(
  { endpoint, replay_endpoint }: KvEventsSource,
  first: number,
  ranks: number,
): string | undefined {
  const last = first + ranks - 1;
  for (const [key, address] of Object.entries({ endpoint, replay_endpoint })) {
    if (address === null) continue;
    const own = endpointOfRank(address, last);
    if (own === null) return `${key}: must be tcp://HOST:PORT with rank ${last}, because ranks cannot share ${address}`;
    if (!isEndpoint(own)) return `${key}: ${address} plus rank ${last} is above port ${PORT_MOST}`;
  }
  return undefined;
}
