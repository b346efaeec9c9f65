// The core's public memory: words, cumulative counters and configuration. TypeScript reads them through layout.ts.
import { Config, Total, Word } from "./layout";

const words: usize = memory.data(Word.Count * 4, 16);
const totals: usize = memory.data(Total.Count * 8, 16);
const settings: usize = memory.data(Config.Count * 8, 16);

export function wordsAt(): usize {
  return words;
}
export function totalsAt(): usize {
  return totals;
}
export function configAt(): usize {
  return settings;
}

export function word(index: Word): i32 {
  return load<i32>(words + ((<usize>index) << 2));
}
export function setWord(index: Word, value: i32): void {
  store<i32>(words + ((<usize>index) << 2), value);
}
export function setAddress(index: Word, address: usize): void {
  store<i32>(words + ((<usize>index) << 2), <i32>address);
}

export function total(index: Total): f64 {
  return load<f64>(totals + ((<usize>index) << 3));
}
export function count(index: Total, by: f64): void {
  const at = totals + ((<usize>index) << 3);
  store<f64>(at, load<f64>(at) + by);
}
export function setTotal(index: Total, value: f64): void {
  store<f64>(totals + ((<usize>index) << 3), value);
}

export function setting(index: Config): f64 {
  return load<f64>(settings + ((<usize>index) << 3));
}
export function settingI(index: Config): i32 {
  return <i32>setting(index);
}
