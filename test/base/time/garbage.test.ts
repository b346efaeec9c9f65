/**
 * Tests when garbage collections are ordered: after a certain amount of garbage, when the server becomes idle, and only for a
 * limited share of the time.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Garbage } from "../../../src/base/time/garbage.ts";
import { SpareTime } from "../../../src/base/time/spare-time.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";

const MIB = 2 ** 20;
const SECOND_US = 1_000_000;

type Kind = "young" | "whole" | "concurrent";

interface Times {
  readonly youngUs?: number;
  readonly wholeUs?: number;
  /** True if the runtime has no concurrent collections. */
  readonly inOneGo?: boolean;
}

/**
 * Makes a garbage collector that records its collections. A collection reports the given time, but the clock stays. Tests may
 * change `resident.bytes`, the process's memory.
 */
function collecting({ youngUs = 0, wholeUs = 0, inOneGo = false }: Times = {}) {
  const clock = new VirtualClock();
  const collected: [atUs: number, kind: Kind][] = [];
  const resident = { bytes: 100 * MIB };
  const took = (kind: Kind, us: number) => () => {
    collected.push([clock.now(), kind]);
    return us;
  };
  const garbage = new Garbage(new SpareTime(clock, 60_000, 2 * SECOND_US), new SpareTime(clock, 6000, 200_000), {
    young: took("young", youngUs),
    whole: took("whole", wholeUs),
    concurrent: inOneGo ? null : took("concurrent", 0),
    residentBytes: () => resident.bytes,
  });
  /** Advances time in steps, and lets promises settle after each step. */
  const pass = async (us: number, stepUs = 100_000) => {
    for (const end = clock.now() + us; clock.now() < end; ) {
      clock.advanceTo(Math.min(end, clock.now() + stepUs));
      for (let promise = 0; promise < 4; promise++) await Promise.resolve();
    }
  };
  /** Starts streams whose steps leave no gap. Returns a function that ends them. */
  const streams = () => {
    let open = true;
    const step = () => void (open && clock.at(clock.now() + 20_000, step));
    step();
    return () => {
      open = false;
    };
  };
  const kinds = () => collected.map(([, kind]) => kind);
  return { clock, garbage, collected, kinds, resident, pass, streams };
}

test("half a second after a burst its garbage is collected, unless it is only a little", async () => {
  const { garbage, kinds, pass } = collecting();
  garbage.add(3 * MIB);
  await pass(0.3 * SECOND_US);
  expect(kinds()).toEqual([]);
  await pass(SECOND_US);
  expect(kinds()).toEqual(["whole"]);
  garbage.add(MIB);
  await pass(60 * SECOND_US);
  expect(kinds()).toEqual(["whole"]);
});

test("if steps leave no gap, the young generation is collected between them", async () => {
  const { garbage, kinds, pass, streams } = collecting();
  streams();
  garbage.add(4 * MIB);
  await pass(SECOND_US);
  expect(kinds()).toEqual([]);
  await pass(2 * SECOND_US);
  expect(kinds()).toEqual(["young"]);
});

test("a crowd of new objects that are in use is collected at once, whatever share of the time it takes", () => {
  const { garbage, kinds } = collecting({ youngUs: SECOND_US });
  for (let crowd = 0; crowd < 3; crowd++) garbage.crowded();
  expect(kinds()).toEqual(["young", "young", "young"]);
});

test("256 streams that were read and opened order a young collection", () => {
  const { garbage, collected } = collecting();
  const stream = () => {
    garbage.read();
    garbage.opened();
  };
  for (let i = 0; i < 255; i++) stream();
  expect(collected).toEqual([]);
  for (let i = 0; i < 600; i++) stream();
  expect(collected).toEqual([0, 0, 0].map((atUs) => [atUs, "young"]));
});

test("131,072 written tokens order a young collection, in a gap between steps", async () => {
  const { garbage, collected, pass, streams } = collecting();
  for (let step = 0; step < 2; step++) garbage.wrote(65_000);
  expect(collected).toEqual([]);
  garbage.wrote(2000);
  expect(collected).toEqual([[0, "young"]]);
  streams();
  await pass(10_000, 1000);
  garbage.wrote(131_072);
  await pass(30_000, 1000);
  expect(collected.length).toBe(2);
});

