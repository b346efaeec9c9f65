/**
 * Bounds the memory for gaps between chunks. If there are too many, later records lose their chunk times, and their gaps are
 * counted in buckets that are 0.2 % wide. So a long run takes no more memory than a short one.
 */
import type { Distribution } from "../report/result.ts";
import { chunkGaps, isGoodAnswer, saysTokens } from "./measures.ts";
import type { RequestRecord } from "./requests/types.ts";

/** Number of chunks whose times are kept, at 12 bytes each. */
export const CHUNKS_KEPT = 1e7;

const PER_DECADE = 1000;
const DECADES = 12;
/** A microsecond. Smaller gaps count as 0. */
const LEAST_MS = 1e-3;
const NO_TIMES = new Float64Array(0);
const NO_TOKENS = new Int32Array(0);

export class GapCounts {
  readonly #counts = new Float64Array(1 + PER_DECADE * DECADES);
  #count = 0;
  #sum = 0;
  #squares = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;

  add(ms: number, times = 1): void {
    const bucket = ms < LEAST_MS ? 0 : 1 + Math.floor(Math.log10(ms / LEAST_MS) * PER_DECADE + 1e-9);
    this.#counts[Math.min(bucket, this.#counts.length - 1)]! += times;
    this.#count += times;
    this.#sum += ms * times;
    this.#squares += ms * ms * times;
    this.#min = Math.min(this.#min, ms);
    this.#max = Math.max(this.#max, ms);
  }

  distribution(percentiles: readonly number[]): Distribution {
    const mean = this.#sum / this.#count;
    const bounds: number[] = [];
    const counts: number[] = [];
    for (const [bucket, count] of this.#counts.entries()) {
      if (count === 0) continue;
      bounds.push(Math.min(this.#upper(bucket), this.#max));
      counts.push(count);
    }
    return {
      count: this.#count,
      mean,
      std: Math.sqrt(Math.max(0, this.#squares / this.#count - mean * mean)),
      min: this.#min,
      max: this.#max,
      ...Object.fromEntries(percentiles.map((q) => [`p${q}`, this.#percentile(q)])),
      histogram: { bounds, counts },
    };
  }

  #upper(bucket: number): number {
    return bucket === 0 ? 0 : LEAST_MS * 10 ** (bucket / PER_DECADE);
  }

  /** Returns the upper end of the bucket with the percentile. */
  #percentile(q: number): number {
    const rank = (q / 100) * (this.#count - 1);
    let below = 0;
    for (const [bucket, count] of this.#counts.entries()) {
      below += count;
      if (below > rank) return Math.min(this.#upper(bucket), this.#max);
    }
    return this.#max;
  }
}

/** Keeps chunk times while there is room, and only counts gaps after that. */
export class ChunkKeeper {
  /** Number of requests whose gaps are only counted. */
  folded = 0;
  #kept = 0;
  #itl: GapCounts | null = null;
  #icl: GapCounts | null = null;

  constructor(private readonly most = CHUNKS_KEPT) {}

  /** Returns the record to keep, with or without its chunk times. */
  keep(record: RequestRecord): RequestRecord {
    this.#kept += gapsOf(record);
    if (this.#kept <= this.most) return record;
    this.#itl ??= new GapCounts();
    this.#icl ??= new GapCounts();
    this.#count(record);
    this.folded++;
    return { ...record, chunkUs: NO_TIMES, chunkTokens: NO_TOKENS };
  }

  /** Returns the distributions of all gaps, including those of records that kept their times. Null if all records did. */
  distributions(
    records: readonly RequestRecord[],
    percentiles: readonly number[],
  ): { readonly itl: Distribution; readonly icl: Distribution } | null {
    if (this.#itl === null || this.#icl === null) return null;
    for (const record of records) this.#count(record);
    return { itl: this.#itl.distribution(percentiles), icl: this.#icl.distribution(percentiles) };
  }

  #count(record: RequestRecord): void {
    if (!isGoodAnswer(record)) return;
    for (const gap of chunkGaps(record)) this.#icl!.add(gap);
    for (const gap of chunkGaps(record)) this.#itl!.add(gap);
    const more = saysTokens(record) ? gapsOf(record) - record.chunkUs.length : 0;
    if (more > 0) this.#itl!.add(0, more);
  }
}

/** Returns the number of token gaps of a record plus one. A server may claim any number of tokens per chunk. */
function gapsOf({ chunkUs, chunkTokens }: RequestRecord): number {
  let tokens = 0;
  for (let i = 0; i < chunkUs.length; i++) tokens += Math.max(1, chunkTokens[i]!);
  return tokens;
}
