/**
 * Which answers are kept for the same inputs? The local response cache: bounded in bytes, the longest unused goes first
 * (`local_cache` of its repository; counted as 2.51 was seen to).
 */
import type { InferAnswer, InferRequest } from "./request.ts";

export interface CacheCounts {
  entries: number;
  usedBytes: number;
  readonly sizeBytes: number;
  hits: number;
  misses: number;
  evictions: number;
  lookupUs: number;
  insertionUs: number;
}

/** What the cache's own record of an entry takes, and one of an output. */
const ENTRY_BYTES = 96;
const OUTPUT_BYTES = 64;

export class ResponseCache {
  readonly counts: CacheCounts;
  /** The longest unused first. */
  readonly #kept = new Map<string, { readonly answer: InferAnswer; readonly bytes: number }>();

  constructor(sizeBytes: number) {
    this.counts = {
      entries: 0,
      usedBytes: 0,
      sizeBytes,
      hits: 0,
      misses: 0,
      evictions: 0,
      lookupUs: 0,
      insertionUs: 0,
    };
  }

  find(key: string): InferAnswer | undefined {
    const found = this.#kept.get(key);
    if (found === undefined) {
      this.counts.misses++;
      return undefined;
    }
    this.counts.hits++;
    this.#kept.delete(key);
    this.#kept.set(key, found);
    return found.answer;
  }

  /** What is larger than the whole cache is not kept. */
  insert(key: string, answer: InferAnswer): void {
    const { counts } = this;
    const bytes = answer.outputs.reduce(
      (all, { name, data }) => all + OUTPUT_BYTES + name.length + data.length,
      ENTRY_BYTES,
    );
    if (bytes > counts.sizeBytes || this.#kept.has(key)) return;
    for (const [oldest, { bytes: freed }] of this.#kept) {
      if (counts.usedBytes + bytes <= counts.sizeBytes) break;
      this.#kept.delete(oldest);
      counts.usedBytes -= freed;
      counts.entries--;
      counts.evictions++;
    }
    this.#kept.set(key, { answer, bytes });
    counts.usedBytes += bytes;
    counts.entries++;
  }
}

/** By model, version and inputs, whatever the request's id is. */
export function cacheKey(model: string, version: number, request: InferRequest): string {
  const inputs = [...request.inputs.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const hashes = inputs.map(({ name, shape, data }) => `${name}[${shape}]${Bun.hash.wyhash(data)}`);
  return JSON.stringify([model, version, ...hashes]);
}
