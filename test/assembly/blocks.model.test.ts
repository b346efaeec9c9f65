/**
 * Compares the block pool with a model made of plain lists, without prefix caching. Requests take blocks, grow and end in any
 * order.
 */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { Field, NONE, PAGE_BLOCKS, PAGES, Reason, SLOTS, Status, Word } from "../../assembly/layout.ts";
import { Batch } from "../../src/engine/batch.ts";
import { type CoreRequest, PLAIN } from "../../src/engine/core-request.ts";
import { coreSetup } from "../../src/engine/setup.ts";
import { type Core, startCore } from "../../src/engine/wasm/core.ts";
import { configOf } from "../engine/simulated-engine.ts";
import { times } from "../size.ts";
import { blockTable, freeQueue } from "./core-lists.ts";
import { builds, EOS } from "./pair.ts";

setDefaultTimeout(60_000);

/** Blocks of each request that holds some, in order of admission, and the free blocks, the next to be taken first. */
interface Model {
  readonly held: Map<number, number[]>;
  free: number[];
  next: number;
}

class Real {
  readonly core: Core;
  readonly batch: Batch;

  constructor(
    readonly blocks: number,
    module: WebAssembly.Module,
  ) {
    const config = configOf({
      maxModelLen: 1000,
      maxNumSeqs: 64,
      maxNumBatchedTokens: 5000,
      blockSize: 1,
      numGpuBlocks: blocks + 1,
      enablePrefixCaching: false,
      asyncScheduling: false,
      timing: { kind: "none" },
    });
    this.core = startCore(module, coreSetup(config, { eosId: EOS }));
    this.batch = new Batch(this.core);
  }

  /** A block holds one token here, so a prompt takes `blocks` blocks when it is planned. */
  add(blocks: number, order: number, maxTokens = 500): number {
    return this.batch.add({ ...requestOf(blocks, order), maxTokens });
  }
  step(): void {
    this.batch.plan(0);
    this.batch.take(0);
  }
  tableOf(handle: number): number[] {
    return blockTable(this.core.views, handle % SLOTS);
  }
}

function requestOf(tokens: number, order: number): CoreRequest {
  return {
    ...PLAIN,
    prompt: Array.from({ length: tokens }, (_, i) => i),
    promptTokens: tokens,
    maxTokens: 500,
    seed: order,
    order,
    arrivalUs: order,
    queuedUs: order,
  };
}

class Command implements fc.Command<Model, Real> {
  constructor(
    readonly name: string,
    readonly act: (model: Model, real: Real) => void,
    readonly can: (model: Model) => boolean = () => true,
  ) {}
  check(model: Readonly<Model>): boolean {
    return this.can(model);
  }
  run(model: Model, real: Real): void {
    this.act(model, real);
    real.core.exports.verify();
    expect(freeQueue(real.core.views)).toEqual(model.free);
    expect(real.core.views.word(Word.BlocksFree)).toBe(model.free.length);
    expect([...model.held.keys()].map((handle) => real.tableOf(handle))).toEqual([...model.held.values()]);
  }
  toString(): string {
    return this.name;
  }
}

/**
 * Preempts the last requests, whose youngest block goes to the front first, until every running request can have one block more.
 */
function grow(model: Model): void {
  for (const [handle, table] of [...model.held]) {
    while (model.held.has(handle) && model.free.length === 0) {
      const [victim, blocks] = [...model.held].at(-1)!;
      model.held.delete(victim);
      model.free.unshift(...blocks.toReversed());
    }
    if (!model.held.has(handle)) return;
    table.push(model.free.shift()!);
  }
}

/**
 * A request arrives and takes its blocks in the step in which every other request grows by a block. It is aborted if it does not
 * fit.
 */
const admit = (blocks: number) =>
  new Command(`admit ${blocks}`, (model, real) => {
    const handle = real.add(blocks, model.next++);
    expect(handle).not.toBe(NONE);
    const before = model.held.size;
    grow(model);
    const fits = model.held.size === before && blocks <= model.free.length;
    if (fits) model.held.set(handle, model.free.splice(0, blocks));
    real.step();
    const isIn = real.core.views.field(Field.Status, handle % SLOTS) === Status.Running;
    expect(isIn).toBe(fits);
    abandonWaiting(real, model);
  });

