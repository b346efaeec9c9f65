// The tree of stored blocks, which finds a block by its content. Each block is the child of the block with the content
// before its own. No two children of a block are equal, and removing a block also removes all below it (TensorRT-LLM
// `kvCacheManager.cpp`). A full block is found by the hash of all tokens up to its end. A partial block, always a leaf,
// is found through its parent.
import { column, column64 } from "../column";
import { blockSize, kvEvents, numGpuBlocks } from "../config";
import { eventRemoved } from "../events";
import { partialReuse } from "./config";

/** Per stored block: hash (0 for a partial block), number of tokens (0: not stored) and links. Block 0 is the root. */
let hashes = changetype<StaticArray<u64>>(0);
let sizes = changetype<StaticArray<i32>>(0);
let parents = changetype<StaticArray<i32>>(0);
let firstChild = changetype<StaticArray<i32>>(0);
let lastChild = changetype<StaticArray<i32>>(0);
let nextSibling = changetype<StaticArray<i32>>(0);
let prevSibling = changetype<StaticArray<i32>>(0);
/** Token ids of stored blocks, which partial reuse compares, and how many are known (0 if only hashes were submitted). */
let ids = changetype<StaticArray<i32>>(0);
let idCounts = changetype<StaticArray<i32>>(0);
/** Hash of adapter and salt for which the ids were computed. */
let idRoots = changetype<StaticArray<u64>>(0);

/** Blocks by hash: open addressing with linear probing; the size is a power of two, and at most a third is used. */
let table = changetype<StaticArray<i32>>(0);
let mask: i32 = 0;

export function allocateTree(): void {
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

/** Address of a block's token ids, and how many are known. */
export function idsAt(block: i32): usize {
  return changetype<usize>(ids) + ((<usize>(block * blockSize)) << 2);
}
export function idCount(block: i32): i32 {
  return partialReuse ? idCounts[block] : 0;
}
/** Returns the hash of adapter and salt that belongs to the block's ids. */
export function idRoot(block: i32): u64 {
  return idRoots[block];
}
/** Records that `count` ids of the block are known. `root`: hash of their adapter and salt. */
export function setIds(block: i32, count: i32, root: u64): void {
  idCounts[block] = count;
  idRoots[block] = root;
}

/** Returns the full block that ends the prefix with this hash, or 0. */
export function find(hash: u64): i32 {
  let place = <i32>hash & mask;
  let block = table[place];
  while (block !== 0 && hashes[block] !== hash) {
    place = (place + 1) & mask;
    block = table[place];
  }
  return block;
}

/** Stores a block as the last child of `parent`: a full block with its hash, or a partial block of `size` tokens with hash 0. */
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

/** Removes the block and all below it, the deepest first. */
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

/** Removes all blocks. */
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

/** Empties a position. Moves later entries of the same run forward, so that no probe stops too early. */
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
