/**
 * Checks on live servers that each bug mode is found by the laws in its row, with the scrapes that the row allows. The laws must
 * report no violation of a clean server under the same load. `npx bun run test bugmodes` runs all modes separately. The
 * sample runs some modes on a separate server each. All modes also run together on two servers: one for modes that freeze
 * values, one for the others.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { DetectionNeed } from "../../src/metrics/bugs/bug.ts";
import { bugs } from "../../src/metrics/bugs/table.ts";
import { BUG_NAMES, type BugName } from "../../src/metrics/config/bug-names.ts";
import { type CheckOptions, checkScrapes, type Scrape, type Violation } from "../../src/tools/check/index.ts";
import { hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { type ServerHandle, serve } from "../server.ts";
import { figure, sampled } from "../size.ts";
import { ADMIN, drive, ENVIRONMENT, FLAGS, PARAMETERS, type Scrapes } from "./load.ts";

setDefaultTimeout(60_000);
/** Number of servers that run at the same time. Their time is simulated, so they need little CPU. */
const AT_ONCE = 4;

const queue: (() => Promise<void>)[] = [];
const running = new Set<Promise<void>>();
function turn(): void {
  while (running.size < AT_ONCE && queue.length > 0) {
    const run = queue.shift()!().finally(() => {
      running.delete(run);
      turn();
    });
    running.add(run);
  }
}
/** If some tests are left out, servers may still be queued when the last test ends. */
afterAll(async () => {
  queue.length = 0;
  await Promise.all(running);
});

/** Starts a server, drives the load, and returns the result of `see`. Waits in the queue while too many servers run. */
function driven<T>(
  flags: readonly string[],
  see: (server: ServerHandle, scrapes: Scrapes) => Promise<T> | T,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  promise.catch(() => {}); // the test that awaits the promise reports the error
  queue.push(async () => {
    let server: (ServerHandle & { stop(): Promise<unknown> }) | undefined;
    try {
      const admin = flags.includes("--workers") ? [] : ADMIN;
      const start = flags.includes("--workers") ? serve : hosted;
      server = await start([...FLAGS, ...admin, ...flags], ENVIRONMENT);
      resolve(await see(server, await drive(server)));
    } catch (error) {
      reject(error);
    } finally {
      await server?.stop();
    }
  });
  turn();
  return promise;
}

const violations = (scrapes: readonly Scrape[], options: CheckOptions): readonly Violation[] =>
  checkScrapes(scrapes, { parameters: PARAMETERS, ...options }).violated.flatMap((law) => law.violations);

/** For each detection need, all sets of scrapes that contain no more than it allows. */
const CHOICES: Readonly<Record<DetectionNeed, (of: Scrapes) => readonly (readonly Scrape[])[]>> = {
  "one scrape": ({ all }) => all.map((scrape) => [{ ...scrape, rest: false }]),
  "two scrapes": ({ all }) =>
    all.slice(1).map((scrape, i) => [all[i]!, scrape].map((each) => ({ ...each, rest: false }))),
  rest: ({ all }) => all.filter(({ rest }) => rest).map((scrape) => [scrape]),
  "clean, rest": ({ clean }) => clean.filter(({ rest }) => rest).map((scrape) => [scrape]),
};

/**
 * Reports whether the law reports a violation that names a family of the bug, for some set of scrapes. A bug of all families
 * accepts any violation.
 */
function isFound(name: BugName, [law, takes]: readonly [law: string, DetectionNeed], scrapes: Scrapes): boolean {
  const families = bugs[name].families.map(stem);
  const names = ({ left, right }: Violation) =>
    families.length === 0 || families.some((family) => `${left.text} ${right.text}`.includes(family));
  const options = { only: [law], clean: takes === "clean, rest" };
  return CHOICES[takes](scrapes).some((chosen) => violations(chosen, options).some(names));
}
/** Removes `_total`, so that the name also matches the counter's `_created` series. */
const stem = (family: string) => family.replace(/_total$/, "");

describe("found", () => {
  const flagsOf = (name: BugName) => ["--bug", name, ...(bugs[name].alone ? ["--workers", "2"] : [])];
  // Modes that cannot run together with others are always included.
  const some = new Set(sampled("bugmodes", BUG_NAMES, 1));
  const names = BUG_NAMES.filter((name) => some.has(name) || bugs[name].alone);
  const runs = new Map(names.map((name) => [name, driven(flagsOf(name), (_, scrapes) => scrapes)]));

  figure("modes with a server of their own", names.length);

  test.each(names)("%s is found by its laws", async (name) => {
    const scrapes = await runs.get(name)!;
    for (const [law, takes] of Object.entries(bugs[name].finds)) {
      const found = isFound(name, [law, takes], scrapes);
      expect({ law, takes, found }).toEqual({ law, takes, found: true });
    }
  });
});

