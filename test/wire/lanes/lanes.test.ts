/** Tests that streams get the same bytes when native code sends the plain tokens of a step, whatever happens during the step. */

import { cc } from "bun:ffi";
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { FRAME_MOST_BYTES, LANE_MACROS, Lanes, TokenTexts } from "../../../src/engine/interface/lanes.ts";
import { streamWritesOf } from "../../../src/kernel/stream-writes.ts";
import type { ListenConfig } from "../../../src/wire/http1/listen-config.ts";
import { addressesInLibrary, tryLanes } from "../../../src/wire/lanes/native-lanes.ts";
import { EAGAIN, EBADF, ECONNRESET, EPIPE, World } from "./lane-streams.ts";

const EPERM = 1;
const PLENTY = Number.POSITIVE_INFINITY;

interface Act {
  readonly kind: "cut" | "break" | "end" | "open" | "text" | "shutdown" | "peer" | "room";
  readonly of: number;
  /** Stream whose tokens trigger the act. */
  readonly before: number;
}
type Step =
  | { readonly kind: "step"; readonly counts: readonly number[]; readonly acts: readonly Act[] }
  | { readonly kind: "room" | "space"; readonly of: number; readonly bytes: number }
  | Act;

const act: fc.Arbitrary<Act> = fc.record({
  kind: fc.constantFrom("cut", "break", "end", "open", "text", "shutdown", "peer", "room"),
  of: fc.nat(7),
  before: fc.nat(7),
});
/** Mostly one plain token; sometimes none, several, or the last one. */
const count = fc.oneof(
  { weight: 12, arbitrary: fc.constant(1) },
  { weight: 2, arbitrary: fc.constantFrom(0, 2, 3) },
  { weight: 1, arbitrary: fc.constant(-1) },
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("step" as const),
      counts: fc.array(count, { minLength: 8, maxLength: 8 }),
      acts: fc.array(act, { maxLength: 1 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom("room" as const, "space" as const),
      of: fc.nat(7),
      bytes: fc.oneof(fc.nat(300), fc.nat(3000)),
    }),
  },
  { weight: 1, arbitrary: act },
);

/** Plays the steps and returns everything that can be observed after each of them. */
async function lived(direct: boolean, steps: readonly Step[]) {
  const world = new World(direct);
  const { wires, answers, connections } = world;
  for (let i = 0; i < 5; i++) world.openOne(i * 800);
  const acts = ({ kind, of }: Act) => {
    const at = of % answers.length;
    if (kind === "open") world.openOne(4000);
    else if (kind === "cut") connections[at]!.cut();
    else if (kind === "break") answers[at]!.stream.reset();
    else if (kind === "end") answers[at]!.stream.end();
    else if (kind === "text") answers[at]!.stream.write(`text of ${at}`);
    else if (kind === "shutdown") connections[at]!.shutDown();
    else if (kind === "room") wires[at]!.room = 0;
    else wires[at]!.reset();
  };
  const seen: unknown[] = [];
  for (const one of steps) {
    if (one.kind === "step") {
      const at = new Map(one.acts.map((each) => [each.before % answers.length, () => acts(each)]));
      // A stream with an act gets two tokens, because only a receiver can run the act.
      world.step((of) => (at.has(of) ? 2 : one.counts[of % 8]!), at);
      seen.push(answers.map(({ stream }) => stream.full));
    } else if ("bytes" in one) {
      const at = one.of % wires.length;
      wires[at]!.room += one.bytes;
      // "space": the kernel has room, but the connection has not been told yet.
      if (one.kind === "room" && wires[at]!.fd >= 0) connections[at]!.drain();
    } else acts(one);
    await Promise.resolve();
    // Bun reports closed sockets in a later turn.
    for (const [i, wire] of wires.entries()) if (wire.fd < 0) connections[i]!.lost();
    seen.push(wires.map(({ ended, terminated }, i) => [answers[i]!.stream.full, ended, terminated]));
  }
  for (const [i, wire] of wires.entries()) {
    wire.room = PLENTY;
    if (wire.fd >= 0) connections[i]!.drain();
  }
  await Promise.resolve();
  for (const connection of connections) connection.lost();
  world.settle();
  return {
    ...{ seen, told: world.told, held: world.held, written: wires.map(({ written }) => written) },
    counted: answers.map(({ tokens, bytes, live }) => [tokens, bytes, live.tokens]),
    wrong: world.table.wrong,
    direct: wires.reduce((sum, { natively }) => sum + natively, 0),
  };
}

