// Which block holds this content? The tree of stored blocks: each is the child of the block whose content comes before its
// own, none has two equal children, and a block that leaves takes all below it along (TensorRT-LLM `kvCacheManager.cpp`).
// Full blocks are found by the hash of all tokens up to their end. A partial one, always a leaf, is found through its parent.
import { column, column64 } from "../column";
import { blockSize, kvEvents, numGpuBlocks } from "../config";
import { eventRemoved } from "../events";
import { partialReuse } from "./config";

/** What is known of a stored block: the hash of a full one, 0 of a partial one; its tokens, 0: not stored; links. Block 0 is the root. */
let hashes = changetype<StaticArray<u64>>(0);
let sizes = changetype<StaticArray<i32>>(0);
let parents = changetype<StaticArray<i32>>(0);
let firstChild = changetype<StaticArray<i32>>(0);
let lastChild = changetype<StaticArray<i32>>(0);
let nextSibling = changetype<StaticArray<i32>>(0);
let prevSibling = changetype<StaticArray<i32>>(0);
/** Token ids, where partial reuse compares them; how many of a block's are known (none where only hashes came). */
let ids = changetype<StaticArray<i32>>(0);
let idCounts = changetype<StaticArray<i32>>(0);
/** Beside ids that are known, whose they are: the hash that stands for adapter and salt. */
let idRoots = changetype<StaticArray<u64>>(0);

/** Blocks by hash: open addressing, linear probing, a power of two, at most a third full. */
let table = changetype<StaticArray<i32>>(0);
let mask: i32 = 0;

export function takeTree(): void {
  let size = 16;
  while (size < numGpuBlocks * 3) size <<= 1;
  mask = size - 1;
  table = column(size);
  hashes = column64(numGpuBlocks);
  sizes = column(numGpuBlocks);
  parents = column(numGpuBlocks);
  firstChild = column(numGpuBlocks);
  lastChild = column(numGpuBlocks);
  nextSibling = column(numGpuBlocks);
  prevSibling = column(numGpuBlocks);
  ids = column(partialReuse ? numGpuBlocks * blockSize : 1);
  idCounts = column(partialReuse ? numGpuBlocks : 1);
  idRoots = column64(partialReuse ? numGpuBlocks : 1);
}

export function isStored(block: i32): bool {
  return sizes[block] > 0;
}
export function isLeaf(block: i32): bool {
  return firstChild[block] === 0;
}
export function hashOf(block: i32): u64 {
  return hashes[block];
}
export function parentOf(block: i32): i32 {
  return parents[block];
}
export function childOf(block: i32): i32 {
  return firstChild[block];
}
export function siblingOf(block: i32): i32 {
  return nextSibling[block];
}

/** Where a block's token ids stand, and how many of them are known. */
export function idsAt(block: i32): usize {
  return changetype<usize>(ids) + ((<usize>(block * blockSize)) << 2);
}
export function idCount(block: i32): i32 {
  return partialReuse ? idCounts[block] : 0;
}
/** Whose the known ids of a block are. */
export function idRoot(block: i32): u64 {
  return idRoots[block];
}
/** `count` ids of the block are known, which are those of `root`. */
export function setIds(block: i32, count: i32, root: u64): void {
  idCounts[block] = count;
  idRoots[block] = root;
}

/** The full block that ends a prefix with this hash, or 0. */
export function find(hash: u64): i32 {
  let place = <i32>hash & mask;
  let block = table[place];
  while (block !== 0 && hashes[block] !== hash) {
    place = (place + 1) & mask;
    block = table[place];
  }
  return block;
}

/** Stores a block as the last child of `parent`: a full one with its hash, or with 0 a partial one of `size` tokens. */
export function attach(block: i32, parent: i32, hash: u64, size: i32): void {
  assert(sizes[block] === 0, "a block is stored twice");
  hashes[block] = hash;
  sizes[block] = size;
  parents[block] = parent;
  const last = lastChild[parent];
  prevSibling[block] = last;
  nextSibling[block] = 0;
  if (last === 0) firstChild[parent] = block;
  else nextSibling[last] = block;
  lastChild[parent] = block;
  if (hash === 0) return;
  let place = <i32>hash & mask;
  while (table[place] !== 0) place = (place + 1) & mask;
  table[place] = block;
}

/** The block leaves with all below it, the deepest first. */
export function removeTree(block: i32): void {
  let at = block;
  for (;;) {
    while (firstChild[at] !== 0) at = firstChild[at];
    const parent = parents[at];
    detach(at);
    if (at === block) return;
    at = parent;
  }
}

/** No block is stored. */
export function clearTree(): void {
  memory.fill(changetype<usize>(table), 0, (<usize>mask + 1) << 2);
  memory.fill(changetype<usize>(sizes), 0, (<usize>numGpuBlocks) << 2);
  memory.fill(changetype<usize>(firstChild), 0, (<usize>numGpuBlocks) << 2);
  memory.fill(changetype<usize>(lastChild), 0, (<usize>numGpuBlocks) << 2);
}

function detach(block: i32): void {
  const before = prevSibling[block];
  const after = nextSibling[block];
  const parent = parents[block];
  if (before === 0) firstChild[parent] = after;
  else nextSibling[before] = after;
  if (after === 0) lastChild[parent] = before;
  else prevSibling[after] = before;
  const hash = hashes[block];
  sizes[block] = 0;
  if (partialReuse) idCounts[block] = 0;
  if (hash === 0) return;
  if (kvEvents) eventRemoved(block, hash);
  let place = <i32>hash & mask;
  while (table[place] !== block) place = (place + 1) & mask;
  empty(place);
}

/** Takes the place out and moves later ones of its run forward, so that no probe stops early. */
function empty(hole: i32): void {
  let place = hole;
  for (;;) {
    place = (place + 1) & mask;
    const block = table[place];
    if (block === 0) break;
    const home = <i32>hashes[block] & mask;
    if (((place - home) & mask) >= ((place - hole) & mask)) {
      table[hole] = block;
      hole = place;
    }
  }
  table[hole] = 0;
}
