/**
 * Caches responses by their inputs, like Triton's local response cache (`local_cache`). The size is limited in bytes; the least
 * recently used response is removed first. Counts as observed on 2.51.
 */
import type { InferAnswer, InferRequest } from "./request.ts";

export class CacheCounts {
  entries = 0;
  usedBytes = 0;
  hits = 0;
  misses = 0;
  evictions = 0;
  lookupUs = 0;
  insertionUs = 0;

  constructor(readonly sizeBytes: number) {}
}

/** Bytes that the cache itself needs per entry and per output. */
const ENTRY_BYTES = 96;
const OUTPUT_BYTES = 64;

export class ResponseCache {
  readonly counts: CacheCounts;
  /** Entries by key, least recently used first. */
  readonly #entries = new Map<string, { readonly answer: InferAnswer; readonly bytes: number }>();

  constructor(sizeBytes: number) {
    this.counts = new CacheCounts(sizeBytes);
  }

  find(key: string): InferAnswer | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      this.counts.misses++;
      return undefined;
    }
    this.counts.hits++;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.answer;
  }

  /** Adds a response, unless it is larger than the whole cache. */
  insert(key: string, answer: InferAnswer): void {
    const { counts } = this;
    const bytes = answer.outputs.reduce(
      (all, { name, data }) => all + OUTPUT_BYTES + name.length + data.length,
      ENTRY_BYTES,
    );
    if (bytes > counts.sizeBytes || this.#entries.has(key)) return;
    for (const [oldest, { bytes: freed }] of this.#entries) {
      if (counts.usedBytes + bytes <= counts.sizeBytes) break;
      this.#entries.delete(oldest);
      counts.usedBytes -= freed;
      counts.entries--;
      counts.evictions++;
    }
    this.#entries.set(key, { answer, bytes });
    counts.usedBytes += bytes;
    counts.entries++;
  }
}

/** Returns a key from model, version and inputs. The request id does not matter. */
export function cacheKey(model: string, version: number, request: InferRequest): string {
  const inputs = [...request.inputs.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const hashes = inputs.map(({ name, shape, data }) => `${name}[${shape}]${Bun.hash.wyhash(data)}`);
  return JSON.stringify([model, version, ...hashes]);
}