test("a burst of requests orders young collections before the first stream is opened", () => {
  const { garbage, collected } = collecting();
  for (let i = 0; i < 2000; i++) garbage.read();
  expect(collected).toHaveLength(3);
  for (let i = 0; i < 2000; i++) garbage.opened();
  expect(collected).toHaveLength(7);
});

test("if steps leave no gap, growth by 24 MiB orders a concurrent collection", async () => {
  const { garbage, resident, collected, kinds, pass, streams } = collecting();
  const end = streams();
  const found: number[] = [];
  for (let mib = 1; mib <= 110; mib++) {
    resident.bytes += MIB;
    for (let i = 0; i < 1024; i++) garbage.opened();
    await pass(3 * SECOND_US);
    if (collected.at(-1)![1] === "concurrent") found.push(mib);
  }
  // Growth counts from the memory in the first round.
  expect(found).toEqual([25, 49, 73, 97]);
  // A whole collection would stop all streams, so it comes after them. A concurrent one returns no memory to the system.
  expect(kinds()).not.toContain("whole");
  end();
  await pass(10 * SECOND_US);
  expect(kinds()).toContain("whole");
});

test("a runtime without concurrent collections makes whole ones instead", async () => {
  const { garbage, resident, kinds, pass, streams } = collecting({ inOneGo: true });
  streams();
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 1024; i++) garbage.opened();
    await pass(3 * SECOND_US);
    resident.bytes += 24 * MIB;
  }
  expect(kinds().filter((kind) => kind !== "young")).toEqual(["whole", "whole"]);
});

test("growth by bodies orders no whole collection if steps leave no gap", async () => {
  const { garbage, resident, kinds, pass, streams } = collecting();
  streams();
  for (let round = 0; round < 10; round++) {
    garbage.add(4 * MIB);
    await pass(3 * SECOND_US);
    resident.bytes += 24 * MIB;
  }
  expect(new Set(kinds())).toEqual(new Set(["young"]));
});

test("whole collections take at most a fiftieth of the time at any rate of streams", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 5, max: 400 }), async (wholeMs, everyMs) => {
      const { garbage, kinds, pass } = collecting({ wholeUs: wholeMs * 1000 });
      for (let ms = 0; ms < 20_000; ms += everyMs) {
        garbage.add(4 * MIB);
        await pass(everyMs * 1000, everyMs * 1000);
      }
      const wholes = kinds().filter((kind) => kind === "whole").length;
      expect(wholes).toBeGreaterThan(0);
      expect((wholes - 1) * wholeMs).toBeLessThanOrEqual(20_000 / 50);
    }),
    { numRuns: 30 },
  );
});

test("a whole collection does not wait for its share of the time if memory has grown by 24 MiB", async () => {
  const { garbage, resident, kinds, pass } = collecting({ wholeUs: SECOND_US });
  const wholes = async (grownMib: number) => {
    resident.bytes += grownMib * MIB;
    garbage.add(4 * MIB);
    await pass(0.2 * SECOND_US);
    return kinds().filter((kind) => kind === "whole").length;
  };
  expect(await wholes(0)).toBe(1);
  expect(await wholes(23)).toBe(1);
  expect(await wholes(1)).toBe(2);
});

test("young collections take at most a twentieth of the time, after 50 ms of them", async () => {
  const { garbage, kinds, pass } = collecting({ youngUs: 5000 });
  for (let ms = 0; ms < 10_000; ms++) {
    for (let i = 0; i < 512; i++) garbage.read();
    await pass(1000, 1000);
  }
  expect(kinds().length).toBeGreaterThan(100);
  expect(kinds().length).toBeLessThanOrEqual((50 + 10_000 / 20) / 5 + 1);
});

test("every 4 MiB of bodies order a young collection, whatever share of the time it takes", async () => {
  const { garbage, kinds, pass } = collecting({ youngUs: 5000, wholeUs: 20_000 });
  for (let ms = 0; ms < 1000; ms++) {
    garbage.add(4 * MIB);
    await pass(1000, 1000);
  }
  expect(kinds().filter((kind) => kind === "young").length).toBeGreaterThan(950);
});

