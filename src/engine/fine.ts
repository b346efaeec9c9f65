/** Which values does a fine bucket of the core's histograms stand for? The inverse of `fineBucket` in assembly/histogram.ts. */
import { FINE_BITS } from "../../assembly/layout.ts";

const EXACT = 1 << FINE_BITS;

/** The middle of the bucket's whole values: itself below 2^FINE_BITS, above within 0.4 % of each. Microseconds or tokens. */
export function fineMiddle(bucket: number): number {
  if (bucket < EXACT) return bucket;
  const width = 2 ** ((bucket >> FINE_BITS) - 1);
  return (EXACT + (bucket & (EXACT - 1))) * width + (width - 1) / 2;
}
