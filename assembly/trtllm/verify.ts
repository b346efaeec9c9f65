// Checks all invariants of the core. A violation traps with a message that names it.
import { entry, entryBlock, nextEntry } from "../arena";
import { column } from "../column";
import { blockSize, maxNumSeqs, numGpuBlocks, priorityPolicy } from "../config";
import { word } from "../header";
import { NONE, SLOTS, Status, Word } from "../layout";
import { afterWaiting, firstWaiting, heapAt, running, runningLength, waitingLength } from "../queues";
import { row } from "../slots";
import { keepsBlocks, partialReuse } from "./config";
import { PRIORITY_MOST, State } from "./layout";
import { line, prefilling } from "./line";
import { afterFree, blocksFree, firstFree, priorityOf, refsOf } from "./pool";
import { tokenPlace } from "./tokens";
import { childOf, find, hashOf, idCount, isStored, parentOf, siblingOf } from "./tree";

/** Holders of each block as counted from the block tables. */
let holders = changetype<StaticArray<i32>>(0);

export function allocateVerify(): void {
  holders = column(numGpuBlocks);
}

/** Runs `verify` in the debug build and does nothing in the release build. */
export function check(): void {
  if (isDefined(VERIFY) && VERIFY === 1 && maxNumSeqs > 0) verify();
}

export function verify(): void {
  for (let block = 0; block < numGpuBlocks; block++) holders[block] = 0;
  verifyActive();
  verifyWaiting();
  verifyFree();
  verifyTree();
}

function verifyActive(): void {
  assert(runningLength() <= maxNumSeqs, "more requests are active than may be");
  let contexts = 0;
  for (let i = 0; i < runningLength(); i++) {
    const slot = running[i];
    const l = line(slot);
    assert(row(slot).status === Status.Running, "a request on the active list is not active");
    assert(l.state >= State.ContextInit && l.state < State.GenerationComplete, "an active request has ended");
    assert(l.context <= l.length && l.length <= l.end, "a request has more tokens than it may");
    assert(l.position <= l.context && l.flight >= 0, "a request is ahead of its prompt");
    assert(l.isContext || l.position === l.context, "a request generates before its prompt is computed");
    assert(l.isContext || l.started, "a request generates without blocks");
    assert(!keepsBlocks || l.room === row(slot).tableCount * blockSize, "a request's room is not that of its blocks");
    assert(l.held <= l.room, "a request holds more tokens than its blocks");
    const tokens = row(slot).prompt + row(slot).outputs;
    assert(l.keep === 0 || l.keep === tokenPlace(slot, tokens - 1) + 1, "tokens token ids are miscounted");
    if (l.isContext) contexts++;
    let at = row(slot).tableCount > 0 ? entry(slot, 0) : 0;
    for (let left = row(slot).tableCount; left > 0; left--) {
      const block = entryBlock(at);
      assert(block > 0 && block < numGpuBlocks, "a table holds no block");
      holders[block] = holders[block] + 1;
      if (left > 1) at = nextEntry(at);
    }
  }
  assert(contexts === prefilling, "active requests in their context are miscounted");
}

function verifyWaiting(): void {
  let waiting = 0;
  if (priorityPolicy) for (; waiting < waitingLength(); waiting++) verifyWaiter(heapAt(waiting));
  else {
    for (let slot = firstWaiting(); slot !== NONE; slot = afterWaiting(slot)) {
      verifyWaiter(slot);
      waiting++;
      assert(waiting <= SLOTS, "the waiting queue is a ring");
    }
  }
  assert(waiting === waitingLength(), "the count of waiting requests is wrong");
  assert(waiting + runningLength() === word(Word.SlotsUsed), "a slot is neither active nor waiting");
}

function verifyWaiter(slot: i32): void {
  assert(row(slot).status === Status.Waiting, "a waiting request has another status");
  assert(!line(slot).started && row(slot).tableCount === 0, "a waiting request holds blocks");
}

function verifyFree(): void {
  let free = 0;
  for (let priority = 0; priority <= PRIORITY_MOST; priority++) {
    for (let block = firstFree(priority); block !== 0; block = afterFree(block)) {
      assert(refsOf(block) === 0 && priorityOf(block) === priority, "a block is in a queue where it does not belong");
      free++;
      assert(free <= blocksFree(), "the count of free blocks is wrong");
    }
  }
  assert(free === blocksFree(), "the count of free blocks is wrong");
  let used = 0;
  for (let block = 1; block < numGpuBlocks; block++) {
    assert(refsOf(block) === holders[block], "reference counts and block tables disagree");
    if (holders[block] > 0) used++;
  }
  assert(used + free === numGpuBlocks - 1, "blocks used and free do not add up");
}

function verifyTree(): void {
  for (let parent = 0; parent < numGpuBlocks; parent++) {
    if (parent !== 0 && !isStored(parent)) continue;
    for (let child = childOf(parent); child !== 0; child = siblingOf(child)) {
      assert(isStored(child) && parentOf(child) === parent, "a stored block and its parent disagree");
    }
  }
  for (let block = 1; block < numGpuBlocks; block++) {
    if (!isStored(block)) continue;
    const parent = parentOf(block);
    assert(parent === 0 || isStored(parent), "a stored block's parent is not stored");
    const hash = hashOf(block);
    assert(hash === 0 || find(hash) === block, "a stored block cannot be found");
    assert(hash !== 0 || (childOf(block) === 0 && partialReuse && idCount(block) > 0), "a partial block is no leaf");
  }
}