const step = new Command("step", (model, real) => {
  grow(model);
  real.step();
  abandonWaiting(real, model);
});

const leave = (pick: number) =>
  new Command(
    `leave ${pick}`,
    (model, real) => {
      const [handle, blocks] = [...model.held][pick % model.held.size]!;
      model.held.delete(handle);
      model.free.unshift(...blocks.toReversed());
      expect(real.batch.close(handle, Reason.Abort, 0, 0)).toBe(true);
      real.batch.flush();
      expect(real.batch.close(handle, Reason.Abort, 0, 0)).toBe(false);
    },
    (model) => model.held.size > 0,
  );

/** Aborts waiting requests, which hold no blocks, so that each command starts with running requests only. */
function abandonWaiting(real: Real, model: Model): void {
  const { views } = real.core;
  const next = (views.word(Word.WaitNextAt) >>> 0) >> 2;
  for (let at = views.word(Word.WaitHead); at !== 0; ) {
    const slot = at - 1;
    at = views.i32[next + at - 1]!;
    const handle = views.field(Field.Generation, slot) * SLOTS + slot;
    expect(model.held.has(handle)).toBe(false);
    real.batch.close(handle, Reason.Abort, 0, 0);
  }
  real.batch.flush();
}

describe.each(builds)("%s", (_, module) => {
  test("the block pool agrees with its model", () => {
    const commands = fc.commands(
      [fc.integer({ min: 1, max: 30 }).map(admit), fc.constant(step), fc.nat(30).map(leave)],
      { maxCommands: 80, size: "max" },
    );
    const property = fc.property(fc.integer({ min: 1, max: 70 }), commands, (blocks, list) => {
      const free = Array.from({ length: blocks }, (__, i) => i + 1);
      fc.modelRun(() => ({ model: { held: new Map(), free, next: 0 }, real: new Real(blocks, module) }), list);
    });
    fc.assert(property, { numRuns: times(60) });
  });

  test("a handle never refers to a later request in the same slot", () => {
    const real = new Real(50, module);
    const handles = new Set<number>();
    for (let i = 0; i < 3000; i++) {
      const handle = real.add(1, i);
      expect(handles.has(handle)).toBe(false);
      handles.add(handle);
      expect(handle % SLOTS).toBe(0);
      real.batch.close(handle, Reason.Abort, 0, 0);
      real.batch.flush();
    }
    for (const handle of handles) expect(real.batch.close(handle, Reason.Abort, 0, 0)).toBe(false);
  });
});

/** Uses the release core, because the debug core walks the whole queue after each call. */
describe("limits", () => {
  const full = (maxTokens: number) => {
    const real = new Real(50, builds[0][1]);
    const { views, exports } = real.core;
    const handles: number[] = [];
    for (let handle = real.add(1, 0, maxTokens); handle !== NONE; handle = real.add(1, handles.length, maxTokens)) {
      handles.push(handle);
    }
    exports.verify();
    expect([views.word(Word.Waiting), views.word(Word.SlotsUsed)]).toEqual([handles.length, handles.length]);
    // The refused request left nothing behind: closing one request makes room for exactly one.
    real.batch.close(handles[7]!, Reason.Abort, 0, 0);
    real.batch.flush();
    expect([real.add(1, 1, maxTokens), real.add(1, 2, maxTokens)].map((handle) => handle === NONE)).toEqual([
      false,
      true,
    ]);
    exports.verify();
    return handles.length;
  };

  test("65,536 requests may wait, and the next is refused", () => expect(full(1)).toBe(SLOTS));

  test("long prompts reserve more pages of the arena, so fewer requests may wait", () => {
    expect(full(500)).toBe(PAGES / Math.ceil((1 + 500 + 2) / PAGE_BLOCKS));
  });
});

test("if more requests than slots end between two plans, the list of ended requests holds SLOTS of them", () => {
  const real = new Real(32, builds[0][1]);
  const { views } = real.core;
  for (let order = 0; order < SLOTS + 10; order++) {
    real.batch.close(real.add(1, order), Reason.Abort, 0, 0);
    real.batch.flush();
  }
  expect(views.word(Word.SlotsUsed)).toBe(0);
  real.step();
  expect(views.word(Word.PlanReported)).toBe(SLOTS);
  real.add(1, SLOTS + 10);
  real.step();
  expect(views.word(Word.PlanReported)).toBe(0);
});
