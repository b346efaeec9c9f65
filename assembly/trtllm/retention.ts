// Sets the retention priorities of a request's blocks. Ranges of its tokens have a priority and perhaps a duration,
// after which the default priority applies again. A block gets the priority of the range that contains its first token
// (TensorRT-LLM's KvCacheRetentionConfig).
import { column } from "../column";
import { blockSize } from "../config";
import { word } from "../header";
import { SLOTS, Word } from "../layout";
import { NO_TIME, PRIORITY_DEFAULT, RANGE_WORDS, RANGES_MOST } from "./layout";
import { setPriority } from "./pool";

const WIDTH: i32 = (RANGES_MOST + 1) * RANGE_WORDS;
/** Per slot the row for generated tokens, then the ranges, as in the input buffer. */
let ranges = changetype<StaticArray<i32>>(0);
/** Number of the slot's ranges plus one. 0 means no retention. */
let counts = changetype<StaticArray<i32>>(0);

export function allocateRetention(): void {
  ranges = column(SLOTS * WIDTH);
  counts = column(SLOTS);
}

/** Reads the input buffer: a row for generated tokens and `count` rows for ranges. */
export function retain(slot: i32, count: i32): void {
  assert(count >= 0 && count <= RANGES_MOST, "too many ranges of tokens");
  counts[slot] = count + 1;
  const from = <usize>(<u32>word(Word.InputAt));
  for (let i = 0; i < (count + 1) * RANGE_WORDS; i++) ranges[slot * WIDTH + i] = load<i32>(from + ((<usize>i) << 2));
}

export function forgetRetention(slot: i32): void {
  counts[slot] = 0;
}

/** Sets the priority of block number `index` of the prompt by its range. Outside of all ranges, the block keeps its priority. */
export function retainPrompt(slot: i32, index: i32, block: i32): void {
  const token = index * blockSize;
  for (let i = 1; i < counts[slot]; i++) {
    const at = slot * WIDTH + i * RANGE_WORDS;
    if (token < ranges[at] || (ranges[at + 1] !== NO_TIME && token >= ranges[at + 1])) continue;
    setPriority(block, ranges[at + 2], durationUs(ranges[at + 3]));
    return;
  }
}

/** Sets the priority of a block that is allocated for generated tokens. */
export function retainOutput(slot: i32, block: i32): void {
  if (counts[slot] === 0) return;
  const at = slot * WIDTH;
  if (ranges[at + 2] !== PRIORITY_DEFAULT) setPriority(block, ranges[at + 2], durationUs(ranges[at + 3]));
}

/** Converts a duration to microseconds. 0 means for ever. */
function durationUs(ms: i32): f64 {
  return ms === NO_TIME ? 0 : <f64>ms * 1000;
}
