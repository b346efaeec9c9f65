/**
 * Checks that the counters of several workers stay true. Four workers answer 10,000 requests, a tenth of the clients leave, and
 * one worker is killed. The metrics must agree with the truth logs, and no counter may fall between two scrapes.
 *
 *   bun run bench workers [--workers 4] [--requests 10000] [--concurrency 64] [--no-kill] [--no-save]
 */

import { bars, note, options, save, table } from "./lib/bench.ts";
import { COUNTERS, type EngineCounters } from "./lib/counted.ts";
import { workersRun } from "./lib/workers-run.ts";

const defaults = { workers: 4, requests: 10_000, concurrency: 64, "no-kill": false };
const { "no-kill": noKill, ...plan } = options(defaults);
const { workers, requests, concurrency } = plan;

const began = performance.now();
const run = await workersRun({ ...plan, kill: !noKill });
const seconds = (performance.now() - began) / 1000;

type Name = keyof EngineCounters;
const unequal = [...run.shown].flatMap(([engine, shown]) =>
  COUNTERS.map((name) => ({ engine, name, shown: shown[name], counted: run.counted.get(engine)?.[name] ?? 0 })).filter(
    (row) => row.shown !== row.counted,
  ),
);
table(`${requests} requests over ${workers} workers: the metrics and the truth logs`, [
  ["engine", ...COUNTERS],
  ...[...run.shown].map(([engine, shown]) => [`${engine} metrics`, ...COUNTERS.map((name) => shown[name])]),
  ...[...run.counted].map(([engine, counted]) => [`${engine} logs`, ...COUNTERS.map((name) => counted[name])]),
]);

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const outcome = (name: string) => run.last.get(`understudy_requests_total{outcome="${name}"}`) ?? 0;
const aborts = outcome("abort");
const abortsInLogs = sum(run.lives.map((life) => life.aborts));
const notCounted = requests - sum(["stop", "length", "abort", "refused", "error"].map(outcome));
const died = run.lives.flatMap((life) => {
  if (life.died === null) return [];
  const { engines, signal, outcomes } = life.died;
  const of = (which: "counted" | "written", name: Name) => sum([...life[which].values()].map((each) => each[name]));
  const withoutRow = (name: Name) => of("counted", name) - of("written", name);
  return [
    {
      ...{ worker: life.worker, signal, outcomes },
      running: sum(engines.map((engine) => engine.running)),
      waiting: sum(engines.map((engine) => engine.waiting)),
      endedWithoutRow: outcomes.stop + outcomes.length + outcomes.abort - life.rows.length,
      tokensWithoutRow: withoutRow("outputTokens"),
      stepsWithoutRow: withoutRow("steps"),
    },
  ];
});
table("requests lost with a killed worker", [
  ["worker", "running", "waiting", "ended, row not written", "tokens without row", "steps without row"],
  ...died.map(({ worker, signal, outcomes, ...lost }) => [`${worker} ${signal}`, ...Object.values(lost)]),
]);
const { complete, left, refused, cut } = run.endings;
table("outcomes of requests", [
  ["", "complete", "client left", "refused", "cut or not counted"],
  ["clients", complete, left, refused, cut],
  ["understudy_requests_total", outcome("stop") + outcome("length"), aborts, outcome("refused"), notCounted],
]);
console.log();
note(`${run.scrapes} scrapes in ${seconds.toFixed(1)} s, ${(requests / seconds).toFixed(0)} requests/s`);
const hold = bars(
  ["counters that differ from the truth logs", unequal.length, 0, "counters"],
  ["aborts that differ from the truth logs", Math.abs(aborts - abortsInLogs), 0, "requests"],
  ["counters that fell between two scrapes", run.fell.length, 0, "counters"],
);
for (const fault of [...unequal.map((row) => JSON.stringify(row)), ...run.fell].slice(0, 10)) note(`  ${fault}`);

const restarts = run.last.get("understudy_worker_restarts_total");
save("workers", {
  ...{ workers, requests, concurrency, seconds, scrapes: run.scrapes, restarts, unequal: unequal.length },
  ...{ aborts, abortsInLogs, fell: run.fell.length, endings: run.endings, notCounted, died },
});
process.exit(hold ? 0 : 1);