test("native code and JavaScript send the same bytes, ends and counts, whatever happens during a step", async () => {
  let direct = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 60 }), async (steps) => {
      const single = await lived(false, steps);
      const batched = await lived(true, steps);
      direct += batched.direct;
      expect({ ...batched, direct: 0 }).toEqual(single);
      expect(batched.wrong).toEqual([]);
      expect(batched.held).toBe(0);
      for (const [of, text] of batched.written.entries())
        for (const [, whose] of text.matchAll(/<(\d+):/g)) expect(Number(whose)).toBe(of);
    }),
    { numRuns: 300 },
  );
  expect(direct).toBeGreaterThan(1000);
});

test("a step of plain tokens is one native call, which stops at a row for a receiver", () => {
  for (const tokens of [1, 2, 0]) {
    const world = new World(true);
    for (let i = 0; i < 300; i++) world.openOne(PLENTY);
    const rows = (tokensOf: (of: number) => number) => {
      world.calls.length = 0;
      world.step(tokensOf);
      return [...world.calls];
    };
    for (let i = 0; i < 11; i++) rows(() => 1);
    const asked = rows((of) => (of === 150 ? tokens : 1));
    expect(asked).toEqual(tokens === 1 ? [300] : tokens === 0 ? [299] : [150, 0, 149]);
    // A stream that missed a step goes to its receiver once.
    if (tokens === 0) expect(rows(() => 1)).toEqual([150, 0, 149]);
    world.settle();
    expect(world.answers[150]!.tokens).toBe(tokens === 0 ? 12 : 11 + tokens);
  }
});

test("an error during a step affects only its own stream", async () => {
  for (const errno of [EPERM, EAGAIN, EPIPE, ECONNRESET, EBADF]) {
    const world = new World(true);
    for (let i = 0; i < 5; i++) world.openOne(PLENTY);
    for (let i = 0; i < 3; i++) world.step(() => 1);
    const lasting = errno === EPIPE || errno === ECONNRESET || errno === EBADF;
    if (lasting) world.wires[2]!.reset();
    world.wires[2]!.errors.push(errno);
    world.step(() => 1);
    await Promise.resolve();
    for (const [i, { fd }] of world.wires.entries()) if (fd < 0) world.connections[i]!.lost();
    world.step(() => 1);
    world.settle();
    // A temporary error has no effect: Bun sends the bytes that were not accepted.
    expect(world.told).toEqual(lasting ? ["2 gone"] : []);
    expect(world.answers.map(({ tokens }) => tokens)).toEqual([5, 5, lasting ? 4 : 5, 5, 5]);
    expect(world.wires.map(({ written }) => written.match(/</g)!.length)).toEqual([5, 5, lasting ? 3 : 5, 5, 5]);
  }
});

test("longer than a lane: each event goes to its receiver", () => {
  const texts = new TokenTexts();
  for (const length of [255, 256, 0]) texts.learn(length, Buffer.alloc(length, "x"));
  expect([255, 256, 0].map((id) => texts.at[id]! > 0)).toEqual([true, false, false]);
  // The texts keep their content when the tables grow.
  for (let id = 0; id < 5000; id++) texts.learn(id, Buffer.from(`${id}`));
  for (const id of [0, 1, 4999]) {
    const at = texts.at[id]!;
    expect(Buffer.from(texts.bytes.subarray(at, at + texts.bytes[at - 1]!)).toString()).toBe(`${id}`);
  }
  const lanes = new Lanes(() => 0, texts);
  const end = { fd: 1, onLane() {}, onPartialWrite() {} };
  expect(lanes.lane(0, end, Buffer.alloc(FRAME_MOST_BYTES), Buffer.alloc(1))).toBeNull();
  const lane = lanes.lane(100, end, Buffer.alloc(FRAME_MOST_BYTES - 1), Buffer.alloc(1));
  lane!.goOn(1, Buffer.from("1"));
  expect([0, 99, 100, 101].map((slot) => lanes.leads(slot))).toEqual([false, false, true, false]);
});