test("collections that exceeded their share of the time are made up for when the server becomes idle", async () => {
  const { garbage, kinds, pass } = collecting({ wholeUs: 20_000 });
  for (let i = 0; i < 100; i++) {
    garbage.add(4 * MIB);
    await pass(1000, 1000);
  }
  expect(kinds().filter((kind) => kind === "whole")).toHaveLength(1);
  await pass(10 * SECOND_US);
  // One postponed collection, and one for the requests that were running during it.
  expect(kinds().filter((kind) => kind === "whole")).toHaveLength(3);
  await pass(60 * SECOND_US);
  expect(kinds().filter((kind) => kind === "whole")).toHaveLength(3);
});

test("one more whole collection follows a burst, because its last requests were running during the previous one", async () => {
  const { garbage, kinds, pass } = collecting();
  for (let i = 0; i < 5; i++) {
    garbage.add(4 * MIB);
    await pass(0.2 * SECOND_US);
  }
  garbage.add(1);
  expect(kinds()).toHaveLength(5);
  await pass(2 * SECOND_US);
  expect(kinds()).toEqual(Array(6).fill("whole"));
  await pass(60 * SECOND_US);
  expect(kinds()).toHaveLength(6);
});

test("while a whole collection waits for a gap, each further 4 MiB order a young one", async () => {
  const { garbage, kinds, pass, streams } = collecting();
  streams();
  for (let i = 0; i < 12; i++) garbage.add(MIB);
  await pass(3 * SECOND_US);
  expect(kinds()).toEqual(["young", "young", "young"]);
});

/** Returns a collector whose whole collection has found no gap in ten seconds, because streams are running. */
async function owing() {
  const made = collecting();
  const end = made.streams();
  made.garbage.add(4 * MIB);
  await made.pass(10 * SECOND_US);
  expect(made.kinds()).toEqual(["young"]);
  return { ...made, end };
}

test("a whole collection that found no gap follows after the streams, and then one more", async () => {
  const { kinds, pass, end } = await owing();
  end();
  // Found by bench hold: without the second collection 80 MB were not returned to the system.
  await pass(60 * SECOND_US);
  expect(kinds()).toEqual(["young", "whole", "whole"]);
});

test("if the additional collection finds no gap either, it follows once, after the streams", async () => {
  const { collected, kinds, pass, streams, ...first } = await owing();
  let { end } = first;
  // Repeated gaps between streams, which are just long enough for the postponed collection.
  for (let gap = 0; gap < 10; gap++) {
    end();
    while (collected.at(-1)![1] !== "whole" && gap < 2) await pass(SECOND_US / 100);
    await pass(SECOND_US / 100);
    end = streams();
    await pass(5 * SECOND_US);
  }
  end();
  expect(kinds()).toEqual(["young", "whole", "young", "whole"]);
});

test("timers that always fire just after a search for a gap do not postpone a collection forever", async () => {
  const { clock, kinds, pass, end } = await owing();
  // bench hold found this case: the process kept 130 MB of garbage until the next request.
  const repeat = () => {
    clock.at(clock.now() + 19_000, () => {});
    clock.at(clock.now() + SECOND_US / 2, repeat);
  };
  repeat();
  end();
  await pass(4 * SECOND_US);
  expect(kinds()).toEqual(["young", "whole", "whole"]);
});

test("a young collection starts at once if no step is due soon, otherwise in the next gap", async () => {
  const { clock, garbage, collected } = collecting();
  const burst = () => {
    for (let i = 0; i < 512; i++) garbage.read();
    return collected.length;
  };
  expect(burst()).toBe(1);
  clock.at(clock.now() + 1000, () => {});
  expect(burst()).toBe(1);
  clock.advanceTo(clock.now() + 1000);
  await Promise.resolve();
  expect(collected).toHaveLength(2);
  // A waiting collection starts when the next one is ordered, and counts for both.
  clock.at(clock.now() + 1000, () => {});
  burst();
  expect(collected).toHaveLength(2);
  expect(burst()).toBe(3);
  clock.advanceTo(clock.now() + 1000);
  await Promise.resolve();
  expect(collected).toHaveLength(3);
});
