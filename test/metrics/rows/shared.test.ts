/**
 * Checks that the pages of several processes add up correctly, whenever a process dies. The model keeps, per worker,
 * the numbers of the dead processes and of the living one. The pages are in memory, and a kill may happen in the middle
 * of a write.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { metricsDialects } from "../../../src/metrics/dialects.ts";
import { pages as textOf } from "../../../src/metrics/page.ts";
import { Layout } from "../../../src/metrics/rows/flat.ts";
import { copiesLength } from "../../../src/metrics/rows/held.ts";
import { kindsOf, NumberKind } from "../../../src/metrics/rows/kinds.ts";
import { AllPages, OwnPage, type Pages, pageLength, retire } from "../../../src/metrics/rows/shared.ts";
import { createPage, emptyPage, SharedPage } from "../../../src/metrics/rows/shared-page.ts";
import { times } from "../../size.ts";
import { emptySnapshot, identity, setup } from "../snapshots.ts";

/** Shape with all engines of all processes. */
const shapeOfAll = ({ files, shape }: Pages) => ({ ...shape, engines: files.length * shape.engines });

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-pages-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** With an adapter, so that a copy has every part. */
const pagesOf = (places: number, engines: number): Pages => ({
  files: Array.from({ length: places }, (_, place) => join(folder, `${place}`)),
  shape: { ...setup.shape, engines, adapters: 1, httpRoutes: 2, truth: true },
  refreshes: setup.refreshes,
});
const RESTARTS = "understudy_worker_restarts_total";

describe("one page", () => {
  test("written numbers can be read in this process and through a file", () => {
    const path = join(folder, "page");
    createPage(path, 5);
    const writer = new SharedPage(Bun.mmap(path, { shared: true }), 5);
    const reader = new SharedPage(Bun.mmap(path, { shared: true }), 5);
    const copy = new Float64Array(5);
    expect(reader.tryRead(copy)).toBe(true);
    expect([...copy]).toEqual([0, 0, 0, 0, 0]);
    for (let turn = 1; turn <= 4; turn++) {
      writer.write((numbers) => void numbers.fill(turn));
      expect(reader.tryRead(copy)).toBe(true);
      expect([reader.turns, ...copy]).toEqual([turn, turn, turn, turn, turn, turn]);
    }
  });

  test("a page of another length and other files are refused, and an existing file is not overwritten", () => {
    expect(() => new SharedPage(emptyPage(4), 5)).toThrow("no page of 5 numbers");
    expect(() => new SharedPage(new Uint8Array(emptyPage(5).length), 5)).toThrow("no page of 5 numbers");
    createPage(join(folder, "twice"), 5);
    expect(() => createPage(join(folder, "twice"), 5)).toThrow("EEXIST");
  });

  test("a change without its checksum never counts as a complete copy", () => {
    fc.assert(
      fc.property(fc.array(fc.double({ noNaN: true }), { minLength: 1, maxLength: 20 }), fc.nat(), (numbers, at) => {
        const bytes = emptyPage(numbers.length);
        const page = new SharedPage(bytes, numbers.length);
        page.write((into) => into.set(numbers));
        const copy = new Float64Array(numbers.length);
        expect(page.tryRead(copy)).toBe(true);
        expect(copy).toEqual(Float64Array.from(numbers));
        // After the first write, the second slot is current.
        const word = at % (2 * numbers.length);
        new Int32Array(bytes.buffer)[16 + 2 * numbers.length + word]! ^= 1 << (at % 31);
        expect(page.tryRead(copy)).toBe(false);
      }),
    );
  });

  test("a page that stays damaged is an error, not an endless loop", () => {
    const bytes = emptyPage(1);
    const page = new SharedPage(bytes, 1);
    bytes[64] = 1;
    expect(() => page.read(new Float64Array(1))).toThrow("damaged");
  });

  test("a reader sees complete copies in order while a writer writes without a pause", async () => {
    const length = 2000;
    const shared = new SharedArrayBuffer(emptyPage(length).length);
    new Uint8Array(shared).set(emptyPage(length));
    const writer = new Worker(new URL("./shared-writer.ts", import.meta.url));
    writer.postMessage({ shared, length });
    const page = new SharedPage(new Uint8Array(shared), length);
    const copy = new Float64Array(length);
    let last = 0;
    let torn = 0;
    for (let reads = 0; reads < 2000 || (torn === 0 && reads < 1_000_000); ) {
      if (!page.tryRead(copy)) {
        torn++;
        continue;
      }
      reads++;
      const [first] = copy as unknown as [number];
      if (first < last || copy.some((number) => number !== first)) throw new Error(`a torn copy: ${first} of ${last}`);
      last = first;
      if (reads % 100 === 0) await Bun.sleep(0);
    }
    writer.terminate();
    expect(last).toBeGreaterThan(0);
  });
});

