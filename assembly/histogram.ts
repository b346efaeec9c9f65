// How are the request's times and lengths distributed? Bounds come from TypeScript (microseconds or tokens); a value
// falls into the first bucket whose bound is not below it. Consecutive equal values, the normal case within a step, skip the search.
import { column, columnF } from "./column";
import { setAddress } from "./header";
import { FINE_BITS, FINE_TOP, FINE_WIDTH, HISTOGRAM_WIDTH, Histogram, Word } from "./layout";

let bounds = changetype<StaticArray<f64>>(0);
let buckets = changetype<StaticArray<f64>>(0);
let sums = changetype<StaticArray<f64>>(0);
/** Counts of the same observations in fine buckets; see layout.ts. */
let fine = changetype<StaticArray<f64>>(0);
/** Value and buckets of the last observation, per histogram. */
let lastValue = changetype<StaticArray<f64>>(0);
let lastPlace = changetype<StaticArray<i32>>(0);
let lastFine = changetype<StaticArray<i32>>(0);

export function takeHistograms(): void {
  bounds = columnF(Histogram.Count * HISTOGRAM_WIDTH);
  buckets = columnF(Histogram.Count * HISTOGRAM_WIDTH);
  sums = columnF(Histogram.Count);
  lastValue = columnF(Histogram.Count);
  lastPlace = column(Histogram.Count);
  lastFine = column(Histogram.Count);
  fine = columnF(Histogram.Count * FINE_WIDTH);
}

/** Until TypeScript has written the bounds every bound is 0: one bucket, and no value seen yet. */
export function publishHistograms(): void {
  setAddress(Word.BoundsAt, changetype<usize>(bounds));
  setAddress(Word.BucketsAt, changetype<usize>(buckets));
  setAddress(Word.SumsAt, changetype<usize>(sums));
  setAddress(Word.FineAt, changetype<usize>(fine));
  for (let i = 0; i < Histogram.Count; i++) lastValue[i] = -1;
}

/** Without simulated time a step begins with its turn, before a request that comes while its tokens are written: that lasted 0, not less. */
export function observe(histogram: Histogram, value: f64): void {
  observeMany(histogram, max(value, 0), 1);
}

/** Bounds end at the first 0 after the first place; a row's bounds are rising. */
export function observeMany(histogram: Histogram, value: f64, times: f64): void {
  if (value !== lastValue[histogram]) {
    const from = histogram * HISTOGRAM_WIDTH;
    let at = from;
    while (bounds[at] !== 0 && value > bounds[at]) at++;
    lastValue[histogram] = value;
    lastPlace[histogram] = at;
    lastFine[histogram] = histogram * FINE_WIDTH + fineBucket(value);
  }
  const at = lastPlace[histogram];
  buckets[at] = buckets[at] + times;
  const fineAt = lastFine[histogram];
  fine[fineAt] = fine[fineAt] + times;
  sums[histogram] = sums[histogram] + value * times;
}

function fineBucket(value: f64): i32 {
  if (!(value >= 0)) return 0;
  if (value >= <f64>((<u64>1) << FINE_TOP)) return FINE_WIDTH - 1;
  const whole = <u64>value;
  const octave = max(63 - <i32>clz(whole | 1), FINE_BITS - 1) - FINE_BITS;
  if (octave < 0) return <i32>whole;
  return ((octave + 1) << FINE_BITS) + (<i32>(whole >> octave) & ((1 << FINE_BITS) - 1));
}
