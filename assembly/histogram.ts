// Histograms of the requests' times and lengths. TypeScript writes the bounds, in microseconds or tokens. A value falls
// into the first bucket whose bound is at least the value. Equal values in a row, the normal case within a step, need
// no search.
import { column, columnF } from "./column";
import { setAddress } from "./header";
import { FINE_BITS, FINE_TOP, FINE_WIDTH, HISTOGRAM_WIDTH, Histogram, Word } from "./layout";

let bounds = changetype<StaticArray<f64>>(0);
let buckets = changetype<StaticArray<f64>>(0);
let sums = changetype<StaticArray<f64>>(0);
/** Counts of the same observations in finer buckets for percentiles (see layout.ts). */
let fine = changetype<StaticArray<f64>>(0);
/** Last value of each histogram, and the buckets it fell into. */
let lastValue = changetype<StaticArray<f64>>(0);
let lastPlace = changetype<StaticArray<i32>>(0);
let lastFine = changetype<StaticArray<i32>>(0);

export function allocateHistograms(): void {
  bounds = columnF(Histogram.Count * HISTOGRAM_WIDTH);
  buckets = columnF(Histogram.Count * HISTOGRAM_WIDTH);
  sums = columnF(Histogram.Count);
  lastValue = columnF(Histogram.Count);
  lastPlace = column(Histogram.Count);
  lastFine = column(Histogram.Count);
  fine = columnF(Histogram.Count * FINE_WIDTH);
}

/** Publishes the addresses. Until TypeScript writes the bounds, every bound is 0 and each histogram has one bucket. */
export function publishHistograms(): void {
  setAddress(Word.BoundsAt, changetype<usize>(bounds));
  setAddress(Word.BucketsAt, changetype<usize>(buckets));
  setAddress(Word.SumsAt, changetype<usize>(sums));
  setAddress(Word.FineAt, changetype<usize>(fine));
  for (let i = 0; i < Histogram.Count; i++) lastValue[i] = -1;
}

/**
 * Records one value. Negative values count as 0. They occur if time is not simulated, because a step then starts with
 * its event-loop turn. A request that arrives while the step's tokens are written is later than the step.
 */
export function observe(histogram: Histogram, value: f64): void {
  observeMany(histogram, max(value, 0), 1);
}

/** Records a value `times` times. A histogram's bounds rise, and the first 0 after the first bound ends them. */
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
