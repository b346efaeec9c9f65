// Stores each request's block table and the hashes of its blocks. Both lists only grow at the end. They lie in pages of
// one arena, and the pages of a slot form a doubly linked list. `submit` reserves all pages that a request can ever
// need, so growing a list never fails.

import { column, column64 } from "./column";
import { blockSize } from "./config";
import { setAddress, setWord } from "./header";
import { NONE, PAGE_BITS, PAGE_BLOCKS, PAGES, SLOTS, Word } from "./layout";
import { row } from "./slots";

let pageHash = changetype<StaticArray<u64>>(0);
let pageBlock = changetype<StaticArray<i32>>(0);
/** Neighbouring pages of the same slot, as page number + 1. For a free page, `pageNext` is the next free page. */
let pageNext = changetype<StaticArray<i32>>(0);
let pagePrev = changetype<StaticArray<i32>>(0);
let freePage: i32 = 0;
let freshPage: i32 = 0;
let reserved: i32 = 0;

let pagesReserved = changetype<StaticArray<i32>>(0);

export function allocateArena(): void {
  pageHash = column64(PAGES * PAGE_BLOCKS);
  pageBlock = column(PAGES * PAGE_BLOCKS);
  pageNext = column(PAGES);
  pagePrev = column(PAGES);
  pagesReserved = column(SLOTS);
}

export function publishArena(): void {
  setAddress(Word.PageNextAt, changetype<usize>(pageNext));
  setAddress(Word.PageBlockAt, changetype<usize>(pageBlock));
  setAddress(Word.PageHashAt, changetype<usize>(pageHash));
}

/** Reserves pages for `blocks` entries and `extra` pages for stop ids. Returns false if other requests have reserved too many pages. */
export function reserve(slot: i32, blocks: i32, extra: i32): bool {
  const pages = ((blocks + PAGE_BLOCKS - 1) >> PAGE_BITS) + extra;
  if (reserved + pages > PAGES) return false;
  reserved += pages;
  setWord(Word.PagesReserved, reserved);
  pagesReserved[slot] = pages;
  row(slot).hashCount = 0;
  clearTable(slot);
  assert(row(slot).firstPage === 0, "a free slot holds pages");
  return true;
}

/** Frees all pages of the slot and ends its reservation. */
export function releasePages(slot: i32): void {
  for (let page = row(slot).firstPage; page !== 0; ) {
    const next = pageNext[page - 1];
    pushFree(page);
    page = next;
  }
  row(slot).firstPage = 0;
  row(slot).lastPage = 0;
  row(slot).pageCount = 0;
  reserved -= pagesReserved[slot];
  setWord(Word.PagesReserved, reserved);
  pagesReserved[slot] = 0;
}

/** Takes a page that belongs to no block table. It holds stop ids in the words of `pageBlock`. */
export function detachedPage(): i32 {
  return takePage();
}
export function releaseDetached(page: i32): void {
  pushFree(page);
}
export function detachedWord(page: i32, index: i32): i32 {
  return pageBlock[((page - 1) << PAGE_BITS) + index];
}
export function setDetachedWord(page: i32, index: i32, value: i32): void {
  pageBlock[((page - 1) << PAGE_BITS) + index] = value;
}
export function linkDetached(page: i32, next: i32): void {
  pageNext[page - 1] = next;
}
export function nextDetached(page: i32): i32 {
  return pageNext[page - 1];
}

/** Appends a hash and returns its index in the page columns. */
export function appendHash(slot: i32, hash: u64): i32 {
  const index = row(slot).hashCount;
  grow(slot, index);
  const at = entry(slot, index);
  pageHash[at] = hash;
  row(slot).hashCount = index + 1;
  return at;
}

/**
 * Appends a block to the table and returns its index in the page columns. `after`: index of the last entry if the
 * caller knows it, which saves the walk along a long list of pages.
 */
export function appendBlock(slot: i32, block: i32, after: i32 = NONE): i32 {
  const index = row(slot).tableCount;
  grow(slot, index);
  const at = after === NONE ? entry(slot, index) : nextEntry(after);
  pageBlock[at] = block;
  row(slot).tableCount = index + 1;
  return at;
}

/** Stores a block at an entry that has a hash but is not in the block table yet. `beginTable` later adds it. */
export function noteBlock(at: i32, block: i32): void {
  pageBlock[at] = block;
}

/** Makes the first `blocks` entries the block table. `noteBlock` has stored their blocks, and all of them have hashes. */
export function beginTable(slot: i32, blocks: i32): void {
  row(slot).tableCount = blocks;
}

/** Empties the block table and keeps the hashes. */
export function clearTable(slot: i32): void {
  row(slot).tableCount = 0;
  setCached(slot, 0);
}

/** Records that the first `blocks` blocks of the table are in the prefix cache. */
export function setCached(slot: i32, blocks: i32): void {
  row(slot).cachedCount = blocks;
  row(slot).storeAt = (blocks + 1) * blockSize;
}

export function hashAt(slot: i32, index: i32): u64 {
  return pageHash[entry(slot, index)];
}

/** Returns the index of the slot's entry number `index` in the page columns. Walks from the nearer end of the list of pages. */
export function entry(slot: i32, index: i32): i32 {
  const pageIndex = index >> PAGE_BITS;
  const last = row(slot).pageCount - 1;
  let page: i32;
  if (pageIndex > last >> 1) {
    page = row(slot).lastPage;
    for (let at = last; at > pageIndex; at--) page = pagePrev[page - 1];
  } else {
    page = row(slot).firstPage;
    for (let at = 0; at < pageIndex; at++) page = pageNext[page - 1];
  }
  return ((page - 1) << PAGE_BITS) + (index & (PAGE_BLOCKS - 1));
}

/** Returns the entry after `at` of the same slot, or NONE, without walking from an end. */
export function nextEntry(at: i32): i32 {
  if (((at + 1) & (PAGE_BLOCKS - 1)) !== 0) return at + 1;
  const next = pageNext[at >> PAGE_BITS];
  return next === 0 ? NONE : (next - 1) << PAGE_BITS;
}

/** Returns the entry before `at` of the same slot, or NONE. */
export function prevEntry(at: i32): i32 {
  if ((at & (PAGE_BLOCKS - 1)) !== 0) return at - 1;
  const prev = pagePrev[at >> PAGE_BITS];
  return prev === 0 ? NONE : ((prev - 1) << PAGE_BITS) + PAGE_BLOCKS - 1;
}

export function entryHash(at: i32): u64 {
  return pageHash[at];
}
export function entryBlock(at: i32): i32 {
  return pageBlock[at];
}

function grow(slot: i32, index: i32): void {
  if (index < row(slot).pageCount << PAGE_BITS) return;
  const page = takePage();
  pagePrev[page - 1] = row(slot).lastPage;
  pageNext[page - 1] = 0;
  if (row(slot).lastPage === 0) row(slot).firstPage = page;
  else pageNext[row(slot).lastPage - 1] = page;
  row(slot).lastPage = page;
  row(slot).pageCount = row(slot).pageCount + 1;
  assert(row(slot).pageCount <= pagesReserved[slot], "a request outgrew its reservation");
}

function takePage(): i32 {
  const page = freePage;
  if (page !== 0) {
    freePage = pageNext[page - 1];
    return page;
  }
  assert(freshPage < PAGES, "reservations exceed the arena");
  return ++freshPage;
}

function pushFree(page: i32): void {
  pageNext[page - 1] = freePage;
  freePage = page;
}
