// Checks all invariants of the core. A violation traps with a message that names it.
import { adapterRunning, adaptersMoved, adapterWaiting, lacksAdapter, largestAdapter } from "./adapters";
import { entry, entryBlock, entryHash, nextEntry } from "./arena";
import { blocksFree, freeAt, freeHashAt, freePlaces, hashOf, refsOf } from "./blocks";
import { column } from "./column";
import { blockSize, maxNumSeqs, numGpuBlocks, prefixCaching, priorityPolicy } from "./config";
import { word } from "./header";
import { ADAPTERS, NONE, SLOTS, Status, SUBMIT_BLOCKED, Word } from "./layout";
import { find } from "./prefix";
import {
  afterWaiting,
  asideFrom,
  deferredLength,
  firstWaiting,
  heapAt,
  running,
  runningLength,
  waitingLength,
} from "./queues";
import { deferred, lora, row, tokensOf } from "./slots";

/** Requests per adapter as counted from the queues: running requests first, waiting requests from ADAPTERS on. */
let adapters = changetype<StaticArray<i32>>(0);
/** Holders of each block as counted from the block tables, or FREE if the block is in the free queue. */
let holders = changetype<StaticArray<i32>>(0);
const FREE: i32 = -1;

export function allocateVerify(): void {
  holders = column(numGpuBlocks);
  adapters = column(2 * ADAPTERS);
}

/** Runs `verify` in the debug build and does nothing in the release build. */
export function check(): void {
  if (isDefined(VERIFY) && VERIFY === 1 && maxNumSeqs > 0) verify();
}

export function verify(): void {
  for (let adapter = 0; adapter <= largestAdapter(); adapter++) {
    adapters[adapter] = 0;
    adapters[ADAPTERS + adapter] = 0;
  }
  verifyFreeQueue();
  verifyRunning();
  verifyWaiting();
  for (let adapter = 1; adapter <= largestAdapter(); adapter++) {
    assert(adapters[adapter] === adapterRunning(adapter), "running requests of an adapter are miscounted");
    assert(adapters[ADAPTERS + adapter] === adapterWaiting(adapter), "waiting requests of an adapter are miscounted");
  }
}

function verifyFreeQueue(): void {
  for (let block = 1; block < numGpuBlocks; block++) holders[block] = 0;
  let free = 0;
  for (let i = 0; i < freePlaces(); i++) {
    const block = freeAt(i);
    if (block === 0) continue;
    assert(holders[block] === 0, "a block is in the free queue twice");
    holders[block] = FREE;
    const hash = freeHashAt(i);
    if (hash !== 0) {
      assert(refsOf(block) === 0 && hashOf(block) === hash, "a free block and its place in the queue disagree");
      assert(find(hash) !== 0, "a cached block cannot be found");
    }
    free++;
  }
  assert(free === blocksFree(), "the count of free blocks is wrong");
}

function verifyRunning(): void {
  assert(runningLength() <= maxNumSeqs, "more requests run than max_num_seqs");
  let used = 0;
  for (let i = 0; i < runningLength(); i++) {
    const slot = running[i];
    assert(row(slot).status === Status.Running, "a request on the running list does not run");
    assert((row(slot).flags & SUBMIT_BLOCKED) === 0, "a blocked request runs");
    verifyCounts(slot);
    adapters[lora[slot]] = adapters[lora[slot]] + 1;
    const blocks = row(slot).tableCount;
    assert(blocks * blockSize >= row(slot).computed, "computed tokens lie outside the request's blocks");
    let at = blocks > 0 ? entry(slot, 0) : 0;
    for (let index = 0; index < blocks; index++) {
      const block = entryBlock(at);
      assert(block > 0 && block < numGpuBlocks, "a table holds no block");
      assert(holders[block] >= 0, "a block in use is in the free queue");
      if (holders[block] === 0) used++;
      else assert(index < row(slot).cachedCount, "a block without content has several holders");
      holders[block] = holders[block] + 1;
      if (index < row(slot).cachedCount) {
        assert(hashOf(block) === entryHash(at), "a cached block has other content");
        assert(find(hashOf(block)) !== 0, "a cached block cannot be found");
      }
      if (index + 1 < blocks) at = nextEntry(at);
    }
  }
  for (let i = 0; i < runningLength(); i++) verifyHolders(running[i]);
  assert(used + blocksFree() === numGpuBlocks - 1, "blocks used and free do not add up");
}

/** Compares counts with reference counts. Runs after all tables are counted. */
function verifyHolders(slot: i32): void {
  const cached = row(slot).cachedCount;
  for (let index = 0; index < cached; index++) {
    const block = entryBlock(entry(slot, index));
    assert(holders[block] === refsOf(block), "reference counts and block tables disagree");
  }
}

function verifyWaiting(): void {
  let waiting = 0;
  let late = 0;
  if (priorityPolicy) {
    for (; waiting < waitingLength(); waiting++) {
      const slot = heapAt(waiting);
      late += verifyWaiter(slot);
      if (waiting < asideFrom()) continue;
      const mustWait = (row(slot).flags & SUBMIT_BLOCKED) !== 0 || lacksAdapter(slot) || adaptersMoved();
      assert(deferred[slot] === 1 && mustWait, "a request that could be admitted is set aside");
    }
  } else {
    for (let slot = firstWaiting(); slot !== NONE; slot = afterWaiting(slot)) {
      late += verifyWaiter(slot);
      waiting++;
      assert(waiting <= SLOTS, "the waiting queue is a ring");
    }
  }
  assert(waiting === waitingLength(), "the count of waiting requests is wrong");
  assert(late === deferredLength(), "the count of deferred requests is wrong");
  assert(waiting + runningLength() === word(Word.SlotsUsed), "a slot is neither running nor waiting");
}

function verifyWaiter(slot: i32): i32 {
  assert(
    row(slot).status === Status.Waiting || row(slot).status === Status.Preempted,
    "a waiting request has another status",
  );
  assert(row(slot).tableCount === 0 && row(slot).computed === 0, "a waiting request holds blocks");
  assert((row(slot).flags & SUBMIT_BLOCKED) === 0 || deferred[slot] === 1, "a blocked request is not deferred");
  verifyCounts(slot);
  adapters[ADAPTERS + lora[slot]] = adapters[ADAPTERS + lora[slot]] + 1;
  return deferred[slot];
}

function verifyCounts(slot: i32): void {
  assert(row(slot).prompt > 0 && row(slot).outputs >= 0, "a request without tokens");
  assert(
    row(slot).inFlight >= 0 && row(slot).stale >= 0 && row(slot).placeholders >= 0,
    "a counter of a request is negative",
  );
  assert(row(slot).computed <= tokensOf(slot) + row(slot).placeholders, "more tokens computed than there are");
  if (prefixCaching) assert(row(slot).hashCount <= tokensOf(slot) / blockSize, "more hashes than full blocks");
}
