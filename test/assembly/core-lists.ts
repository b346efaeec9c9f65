/** Lists in the memory of a core that only tests read: block tables and the queue of free blocks. */
import { Field, PAGE_BITS, PAGE_BLOCKS, PAGES, Word } from "../../assembly/layout.ts";
import type { CoreViews } from "../../src/engine/wasm/views.ts";

/** Returns a copy of the block ids in a slot's table. */
export function blockTable(views: CoreViews, slot: number): number[] {
  const count = views.field(Field.TableCount, slot);
  const next = (views.word(Word.PageNextAt) >>> 0) >> 2;
  const values = (views.word(Word.PageBlockAt) >>> 0) >> 2;
  const result: number[] = [];
  for (let page = views.field(Field.FirstPage, slot); result.length < count; page = views.i32[next + page - 1]!) {
    if (page <= 0 || page > PAGES) throw new Error("a block table ends early");
    const from = values + ((page - 1) << PAGE_BITS);
    for (let i = 0; i < PAGE_BLOCKS && result.length < count; i++) result.push(views.i32[from + i]!);
  }
  return result;
}

/** Returns a copy of the free blocks, the next to be taken first. Walks the whole queue. */
export function freeQueue(views: CoreViews): number[] {
  const from = (views.word(Word.FreeQueueAt) >>> 0) >> 2;
  const [head, tail, mask] = [Word.FreeQueueHead, Word.FreeQueueTail, Word.FreeQueueMask].map((at) => views.word(at));
  const blocks: number[] = [];
  for (let at = head!; at !== tail!; at = (at + 1) | 0) {
    const block = views.i32[from + (at & mask!)]!;
    if (block !== 0) blocks.push(block);
  }
  return blocks;
}
