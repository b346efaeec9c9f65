// Does everything in the core agree with everything else? Walks all structures; a contradiction is a trap with its name.
import { cachedCount, entry, entryBlock, entryHash, hashCount, nextEntry, tableCount } from "./arena";
import { blockHash, blocksFree, freeAfter, freeBefore, refsOf } from "./blocks";
import { column } from "./column";
import { blockSize, maxNumSeqs, numGpuBlocks, prefixCaching, priorityPolicy } from "./config";
import { word } from "./header";
import { NONE, SLOTS, Status, Word } from "./layout";
import { find } from "./prefix";
import { afterWaiting, deferredLength, firstWaiting, heapAt, running, runningLength, waitingLength } from "./queues";
import { computed, deferred, inFlight, outputs, placeholders, prompt, stale, status, tokensOf } from "./slots";

/** Holders per block as the tables say. */
let holders = changetype<StaticArray<i32>>(0);

export function takeVerify(): void {
  holders = column(numGpuBlocks);
}

export function verify(): void {
  verifyFreeQueue();
  verifyRunning();
  verifyWaiting();
}

function verifyFreeQueue(): void {
  let free = 0;
  for (let block = freeAfter(0); block !== 0; block = freeAfter(block)) {
    assert(refsOf(block) === 0, "a block in use is in the free queue");
    assert(freeBefore(freeAfter(block)) === block, "the free queue's links disagree");
    free++;
  }
  assert(free === blocksFree(), "the count of free blocks is wrong");
  for (let block = 1; block < numGpuBlocks; block++) {
    holders[block] = 0;
    if (blockHash[block] !== 0) assert(find(blockHash[block]) !== 0, "a cached block cannot be found");
  }
}

function verifyRunning(): void {
  assert(runningLength() <= maxNumSeqs, "more requests run than max_num_seqs");
  for (let i = 0; i < runningLength(); i++) {
    const slot = running[i];
    assert(status[slot] === Status.Running, "a request on the running list does not run");
    verifyCounts(slot);
    const held = tableCount[slot];
    assert(held * blockSize >= computed[slot], "computed tokens lie outside the request's blocks");
    let at = held > 0 ? entry(slot, 0) : 0;
    for (let index = 0; index < held; index++) {
      const block = entryBlock(at);
      assert(block > 0 && block < numGpuBlocks, "a table holds no block");
      holders[block] = holders[block] + 1;
      if (index < cachedCount[slot]) assert(blockHash[block] === entryHash(at), "a cached block has other content");
      if (index + 1 < held) at = nextEntry(at);
    }
  }
  let used = 0;
  for (let block = 1; block < numGpuBlocks; block++) {
    assert(holders[block] === refsOf(block), "reference counts and block tables disagree");
    if (refsOf(block) > 0) used++;
  }
  assert(used + blocksFree() === numGpuBlocks - 1, "blocks used and free do not add up");
}

function verifyWaiting(): void {
  let waiting = 0;
  let late = 0;
  if (priorityPolicy) {
    for (; waiting < waitingLength(); waiting++) late += verifyWaiter(heapAt(waiting));
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
  assert(status[slot] === Status.Waiting || status[slot] === Status.Preempted, "a waiting request has another status");
  assert(tableCount[slot] === 0 && computed[slot] === 0, "a waiting request holds blocks");
  verifyCounts(slot);
  return deferred[slot];
}

function verifyCounts(slot: i32): void {
  assert(prompt[slot] > 0 && outputs[slot] >= 0, "a request without tokens");
  assert(inFlight[slot] >= 0 && stale[slot] >= 0 && placeholders[slot] >= 0, "a counter of a request is negative");
  assert(computed[slot] <= tokensOf(slot) + placeholders[slot], "more tokens computed than there are");
  if (prefixCaching) assert(hashCount[slot] <= tokensOf(slot) / blockSize, "more hashes than full blocks");
}