test("a connection closed during a step is skipped, because its descriptor may already belong to another connection", () => {
  const world = new World(true);
  for (let i = 0; i < 3; i++) world.openOne(PLENTY);
  for (let i = 0; i < 3; i++) world.step(() => 1);
  const act = () => {
    world.connections[1]!.cut();
    world.connections[1]!.lost();
    world.openOne(PLENTY); // gets the descriptor and the slot of the second stream
  };
  world.step((of) => (of === 0 ? 2 : 1), new Map([[0, act]]));
  world.step(() => 1);
  expect(world.wires[3]!.written).toMatch(/\r\n\r\n[0-9a-f]+\r\n<3:0-+\r\n$/);
  expect(world.wires[1]!.written.match(/</g)!.length).toBe(3);
  expect(world.wires[2]!.written.match(/</g)!.length).toBe(5);
});

test("where native code is not available, receivers write all events, and the reason is reported", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-send-"));
  const source = (text: string) => {
    const file = join(folder, `${Bun.hash(text)}.c`);
    writeFileSync(file, text);
    return pathToFileURL(file);
  };
  try {
    expect(await tryLanes("darwin")).toEqual({ refused: "no native code for darwin" });
    expect(await tryLanes("linux", pathToFileURL(join(folder, "none.c")))).toEqual({
      refused: expect.stringContaining("bun:ffi cannot compile lanes.c ("),
    });
    expect(await tryLanes("linux", source("int try_send( {"))).toEqual({
      refused: expect.stringContaining("bun:ffi cannot compile lanes.c ("),
    });
    const forbidden = "int write_rows() { return 0; } int try_send() { return 1; }";
    expect(await tryLanes("linux", source(forbidden))).toEqual({ refused: "send fails with errno 1" });
  } finally {
    rmSync(folder, { recursive: true });
  }
  const of = async (listen: Partial<ListenConfig>, platform?: string) => {
    const { mode, why } = await streamWritesOf({ listen: listen as ListenConfig }, platform);
    return [mode, why];
  };
  expect(await of({ streamWrites: "auto" }, "darwin")).toEqual(["single", "no native code for darwin"]);
  expect(await of({ streamWrites: "auto", tls: "self-signed" }, "linux")).toEqual([
    "single",
    "the connections use TLS",
  ]);
  expect(await of({ streamWrites: "single" })).toEqual(["single", undefined]);
  expect(of({ streamWrites: "batched" }, "win32")).rejects.toThrow("no native code for win32");
});

const addresses = await addressesInLibrary();

/** Writes one row to a closed descriptor. Returns the words of its lane and its call, by the names of their macros. */
function oneRow(macros: Readonly<Record<string, string>>): (name: string) => number {
  const { symbols } = cc({
    source: new URL("../../../src/wire/lanes/lanes.c", import.meta.url).pathname,
    define: { ...macros, ...addresses },
    flags: "-nostdlib",
    symbols: { write_rows: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" } },
  });
  const at = (name: string) => Number(macros[name]);
  const [lane, call, row] = [new Int32Array(at("LANE_WORDS")), new Int32Array(500), new Int32Array(at("OUT_WORDS"))];
  const words: readonly (readonly [Int32Array, string, number])[] = [
    [lane, "LANE_LINE", 1_000_001],
    [lane, "LANE_NEXT", 7],
    [lane, "LANE_PREFIX", 20],
    [lane, "LANE_SUFFIX", 3],
    [call, "CALL_TO", 1],
    [call, "CALL_STEP", 7],
    [call, "CALL_LANES", 1],
    [call, "CALL_IDS", 1],
    [row, "OUT_TOKENS", 1],
  ];
  for (const [memory, name, value] of words) memory[at(name)] = value;
  symbols.write_rows(lane, Buffer.from("\x02ab"), Int32Array.of(1), row, Int32Array.of(0), call);
  return (name) => (name.startsWith("LANE") ? lane : call)[at(name)]!;
}

test("native code takes the places of all words from the enums in TypeScript", () => {
  const names = ["LANE_NEXT", "LANE_TOKENS", "LANE_BYTES", "CALL_LENGTH", "CALL_TAKEN"];
  const expected = [8, 1, 25, "19\r\n\r\n".length + 25, -EBADF];
  expect(names.map(oneRow(LANE_MACROS))).toEqual(expected);
  // The words in reverse order.
  for (const [kind, count] of [
    ["LANE", 6],
    ["CALL", 7],
    ["OUT", 4],
  ] as const) {
    const moved = Object.entries(LANE_MACROS).map(([name, value]) =>
      name.startsWith(`${kind}_`) && Number(value) < count ? [name, `${count - 1 - Number(value)}`] : [name, value],
    );
    expect([kind, ...names.map(oneRow(Object.fromEntries(moved)))]).toEqual([kind, ...expected]);
  }
});
