/**
 * Checks that no delay of any thread makes a server exit or answer wrongly. `npx bun run test schedules --seeds N` runs N
 * seeds. `--from N --seeds 1` replays one seed on each kind of server. A seed fixes the delays of each thread, but not the
 * order of the threads.
 */
import { expect, test } from "bun:test";
import { figure, seed as firstSeed, sized } from "../size.ts";
import { mix, Page } from "./page.ts";
import { DelayedProgram, describeFind, findsOf, SERVERS } from "./under-delays.ts";

const SEEDS = Number(process.env.TEST_SEEDS ?? sized("schedules", { sample: 30, whole: 10_000 }));
const FROM = Number(process.env.TEST_FROM ?? (firstSeed - 1) * SEEDS + 1);

test("no seed makes a server exit or return a wrong page or answer", async () => {
  const startMs = performance.now();
  let next = FROM;
  /** Gives each server the next seed when it has finished one. A single seed runs on all servers. */
  function* shared(): Generator<number> {
    while (next < FROM + SEEDS) yield next++;
  }
  const finds = (await Promise.all(SERVERS.map((flags) => findsOf(SEEDS === 1 ? [FROM] : shared(), flags)))).flat();
  figure("seeds", next === FROM ? SEEDS : next - FROM);
  figure("finds", finds.length);
  figure("minutes", (performance.now() - startMs) / 60_000);
  expect(finds.map(describeFind)).toEqual([]);
}, 3_600_000);

/** Returns the first seed, up to `seeds`, at which the planted program exits. Null if there is none. */
async function foundPlanted(waits: string, seeds: number): Promise<number | null> {
  const program = await DelayedProgram.start(new Page(), [new URL("./planted.ts", import.meta.url).pathname, waits]);
  const order = async (seed: number) => {
    for (let at = 0; at < 6; at++) {
      await Bun.sleep(mix(seed, at) % 5);
      await (await fetch(program.url)).text();
    }
  };
  let found: number | null = null;
  for (let seed = 1; seed <= seeds && found === null; seed++) {
    program.page.seed = seed;
    await program.during(order(seed)).catch(() => {
      found = seed;
    });
  }
  await program.stop();
  return found;
}

test("delays find a thread that treats a late notify as an order, and find nothing in a thread that checks the turn", async () => {
  const found = await foundPlanted("woken", 200);
  figure("plantedFoundAt", found);
  expect(found).not.toBeNull();
  expect(await foundPlanted("turned", 20)).toBeNull();
}, 120_000);
