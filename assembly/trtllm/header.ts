// The core's public memory that only TensorRT-LLM's policies have: words and counters.
import { KvTotal, TrtWord } from "./layout";

const words: usize = memory.data(TrtWord.Count << 2, 16);
const totals: usize = memory.data(KvTotal.Count << 3, 8);

export function trtWordsAt(): usize {
  return words;
}
export function kvTotalsAt(): usize {
  return totals;
}

export function trtWord(index: TrtWord): i32 {
  return load<i32>(words + ((<usize>index) << 2));
}
export function setTrtWord(index: TrtWord, value: i32): void {
  store<i32>(words + ((<usize>index) << 2), value);
}
export function setList(index: TrtWord, list: StaticArray<i32>): void {
  setTrtWord(index, <i32>changetype<usize>(list));
}
export function countKv(index: KvTotal, by: i32): void {
  const at = totals + ((<usize>index) << 3);
  store<f64>(at, load<f64>(at) + <f64>by);
}
