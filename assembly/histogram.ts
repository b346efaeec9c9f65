// How are the request's times and lengths distributed? Bounds come from TypeScript (microseconds or tokens); a value
// falls into the first bucket whose bound is not below it. Consecutive equal values, the normal case within a step, skip the search.
import { column, columnF } from "./column";
import { setAddress } from "./header";
import { HISTOGRAM_WIDTH, Histogram, Word } from "./layout";

let bounds = changetype<StaticArray<f64>>(0);
let buckets = changetype<StaticArray<f64>>(0);
let sums = changetype<StaticArray<f64>>(0);
/** Value and bucket of the last observation, per histogram. */
let lastValue = changetype<StaticArray<f64>>(0);
let lastPlace = changetype<StaticArray<i32>>(0);

export function takeHistograms(): void {
  bounds = columnF(Histogram.Count * HISTOGRAM_WIDTH);
  buckets = columnF(Histogram.Count * HISTOGRAM_WIDTH);
  sums = columnF(Histogram.Count);
  lastValue = columnF(Histogram.Count);
  lastPlace = column(Histogram.Count);
}

/** Until TypeScript has written the bounds every bound is 0: one bucket, and no value seen yet. */
export function publishHistograms(): void {
  setAddress(Word.BoundsAt, changetype<usize>(bounds));
  setAddress(Word.BucketsAt, changetype<usize>(buckets));
  setAddress(Word.SumsAt, changetype<usize>(sums));
  for (let i = 0; i < Histogram.Count; i++) lastValue[i] = -1;
}

export function observe(histogram: Histogram, value: f64): void {
  observeMany(histogram, value, 1);
}

/** Bounds end at the first 0 after the first place; a row's bounds are rising. */
export function observeMany(histogram: Histogram, value: f64, times: f64): void {
  if (value !== lastValue[histogram]) {
    const from = histogram * HISTOGRAM_WIDTH;
    let at = from;
    while (bounds[at] !== 0 && value > bounds[at]) at++;
    lastValue[histogram] = value;
    lastPlace[histogram] = at;
  }
  const at = lastPlace[histogram];
  buckets[at] = buckets[at] + times;
  sums[histogram] = sums[histogram] + value * times;
}