/** A process: the numbers that it has counted and holds. */
interface Life {
  readonly numbers: Float64Array;
  readonly page: OwnPage;
}

/** A worker with its page. The model has `kept` (of dead processes) and `shown` (of the living one). */
class Place {
  readonly page: SharedPage;
  readonly kept: Float64Array;
  readonly shown: Float64Array;
  life: Life | null = null;

  constructor(readonly pages: Pages) {
    const length = pageLength(pages);
    this.page = new SharedPage(emptyPage(length), length);
    this.kept = new Float64Array(length);
    this.shown = new Float64Array(length);
    this.start();
  }

  start(): void {
    this.life ??= { numbers: new Float64Array(this.kept.length), page: new OwnPage(this.page, this.pages) };
  }

  show(): void {
    if (!this.life) return;
    this.life.page.write(this.life.numbers);
    this.shown.set(this.life.numbers);
  }

  kill(kinds: Uint8Array, restartsAt: readonly number[]): void {
    if (!this.life) return;
    this.life = null;
    retire(this.page, this.pages);
    for (let i = 0; i < this.kept.length; i++) {
      if (kinds[i] !== NumberKind.Gauge) this.kept[i] = together(kinds[i]!, this.kept[i]!, this.shown[i]!);
    }
    for (const at of restartsAt) this.kept[at]!++;
    this.shown.fill(0);
  }
}

type Event =
  | { readonly kind: "move"; readonly place: number; readonly at: number; readonly by: number }
  | { readonly kind: "show" | "kill" | "killed in a write" | "start"; readonly place: number; readonly at: number }
  | { readonly kind: "scrape" };

const event = (places: number): fc.Arbitrary<Event> => {
  const place = fc.nat(places - 1);
  const at = fc.nat();
  return fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("move" as const), place, at, by: fc.nat(1000) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("show" as const), place, at }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom("kill" as const, "killed in a write" as const, "start" as const),
        place,
        at,
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("scrape" as const) }) },
  );
};

test("for random changes, kills during a write, restarts and scrapes, sums are right and no counter falls", () => {
  const history = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 2 })).chain(([places, engines]) =>
    fc.record({
      places: fc.constant(places),
      engines: fc.constant(engines),
      events: fc.array(event(places), { maxLength: 60, size: "max" }),
    }),
  );
  fc.assert(
    fc.property(history, ({ places: count, engines, events }) => {
      const pages = pagesOf(count, engines);
      const copies = pages.refreshes.length;
      const layout = new Layout(pages.shape);
      const all = new Layout(shapeOfAll(pages));
      const ofOne = mask(pages);
      const kinds = Uint8Array.from({ length: layout.length * copies }, (_, i) => ofOne[i % layout.length]!);
      // Few numbers, so that several events hit the same one; equally many of each kind, although most numbers are
      // counters.
      const some = (kind: NumberKind) => [...kinds.keys()].filter((i) => kinds[i] === kind).slice(0, 6);
      const moving = [NumberKind.Counter, NumberKind.Gauge, NumberKind.First].flatMap(some);
      const restartsAt = Array.from({ length: copies }, (_, copy) => copy * layout.length + restartAt(layout));
      const places = Array.from({ length: count }, () => new Place(pages));
      const scraper = new AllPages(
        pages,
        places.map(({ page }) => page),
      );
      const kindsOfAll = kindsOf(shapeOfAll(pages));
      let before = new Float64Array(all.length * copies);
      for (const event of events) {
        if (event.kind === "scrape") {
          const seen = scraper.read();
          expect(seen).toEqual(expected(places, pages));
          for (let i = 0; i < seen.length; i++) {
            if (kindsOfAll[i % all.length] === NumberKind.Counter && seen[i]! < before[i]!)
              throw new Error(`number ${i} fell`);
          }
          before = seen as Float64Array<ArrayBuffer>;
          continue;
        }
        const place = places[event.place]!;
        const at = moving[event.at % moving.length]!;
        if (event.kind === "move" && place.life) {
          // Counters only rise, gauges take any value, and first times are set once.
          const { numbers } = place.life;
          if (kinds[at] === NumberKind.Counter) numbers[at]! += event.by;
          else if (kinds[at] === NumberKind.Gauge || numbers[at] === 0) numbers[at] = event.by;
        } else if (event.kind === "show") place.show();
        else if (event.kind === "start") place.start();
        else if (event.kind === "kill") place.kill(kinds, restartsAt);
        else if (event.kind === "killed in a write" && place.life) {
          const strike = () =>
            place.page.write((numbers) => {
              numbers.subarray(0, at).fill(Number.MAX_SAFE_INTEGER);
              throw new Error("killed");
            });
          expect(strike).toThrow("killed");
          place.kill(kinds, restartsAt);
        }
      }
      expect(scraper.read()).toEqual(expected(places, pages));
    }),
    { numRuns: times(100) },
  );
});

