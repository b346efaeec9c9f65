// The outbox: the result of the last update, as rows (slot, first token, number of tokens, flags) and a column of
// tokens. TypeScript reads it before the next update.

import { column } from "./column";
import { maxNumSeqs } from "./config";
import { setAddress, setWord } from "./header";
import { OUT_REASON, OUT_WORDS, STEP_TOKENS, Word } from "./layout";
import { OutWord } from "./outbox-row";

let rows = changetype<StaticArray<i32>>(0);
let tokens = changetype<StaticArray<i32>>(0);
let lost = changetype<StaticArray<i32>>(0);
/** Indices of the rows that end a request, for readers that need only those. */
let ends = changetype<StaticArray<i32>>(0);
let rowCount: i32 = 0;
let endCount: i32 = 0;
let tokenCount: i32 = 0;
let lostCount: i32 = 0;

export function allocateOutbox(): void {
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

/** If true, plain rows are counted but not written, because no reader needs them. */
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

/** Appends a token. The row of its request follows with `emit`. */
export function putToken(token: i32): void {
  tokens[tokenCount++] = token;
}

/** Appends the row of a request, after its last `count` tokens. `flags`: OUT_* flags. */
export function emit(slot: i32, count: i32, flags: i32): void {
  const at = rowCount * OUT_WORDS;
  rows[at + OutWord.Slot] = slot;
  rows[at + OutWord.TokenAt] = tokenCount - count;
  rows[at + OutWord.Tokens] = count;
  rows[at + OutWord.Flags] = flags;
  if ((flags & OUT_REASON) !== 0) ends[endCount++] = rowCount;
  rowCount++;
}

/** Records a handle whose sampled token is discarded, because the request has ended or its output is marked to be dropped. */
export function lose(handle: i32): void {
  lost[lostCount++] = handle;
}

export function sealOutbox(): void {
  setWord(Word.OutRows, rowCount);
  setWord(Word.OutTokens, tokenCount);
  setWord(Word.OutLost, lostCount);
  setWord(Word.OutEnds, endCount);
}
/** Addresses of the next free row and token. Callers write a run of rows there and then call `advanceOutbox` with the number of rows. */
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
