/**
 * Checks that the counters of several workers stay true. Four workers answer 10,000 requests, a tenth of the clients leave, and
 * one worker is killed. The metrics must agree with the truth logs, and no counter may fall between two scrapes.
 *
 *   bun run bench workers [--workers 4] [--requests 10000] [--concurrency 64] [--no-kill] [--no-save]
 */
import type { EngineCounters } from "./lib/counted.ts";
import { has, number, rejectUnknown } from "./lib/options.ts";
import { bar, table } from "./lib/report.ts";
import { save } from "./lib/results.ts";
import { workersRun } from "./lib/workers-run.ts";

rejectUnknown(["--workers", "--requests", "--concurrency", "--no-kill", "--no-save"]);

const workers = number("--workers", 4);
const requests = number("--requests", 10_000);
const concurrency = number("--concurrency", 64);

const began = performance.now();
const run = await workersRun({ workers, requests, concurrency, kill: !has("--no-kill") });
const seconds = (performance.now() - began) / 1000;

const names: readonly (keyof EngineCounters)[] = [
  "stop",
  "length",
  "outputTokens",
  "promptTokens",
  "cachedTokens",
  "steps",
];
const rows = [...run.shown].flatMap(([engine, shown]) =>
  names.map((name) => ({ engine, name, shown: shown[name], counted: run.counted.get(engine)?.[name] ?? 0 })),
);
const unequal = rows.filter(({ shown, counted }) => shown !== counted);
table(`${requests} requests over ${workers} workers: the metrics and the truth logs`, [
  ["engine", ...names],
  ...[...run.shown].map(([engine, shown]) => [`${engine} metrics`, ...names.map((name) => shown[name])]),
  ...[...run.counted].map(([engine, counted]) => [`${engine} logs`, ...names.map((name) => counted[name])]),
]);

const outcome = (name: string) => run.last.get(`understudy_requests_total{outcome="${name}"}`) ?? 0;
const aborts = run.lives.reduce((sum, life) => sum + life.aborts, 0);
const counted = ["stop", "length", "abort", "refused", "error"].reduce((sum, name) => sum + outcome(name), 0);
const died = run.lives.flatMap((life) => {
  if (life.died === null) return [];
  const of = (which: "counted" | "written", name: keyof EngineCounters) =>
    [...life[which].values()].reduce((sum, counters) => sum + counters[name], 0);
  const { engines, signal, outcomes } = life.died;
  return [
    {
      worker: life.worker,
      signal,
      outcomes,
      running: engines.reduce((sum, { running }) => sum + running, 0),
      waiting: engines.reduce((sum, { waiting }) => sum + waiting, 0),
      endedWithoutRow: outcomes.stop + outcomes.length + outcomes.abort - life.rows.length,
      tokensWithoutRow: of("counted", "outputTokens") - of("written", "outputTokens"),
      stepsWithoutRow: of("counted", "steps") - of("written", "steps"),
    },
  ];
});
table("requests lost with a killed worker", [
  ["worker", "running", "waiting", "ended, row not written", "tokens without row", "steps without row"],
  ...died.map((death) => [
    `${death.worker} ${death.signal}`,
    death.running,
    death.waiting,
    death.endedWithoutRow,
    death.tokensWithoutRow,
    death.stepsWithoutRow,
  ]),
]);
const { complete, left, refused, cut } = run.endings;
table("outcomes of requests", [
  ["", "complete", "client left", "refused", "cut or not counted"],
  ["clients", complete, left, refused, cut],
  [
    "understudy_requests_total",
    outcome("stop") + outcome("length"),
    outcome("abort"),
    outcome("refused"),
    requests - counted,
  ],
]);
console.log(`\n  ${run.scrapes} scrapes in ${seconds.toFixed(1)} s, ${(requests / seconds).toFixed(0)} requests/s`);
console.log(`  ${bar("counters that differ from the truth logs", unequal.length, 0, "counters")}`);
console.log(`  ${bar("aborts that differ from the truth logs", Math.abs(outcome("abort") - aborts), 0, "requests")}`);
console.log(`  ${bar("counters that fell between two scrapes", run.fell.length, 0, "counters")}`);
for (const fault of [...unequal.map((row) => JSON.stringify(row)), ...run.fell].slice(0, 10))
  console.log(`    ${fault}`);

const restarts = run.last.get("understudy_worker_restarts_total");
save("workers", {
  ...{ workers, requests, concurrency, seconds, scrapes: run.scrapes, restarts },
  ...{ unequal: unequal.length, aborts: outcome("abort"), abortsInLogs: aborts, fell: run.fell.length },
  ...{ endings: run.endings, notCounted: requests - counted, died },
});
process.exit(unequal.length + run.fell.length + Math.abs(outcome("abort") - aborts) > 0 ? 1 : 0);