const mask = (pages: Pages) => kindsOf(pages.shape);
function together(kind: NumberKind, a: number, b: number): number {
  if (kind !== NumberKind.First) return a + b;
  return a > 0 && b > 0 ? Math.min(a, b) : a + b; // 0 means never
}
/** Returns the index of the number of restarts, the only number that changes with it. */
function restartAt(layout: Layout): number {
  const numbers = new Float64Array(layout.length);
  const zero = layout.read(numbers);
  layout.write({ ...zero, front: { ...zero.front, workerRestarts: 1 } }, numbers);
  return numbers.indexOf(1);
}

/** Computes the sum with the model, from snapshots instead of offsets: engines are concatenated, the rest is added. */
function expected(places: readonly Place[], pages: Pages): Float64Array {
  const layout = new Layout(pages.shape);
  const all = new Layout(shapeOfAll(pages));
  const numbers = new Float64Array(all.length * pages.refreshes.length);
  const ofOne = mask(pages);
  pages.refreshes.forEach((_, copy) => {
    const shown = places.map(({ kept, shown }) =>
      layout.read(
        kept.map((number, i) => together(ofOne[i % layout.length]!, number, shown[i]!)),
        copy * layout.length,
      ),
    );
    // Numbers outside the engines do not depend on the number of engines.
    const noEngines = { ...pages.shape, engines: 0 };
    const rest = new Layout(noEngines);
    const ofRest = kindsOf(noEngines);
    const sum = new Float64Array(rest.length);
    for (const snapshot of shown) {
      const part = new Float64Array(rest.length);
      rest.write({ ...snapshot, engines: [] }, part);
      for (let i = 0; i < sum.length; i++) sum[i] = together(ofRest[i]!, sum[i]!, part[i]!);
    }
    const engines = shown.flatMap((snapshot) => snapshot.engines);
    all.write({ ...rest.read(sum), engines }, numbers, copy * all.length);
  });
  return numbers;
}

test("in the text page, engine labels continue from process to process and restarts are counted", async () => {
  const pages: Pages = { ...pagesOf(2, 2), shape: { ...setup.shape, engines: 2 } };
  const places = [new Place(pages), new Place(pages)];
  const layout = new Layout(pages.shape);
  places.forEach(({ life, page }, place) => {
    const [engine] = emptySnapshot().engines;
    const engines = [0, 1].map((rank) => ({ ...engine!, generationTokens: 10 * place + rank + 1, running: 3 }));
    pages.refreshes.forEach((_, copy) => {
      layout.write({ ...emptySnapshot(), engines }, life!.numbers, copy * layout.length);
    });
    life!.page.write(life!.numbers);
    if (place === 1) retire(page, pages);
  });
  const scraper = new AllPages(
    pages,
    places.map(({ page }) => page),
  );
  expect(scraper.read()).toHaveLength(copiesLength(shapeOfAll(pages), pages.refreshes));
  const held = new Layout(shapeOfAll(pages)).read(scraper.read());
  const text = await textOf(identity)("role", () => held);
  const values = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{engine="(\\d+)".*\\})? (\\S+)$`, "gm"))].map(([, engine, value]) => [
      engine,
      Number(value),
    ]);
  expect(values("vllm:generation_tokens_total")).toEqual([
    ["0", 1],
    ["1", 2],
    ["2", 11],
    ["3", 12],
  ]);
  expect(values("vllm:num_requests_running").map(([, value]) => value)).toEqual([3, 3, 0, 0]);
  expect(values(RESTARTS)).toEqual([[undefined, 1]]);
  expect(metricsDialects.understudy.rows().some(({ name }) => name === RESTARTS)).toBe(true);
});
