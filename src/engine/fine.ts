/** Converts fine buckets of the core's histograms back to values. Inverse of `fineBucket` in assembly/histogram.ts. */
import { FINE_BITS } from "../../assembly/layout.ts";

const EXACT = 1 << FINE_BITS;

/** Returns the middle of a bucket's whole values, in microseconds or tokens: exact below 2^FINE_BITS, within 0.4 % above. */
export function fineMiddle(bucket: number): number {
  if (bucket < EXACT) return bucket;
  const width = 2 ** ((bucket >> FINE_BITS) - 1);
  return (EXACT + (bucket & (EXACT - 1))) * width + (width - 1) / 2;
}
