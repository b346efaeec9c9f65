/** Tests the routes with a real worker: which scrapes share a page, and what happens with too many. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import { WallClock } from "../../src/base/clock.ts";
import { StepRest } from "../../src/base/time/step-rest.ts";
import { RUST } from "../../src/metrics/config/metrics-profiles.ts";
import type { View } from "../../src/metrics/dialects.ts";
import { pages } from "../../src/metrics/page.ts";
import { Renderer, TooManyScrapes, WAITING_MAX } from "../../src/metrics/renderer.ts";
import { metrics } from "../../src/metrics/route.ts";
import type { Identity } from "../../src/metrics/rows/identity.ts";
import { application } from "../../src/wire/http/elysia.ts";
import { emptyEngine, emptySnapshot, heldOf, identity, setup } from "./snapshots.ts";

let scrapes = 0;
const numbers = () => heldOf(emptySnapshot([{ ...emptyEngine(), steps: ++scrapes }]));
/** A clock on which no step is due. */
const atRest = { now: () => 0, nextUs: () => Number.POSITIVE_INFINITY };
const served = new Renderer(numbers, setup, atRest);
const app = application({ routes: metrics(served, setup.identity) });
let server: Bun.Server<undefined>;
const get = async (path: string) => await app.handle(new Request(`http://localhost${path}`));
const renderers: Renderer[] = [];
const renderer = (nextUs = atRest.nextUs) => {
  const made = new Renderer(numbers, setup, { now: () => 0, nextUs });
  renderers.push(made);
  return made;
};
const steps = (bytes: Uint8Array) =>
  Number(/steps_total\{engine="0"\} (\S+)/.exec(new TextDecoder().decode(bytes))![1]);

beforeAll(() => {
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: app.handle });
});
afterAll(async () => {
  await server.stop(true);
  served.stop();
  for (const made of renderers) made.stop();
});

const VLLM = "text/plain; version=1.0.0; charset=utf-8";
const PLAIN = "text/plain; version=0.0.4; charset=utf-8";
const OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/** Accept header of Prometheus 2.42 and 3. */
const PROMETHEUS =
  "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

test.each([
  ["/metrics", "", "role", "text", VLLM],
  // The real server ignores Accept on its plain path.
  ["/metrics", PROMETHEUS, "role", "text", VLLM],
  ["/metrics?format=openmetrics", "", "role", "openmetrics", OPENMETRICS],
  ["/metrics/", "", "role", "text", PLAIN],
  ["/metrics/", PROMETHEUS, "role", "openmetrics", OPENMETRICS],
  ["/metrics/vllm", "", "vllm", "text", VLLM],
  ["/metrics/vllm", "text/plain, application/openmetrics-text", "vllm", "openmetrics", OPENMETRICS],
  ["/metrics/vllm", "application/openmetrics-text; version=0.0.1", "vllm", "text", VLLM],
  ["/metrics/understudy", "", "understudy", "text", PLAIN],
  ["/metrics/understudy?format=text", PROMETHEUS, "understudy", "text", PLAIN],
  ["/metrics/all", "*/*", "all", "text", PLAIN],
  ["/metrics/all", PROMETHEUS, "all", "openmetrics", OPENMETRICS],
] as const)("%s with Accept: %s", async (path, accept, view, format, contentType) => {
  const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers: { accept } });
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, contentType]);
  const held = () => emptySnapshot([{ ...emptyEngine(), steps: scrapes }]);
  expect(await answer.text()).toBe(await pages(identity)(view, held, format));
});

test.each([
  ["/metrics", "text/plain", OPENMETRICS],
  ["/metrics/", "text/plain", OPENMETRICS],
  ["/metrics?format=text", "", OPENMETRICS],
  ["/metrics/vllm", "", OPENMETRICS],
  ["/metrics/understudy", "", PLAIN],
])("with the page of vLLM's front end in Rust, %s with Accept: %s", async (path, accept, contentType) => {
  const rust: Identity = { ...identity, profile: RUST };
  const made = new Renderer(numbers, { ...setup, identity: rust }, atRest);
  renderers.push(made);
  const { handle } = application({ routes: metrics(made, rust) });
  const answer = await handle(new Request(`http://localhost${path}`, { headers: { accept } }));
  expect(answer.headers.get("content-type")).toBe(contentType);
  expect((await answer.text()).endsWith("# EOF\n")).toBe(contentType === OPENMETRICS);
});

test.each([Number.POSITIVE_INFINITY, 1000, 300, 1, -50])("a page is made %d us before a step", async (leftUs) => {
  const pages = renderer(() => leftUs);
  expect(steps(await pages.page("understudy"))).toBe(scrapes);
});

