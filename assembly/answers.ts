// Chooses the output token ids of requests that bring no text. An id depends only on the request's seed and the token's
// position, never on slot, load or time. TypeScript fills the tables (src/text/answers/answers.ts): a template is a
// list of 32 categories, and a category is a range of token ids.
import { column, columnB } from "./column";
import { eosId } from "./config";
import { setAddress, settingI } from "./header";
import { Config, FEED, TEMPLATE, Word } from "./layout";
import { feedRing, Row, row } from "./slots";

let templates = changetype<StaticArray<u8>>(0);
let categories = changetype<StaticArray<i32>>(0);
let ids = changetype<StaticArray<i32>>(0);
let templateCount: u32 = 0;

export function allocateAnswers(): void {
  templateCount = settingI(Config.Templates);
  templates = columnB(settingI(Config.Templates) * TEMPLATE + 1);
  categories = column(settingI(Config.Categories) + 1);
  ids = column(settingI(Config.AnswerIds) + 1);
}
export function publishAnswers(): void {
  setAddress(Word.TemplatesAt, changetype<usize>(templates));
  setAddress(Word.CategoriesAt, changetype<usize>(categories));
  setAddress(Word.AnswerIdsAt, changetype<usize>(ids));
}

/** Returns the next of the ids that TypeScript fed to this request. */
export function fedToken(slot: i32): i32 {
  return feedRing[slot * FEED + (row(slot).outputs & (FEED - 1))];
}

/** Returns the id at `position`. If no tables are loaded (tests of the core alone), returns a hash that is never a special id. */
function drawToken(requestSeed: i32, position: i32): i32 {
  if (templateCount === 0) return bare(requestSeed, position);
  return drawFrom(templateOf(requestSeed, position), requestSeed, position);
}

/**
 * Returns the token id at `position` of a request's output. Positions of a request must be asked for in order, because its row
 * stores the template of the current 32 positions.
 */
export function drawNext(r: Row, position: i32): i32 {
  const requestSeed = r.seed;
  if (templateCount === 0) return bare(requestSeed, position);
  if ((position & (TEMPLATE - 1)) === 0 || r.template === 0) r.template = templateOf(requestSeed, position) + 1;
  return drawFrom(r.template - 1, requestSeed, position);
}

function bare(requestSeed: i32, position: i32): i32 {
  return 100 + <i32>(mix(requestSeed, position) % 100000);
}

function templateOf(requestSeed: i32, position: i32): i32 {
  return <i32>pick(mix(requestSeed ^ 0x5bd1e995, position >> 5), templateCount);
}

function drawFrom(template: i32, requestSeed: i32, position: i32): i32 {
  const category = templates[template * TEMPLATE + (position & (TEMPLATE - 1))];
  const from = categories[category];
  return ids[from + <i32>pick(mix(requestSeed, position), <u32>(categories[category + 1] - from))];
}

/** Draws another id for a position at which the first draw is a stop id and may not come yet (`min_tokens`). */
export function redrawToken(requestSeed: i32, position: i32, attempt: i32): i32 {
  return attempt < 64 ? drawToken(requestSeed + attempt, position) : eosId + attempt;
}

/** Maps a 32-bit draw evenly to 0 … count - 1, without a division. */
function pick(draw: u32, count: u32): u32 {
  return <u32>((<u64>draw * <u64>count) >> 32);
}

/** Mixes seed and position to 32 bits. src/text/answers/answers.ts has a copy. */
export function mix(requestSeed: i32, position: i32): u32 {
  let h: u32 = <u32>(requestSeed ^ ((position + 1) * 0x9e3779b9)) * 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  return h ^ (h >> 16);
}
