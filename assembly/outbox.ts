// What did the last step give out? Rows (slot, first token, tokens, flags) and the tokens, until TypeScript drains them.

import { column } from "./column";
import { maxNumSeqs } from "./config";
import { setAddress, setWord } from "./header";
import { OUT_REASON, OUT_WORDS, STEP_TOKENS, Word } from "./layout";

let rows = changetype<StaticArray<i32>>(0);
let tokens = changetype<StaticArray<i32>>(0);
let lost = changetype<StaticArray<i32>>(0);
/** Indices of the rows that end a request, for readers who want only those. */
let ends = changetype<StaticArray<i32>>(0);
let rowCount: i32 = 0;
let endCount: i32 = 0;
let tokenCount: i32 = 0;
let lostCount: i32 = 0;

export function takeOutbox(): void {
  rows = column(maxNumSeqs * OUT_WORDS);
  tokens = column(maxNumSeqs * STEP_TOKENS);
  lost = column(maxNumSeqs);
  ends = column(maxNumSeqs);
}
export function publishOutbox(): void {
  setAddress(Word.OutAt, changetype<usize>(rows));
  setAddress(Word.TokensAt, changetype<usize>(tokens));
  setAddress(Word.LostAt, changetype<usize>(lost));
  setAddress(Word.OutEndsAt, changetype<usize>(ends));
}

/** Nobody reads the plain rows: runs of them are counted and not written. */
export let muted = false;

export function muteOutbox(on: bool): void {
  muted = on;
}

export function clearOutbox(): void {
  rowCount = 0;
  endCount = 0;
  tokenCount = 0;
  lostCount = 0;
}

/** One sampled token of the request whose row comes next. */
export function putToken(token: i32): void {
  tokens[tokenCount++] = token;
}

/** The row of a request whose last `count` tokens were put, with its OUT_* flags. */
export function emit(slot: i32, count: i32, flags: i32): void {
  const at = rowCount * OUT_WORDS;
  rows[at] = slot;
  rows[at + 1] = tokenCount - count;
  rows[at + 2] = count;
  rows[at + 3] = flags;
  if ((flags & OUT_REASON) !== 0) ends[endCount++] = rowCount;
  rowCount++;
}

/** Sampled, but thrown away: the request had ended, or its output was marked to be dropped. */
export function lose(handle: i32): void {
  lost[lostCount++] = handle;
}

export function sealOutbox(): void {
  setWord(Word.OutRows, rowCount);
  setWord(Word.OutTokens, tokenCount);
  setWord(Word.OutLost, lostCount);
  setWord(Word.OutEnds, endCount);
}
/** Where the next row and token go, for a run of rows written in place; `advanceOutbox` says how many came. */
export function outboxRowsEnd(): usize {
  return changetype<usize>(rows) + ((<usize>(rowCount * OUT_WORDS)) << 2);
}
export function outboxTokensEnd(): usize {
  return changetype<usize>(tokens) + ((<usize>tokenCount) << 2);
}
export function outboxTokens(): i32 {
  return tokenCount;
}
export function advanceOutbox(by: i32): void {
  rowCount += by;
  tokenCount += by;
}
export function outboxRows(): i32 {
  return rowCount;
}