test("a page that is not finished when a step is due pauses once until just after the step", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.integer({ min: 6000, max: 12_000 }), fc.constant(Number.POSITIVE_INFINITY)),
      fc.array(fc.nat(400), { maxLength: 40 }),
      (dueUs, takenUs) => {
        let nowUs = 7000;
        const waits: [number, number][] = [];
        const wait = (ms: number) => {
          waits.push([nowUs, Math.round(ms * 1000)]);
          nowUs += Math.round(ms * 1000);
        };
        const rest = new StepRest(dueUs / 1000, wait, () => nowUs / 1000);
        const looked: number[] = [];
        for (const us of takenUs) {
          looked.push(nowUs);
          rest.look();
          nowUs += us;
        }
        const first = looked.find((us) => us / 1000 >= dueUs / 1000 - 0.1);
        const isTaken = first !== undefined && first / 1000 > dueUs / 1000 + 0.2;
        expect(waits.map(([at]) => at)).toEqual(first === undefined || isTaken ? [] : [first]);
        for (const [at, us] of waits) expect(at + us).toBe(Math.max(at, dueUs) + 200);
      },
    ),
  );
});

test("a scrape that arrives while a page is made shares the next page, which is not older than the scrape", async () => {
  const pages = renderer();
  const before = scrapes;
  const first = pages.page("understudy");
  const others = Array.from({ length: 50 }, () => pages.page("understudy"));
  expect(scrapes - before).toBe(1);
  expect(steps(await first)).toBe(before + 1);
  expect(new Set((await Promise.all(others)).map(steps))).toEqual(new Set([before + 2]));
});

test("spare pages are made between scrapes until the stop, and do not change real pages", async () => {
  const clock = new WallClock();
  const pages = new Renderer(numbers, setup, clock);
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("understudy", "role", "all"),
      fc.integer({ min: 0, max: 60 }),
      async (view, ms) => {
        await Bun.sleep(ms);
        const page = pages.page(view);
        const at = scrapes;
        const again = pages.page("understudy");
        if (view !== "role") expect(steps(await page)).toBe(at);
        expect(steps(await again)).toBeGreaterThan(at);
      },
    ),
    { numRuns: 60 },
  );
  const before = scrapes;
  for (let i = 0; i < 200 && scrapes < before + 3; i++) await Bun.sleep(10);
  expect(scrapes).toBeGreaterThan(before + 2);
  pages.stop();
  const stopped = scrapes;
  await Bun.sleep(300);
  expect(scrapes).toBe(stopped);
  clock.close();
});

test("no view waits for ever for another", async () => {
  const pages = renderer();
  const answers = await Promise.all((["vllm", "understudy", "role", "understudy"] as const).map((v) => pages.page(v)));
  expect(answers.map((bytes) => bytes.length > 100)).toEqual([true, true, true, true]);
});

test("a scrape beyond the limit is refused at once, and the limit is free again later", async () => {
  const pages = renderer();
  const waiting = Array.from({ length: WAITING_MAX }, () => pages.page("role"));
  await expect(pages.page("role")).rejects.toBeInstanceOf(TooManyScrapes);
  await Promise.all(waiting);
  expect((await pages.page("role")).length).toBeGreaterThan(0);
});

test("beyond the limit the route answers 503", async () => {
  const answers = await Promise.all(Array.from({ length: WAITING_MAX + 10 }, () => get("/metrics")));
  const refused = answers.filter(({ status }) => status === 503);
  expect(refused.length).toBe(10);
  expect(await refused[0]!.text()).toBe("too many scrapes at once\n");
  expect(answers.filter(({ status }) => status === 200).length).toBe(WAITING_MAX);
});

test("a stop fails waiting scrapes, and the next scrape starts a new worker", async () => {
  const pages = renderer();
  const waiting = [pages.page("role"), pages.page("role")];
  pages.stop();
  const ends = await Promise.allSettled(waiting);
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect((await pages.page("role")).length).toBeGreaterThan(0);
});

test("a failed worker fails waiting scrapes and is replaced", async () => {
  const pages = renderer();
  const waiting = [pages.page("none" as View), pages.page("role")];
  const ends = await Promise.allSettled(waiting);
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect((await pages.page("role")).length).toBeGreaterThan(0);
});

test("a failed snapshot fails its scrape and not the next", async () => {
  let broken = true;
  const pages = new Renderer(
    () => {
      if (broken) throw new Error("no engine");
      return heldOf(emptySnapshot());
    },
    setup,
    atRest,
  );
  renderers.push(pages);
  await expect(pages.page("role")).rejects.toThrow("no engine");
  broken = false;
  expect((await pages.page("role")).length).toBeGreaterThan(0);
});
