// Stores the token ids of requests, which only partial reuse needs: it compares them with stored blocks. The pages of a
// slot form a linked list. Submission reserves all pages that a request can ever need, so adding a token never fails.
import { column, column64 } from "../column";
import { word } from "../header";
import { SLOTS, Word } from "../layout";
import { row } from "../slots";
import { partialReuse } from "./config";
import { TOKEN_PAGE_BITS, TOKEN_PAGES } from "./layout";
import { Line, line } from "./line";

const PAGE: i32 = 1 << TOKEN_PAGE_BITS;

let ids = changetype<StaticArray<i32>>(0);
/** Next page of the slot or of the free list, as page + 1. */
let following = changetype<StaticArray<i32>>(0);
let firstPage = changetype<StaticArray<i32>>(0);
let lastPage = changetype<StaticArray<i32>>(0);
let reservedOf = changetype<StaticArray<i32>>(0);
/** Hash of adapter and salt of the slot's request. Equal tokens with another hash are different content. */
let roots = changetype<StaticArray<u64>>(0);
let reserved: i32 = 0;
let freePage: i32 = 0;
/** Page 1 is never used, so the place of an id is never 0. */
let freshPage: i32 = 1;

export function allocateTokens(): void {
  ids = column(partialReuse ? TOKEN_PAGES << TOKEN_PAGE_BITS : 1);
  following = column(partialReuse ? TOKEN_PAGES : 1);
  firstPage = column(SLOTS);
  lastPage = column(SLOTS);
  reservedOf = column(SLOTS);
  roots = column64(partialReuse ? SLOTS : 1);
}

/** Stores the prompt of the input buffer. `root`: hash of adapter and salt. Returns false if other requests have reserved too many pages. */
export function keepPrompt(slot: i32, root: u64): bool {
  const tokens = row(slot).prompt;
  const pages = (tokens + row(slot).lastOutput + PAGE) >> TOKEN_PAGE_BITS;
  if (reserved + pages > TOKEN_PAGES - 1) return false;
  reserved += pages;
  reservedOf[slot] = pages;
  roots[slot] = root;
  const input = <usize>(<u32>word(Word.InputAt));
  const l = line(slot);
  // A position at the start of a page makes `keepToken` allocate a page for its token.
  l.keep = PAGE;
  for (let i = 0; i < tokens; i++) keepToken(slot, l, load<i32>(input + ((<usize>i) << 2)));
  return true;
}

/** Stores a token of the request, if its ids are kept. */
export function keepToken(slot: i32, l: Line, token: i32): void {
  const place = l.keep;
  if ((place & (PAGE - 1)) === 0) keepFirst(slot, l, token);
  else {
    ids[place] = token;
    l.keep = place + 1;
  }
}

/** Handles the two rare cases of `keepToken`: a page begins, or the ids are not kept. */
function keepFirst(slot: i32, l: Line, token: i32): void {
  if (l.keep === 0) return;
  const place = addPage(slot);
  ids[place] = token;
  l.keep = place + 1;
}

/** Returns the place of the slot's token `index`. `nextToken` returns the place after a given one. */
export function tokenPlace(slot: i32, index: i32): i32 {
  let page = firstPage[slot];
  for (let left = index >> TOKEN_PAGE_BITS; left > 0; left--) page = following[page - 1];
  return ((page - 1) << TOKEN_PAGE_BITS) + (index & (PAGE - 1));
}
export function nextToken(place: i32): i32 {
  if (((place + 1) & (PAGE - 1)) !== 0) return place + 1;
  return (following[place >> TOKEN_PAGE_BITS] - 1) << TOKEN_PAGE_BITS;
}
export function tokenAt(place: i32): i32 {
  return ids[place];
}

/** Returns the hash of adapter and salt that `keepPrompt` stored. */
export function rootOf(slot: i32): u64 {
  return roots[slot];
}

export function dropTokens(slot: i32): void {
  if (reservedOf[slot] === 0) return;
  following[lastPage[slot] - 1] = freePage;
  freePage = firstPage[slot];
  firstPage[slot] = 0;
  lastPage[slot] = 0;
  reserved -= reservedOf[slot];
  reservedOf[slot] = 0;
}

/** Adds a page to the slot's list and returns its first place. */
function addPage(slot: i32): i32 {
  let page = freePage;
  if (page !== 0) freePage = following[page - 1];
  else page = ++freshPage;
  following[page - 1] = 0;
  if (lastPage[slot] === 0) firstPage[slot] = page;
  else following[lastPage[slot] - 1] = page;
  lastPage[slot] = page;
  return (page - 1) << TOKEN_PAGE_BITS;
}