describe("several modes on one server", () => {
  // Frozen gauges give many violations, and a report lists only five per law, so those modes get a separate server.
  const [stick, others] = [true, false].map((sticks) =>
    BUG_NAMES.filter((name) => !bugs[name].alone && (bugs[name].sticks !== undefined) === sticks),
  ) as [BugName[], BugName[]];
  const runs = [stick, others].flatMap((together) => {
    const [first, ...more] = together;
    const run = driven(["--bug", first!, "--bug", ...more], (_, scrapes) => scrapes);
    return together.map((name) => [name, run] as const);
  });

  test.each(runs)("%s is found among the others", async (name, run) => {
    const scrapes = await run;
    expect(Object.entries(bugs[name].finds).some((found) => isFound(name, found, scrapes))).toBe(true);
  });
});

describe("clean servers", () => {
  const others: readonly (readonly string[])[] = [
    ["--workers", "2"],
    ["--data-parallel-size", "2", "--no-async-scheduling"],
    ["--no-enable-prefix-caching"],
    ["--fix", "abort-counted", "abort-times", "preemptions-at-once"],
  ];
  const runs = [[], ...sampled("bugmodes", others, 1)].map(
    (flags) => [flags.join(" "), driven(flags, (_, scrapes) => scrapes)] as const,
  );

  figure("clean servers", runs.length);

  test.each(runs)("a clean server breaks no law, with the flags %s", async (_, run) => {
    const { clean, all } = await run;
    expect(violations(clean, { clean: true })).toEqual([]);
    expect(violations(all, {})).toEqual([]);
  });

  test("the load moves all series that the modes need", async () => {
    const [, run] = runs[0]!;
    const page = `${(await run).all.at(-1)!.text}`;
    const moved = [
      "vllm:num_preemptions_total{",
      'nv_inference_request_failure{model="m",reason="OTHER"',
      'understudy_requests_total{outcome="refused"',
      'understudy_requests_total{outcome="abort"',
      "vllm:prompt_tokens_cached_total{",
    ];
    const shown = (series: string) =>
      Number(
        page
          .split("\n")
          .find((line) => line.startsWith(series))!
          .split(" ")
          .at(-1),
      );
    expect(moved.filter((series) => !(shown(series) > 0))).toEqual([]);
  });
});

describe("on the command line", () => {
  const check = async ({ url }: ServerHandle) => {
    const child = Bun.spawn([process.execPath, main, "check", `${url}/metrics/all`], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const [code, out] = await Promise.all([child.exited, child.stdout.text()]);
    return { code, out };
  };
  const wrong = driven(["--bug", "fraction-blocks"], check);
  const clean = driven([], check);

  test("understudy check reports the law that a server with a bug breaks, and nothing for a clean server", async () => {
    const { code, out } = await wrong;
    expect([code, /^.*\bT05\b.*$/m.test(out)]).toEqual([1, true]);
    expect(await clean).toMatchObject({ code: 0 });
  });

  const refused: readonly (readonly [flags: string, says: readonly string[]])[] = [
    ["--bug stuck", ['"stuck"', ...BUG_NAMES]],
    ["--bug worker-saw-tooth", ["--bug worker-saw-tooth", "--workers of at least 2"]],
    ["--bug recomputed-hits --no-enable-prefix-caching", ["--bug recomputed-hits", "--enable-prefix-caching"]],
    ["--bug stale-gauges --allow-metrics false", ["--bug stale-gauges", "nv_trt_llm_request_metrics"]],
    ["--bug stuck-kv-usage --metrics-profile vllm-0.8", ["vllm:kv_cache_usage_perc"]],
    ["--bug duplicate-series --metrics-profile vllm-rs", ["a --metrics-profile with creation times"]],
    ["--bug counter-gauge --disable-log-stats", ["vllm:num_preemptions_total"]],
    [
      "--bug failures-succeed --metrics-config counter_latencies=false",
      ["--bug failures-succeed", "counter_latencies"],
    ],
  ];
  test.each(refused)("%s prints one line and exits with code 2", async (flags, says) => {
    const child = Bun.spawn([process.execPath, main, "serve", "--port", "0", ...flags.split(" ")], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()]);
    expect([code, out, err.trimEnd().split("\n").length]).toEqual([2, "", 1]);
    for (const part of says) expect(err).toContain(part);
  });
});
