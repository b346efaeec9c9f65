/** `understudy stress`: gives a client disturbed answers, and reports the faults that it does not handle. */

import { epochSeconds, WallClock } from "../../base/clock.ts";
import { whenOrphaned } from "../../base/parent.ts";
import { printableJson } from "../../base/printable.ts";
import { textAtMost } from "../../base/read-at-most.ts";
import { BrokenPlan } from "../../faults/parse.ts";
import { distinct, type StressCase, stressCase, stressCases } from "../../tools/stress/cases.ts";
import { junitOf } from "../../tools/stress/junit.ts";
import { stressPage } from "../../tools/stress/page.ts";
import { randomPlan } from "../../tools/stress/random-plans.ts";
import type { CaseResult } from "../../tools/stress/result.ts";
import { type StressSettings, stressRun } from "../../tools/stress/run.ts";
import { shrinkPlan } from "../../tools/stress/shrink.ts";
import { type ShrunkCase, stressTable, unexpected } from "../../tools/stress/table.ts";
import { isRed } from "../../tools/stress/verdict.ts";
import { stressWait } from "../../tools/stress/wait.ts";
import { TraceError } from "../../workloads/trace.ts";
import { onInterrupt } from "../interrupt.ts";
import { takeOptions } from "../options/take-options.ts";
import { OutFile } from "../out-file.ts";
import { printText } from "../print.ts";
import { takeBackReady, writeReady } from "../ready-file.ts";
import { refuser } from "../refuse.ts";
import { TerminalLine } from "../terminal-line.ts";
import { replayCommand } from "./replay-command.ts";
import { type ChosenClient, chosenClient, drivers } from "./stress-clients.ts";
import { type StressValues, stressHelp, stressOptions } from "./stress-options.ts";
import { StressProgress } from "./stress-progress.ts";

const refuse = refuser("stress");
const HANG_S = 4;
/** Maximum size of the file of --expect, in bytes. */
const EXPECTED_MOST = 2 ** 26;
const CONCURRENCY = 4;
/** Maximum number of faults in a random plan. */
const RANDOM_FAULTS = 6;
/** Upper bound of the seed of a plan, exclusive. */
const SEEDS = 2 ** 32;
/** Maximum number of runs to shrink one failed plan. */
const SHRINK_RUNS = 80;
/** Maximum number of failed plans that are shrunk. */
const SHRUNK_MOST = 10;

export async function runStress(argv: readonly string[]): Promise<void> {
  const split = argv.indexOf("--");
  const command = split === -1 ? [] : argv.slice(split + 1);
  const taken = takeOptions(stressOptions, split === -1 ? argv : argv.slice(0, split));
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return printText(stressHelp());
  if (values.client === "list") return printText(["reference", ...Object.keys(drivers())].join("\n"));
  if (rest.length > 0) return refuse(`${rest[0]}: unknown (understudy stress --help); write the command after --`);
  const ways = [command.length > 0, values.client !== undefined, values.wait !== undefined].filter(Boolean).length;
  if (ways !== 1) return refuse("needs one of -- COMMAND, --client NAME and --wait TIME (understudy stress --help)");
  try {
    await stress(command, values);
  } catch (error) {
    if (error instanceof BrokenPlan) return refuse(`--replay ${values.replay}: ${error.message}`);
    if (error instanceof BrokenExpectation) return refuse(`--expect ${values.expect}: ${error.message}`);
    if (error instanceof TraceError) return refuse(error.message);
    if ((error as { code?: string }).code === "EADDRINUSE")
      return refuse(`--port ${values.port}: is in use; choose another port`);
    throw error;
  }
}

class BrokenExpectation extends Error {}

const NO_CASE =
  "--faults: none of these faults affects HTTP/1.1, over which stress serves its cases (docs/reference/faults.md)";

async function stress(command: readonly string[], values: StressValues): Promise<void> {
  const cases = casesOf(values);
  if (cases.length === 0) return refuse(NO_CASE);
  const unready = takeBackReady(values["ready-file"]);
  if (unready) return refuse(unready);
  const expected = values.expect === undefined ? null : expectations(values.expect);
  const outs = [values.json, values.junit, values.html].map((path) => (path === undefined ? null : new OutFile(path)));
  const clock = new WallClock();
  const settings = { cases, retries: values.retries ?? null, port: values.port ?? 0, clock, epochSeconds };
  const chosen = values.wait === undefined ? chosenClient(command, values, clock) : null;
  if (typeof chosen === "string") {
    clock.close();
    return refuse(chosen);
  }
  const run = chosen === null ? serveCases(values.wait!, values, settings) : runClient(chosen, values, settings);
  const outcome = await run.finally(() => {
    chosen?.close();
    clock.close();
  });
  report(outcome, expected, outs, (plan) => replayCommand(values, command, plan));
}

interface StressOutcome {
  readonly name: string;
  readonly results: readonly CaseResult[];
  readonly shrunk: readonly ShrunkCase[];
  readonly notCalled: number;
}

function report(
  { name, results, shrunk, notCalled }: StressOutcome,
  expected: KnownVerdicts,
  outs: readonly (OutFile | null)[],
  again: (plan: string) => string,
): void {
  const [json, junit, html] = outs;
  const repeatable = results.map((result) => ({ ...result, replay: again(result.plan) }));
  json?.end(`${printableJson({ client: name, results: repeatable, shrunk, notCalled }, 1)}\n`);
  junit?.end(junitOf(results, expected));
  html?.end(stressPage(results, `understudy stress: ${name}`, again));
  printText(stressTable(results, again, shrunk, notCalled));
  const news = expected === null ? [] : unexpected(results, expected);
  for (const line of news) printText(line);
  const neverRan = results.every(({ verdict }) => verdict === "never-called");
  const isRedRun = expected === null ? results.some(({ verdict }) => isRed(verdict)) : news.length > 0;
  process.exitCode = neverRan ? 2 : isRedRun ? 1 : 0;
}

/** Runs the client through all cases, and shrinks the random plans that failed. */
async function runClient(
  chosen: ChosenClient,
  { concurrency = CONCURRENCY, hang = HANG_S, random, seed = 1 }: StressValues,
  base: Omit<StressSettings, "concurrency" | "hangMs">,
): Promise<StressOutcome> {
  const settings = { ...base, concurrency, hangMs: hang * 1000, retries: chosen.retries };
  const run = (cases: readonly StressCase[], told = (_: CaseResult) => {}) =>
    stressRun(chosen.client, { ...settings, cases }, told);
  const progress = new StressProgress(new TerminalLine());
  const results = await run(base.cases, ({ verdict }) => progress.finished(verdict, base.cases.length));
  const red = random === undefined ? [] : results.filter(({ verdict }) => isRed(verdict));
  const shrunk: ShrunkCase[] = [];
  for (const [at, { plan, verdict }] of red.slice(0, SHRUNK_MOST).entries()) {
    let runs = 0;
    const shows = async (line: string) => {
      progress.shrinking(at + 1, Math.min(red.length, SHRUNK_MOST), ++runs);
      return (await run([stressCase(line, seed)]))[0]!.verdict === verdict;
    };
    shrunk.push({ plan, verdict, ...(await shrinkPlan(plan, shows, SHRINK_RUNS)) });
  }
  progress.clear();
  return { name: chosen.name, results, shrunk, notCalled: 0 };
}

/** Serves the cases to a test suite of the user, which requests them, until the time of the run is over. */
async function serveCases(
  seconds: number,
  values: StressValues,
  settings: Omit<StressSettings, "concurrency" | "hangMs">,
): Promise<StressOutcome> {
  const over = new AbortController();
  const takeOff = onInterrupt(() => over.abort());
  if (values["exit-with-parent"]) whenOrphaned(settings.clock, () => over.abort());
  const listening = (url: string) => {
    printText(
      `understudy stress: ${settings.cases.length} cases on ${url}; GET /cases lists them (docs/how-to/stress.md)`,
    );
    const ready = values["ready-file"];
    if (ready !== undefined) writeReady(ready, { url, pid: process.pid, cases: `${url}/cases` });
  };
  const { results, notCalled } = await stressWait({
    ...settings,
    waitMs: seconds * 1000,
    over: over.signal,
    listening,
  });
  takeOff();
  return { name: "--wait", results, shrunk: [], notCalled };
}

function casesOf({ faults, replay, random, seed = 1, seeds = 1 }: StressValues): StressCase[] {
  if (replay !== undefined) return [stressCase(replay, seed)];
  if (random !== undefined)
    return distinct(
      Array.from({ length: random }, (_, i) =>
        stressCase(randomPlan((seed * 1_000_003 + i) % SEEDS, 1, RANDOM_FAULTS), seed),
      ),
    );
  return Array.from({ length: seeds }, (_, i) => stressCases(faults ?? [], seed + i)).flat();
}

/** Expected verdicts, by plan. If null, no failure is expected, so every failed case is an error. */
type KnownVerdicts = ReadonlyMap<string, string> | null;

function expectations(file: string): ReadonlyMap<string, string> {
  try {
    const { results } = JSON.parse(textAtMost(file, EXPECTED_MOST)) as { readonly results: readonly CaseResult[] };
    return new Map(results.map(({ plan, verdict }) => [plan, verdict]));
  } catch (error) {
    throw new BrokenExpectation(`cannot be read (${(error as Error).message}); must be a file of --json`);
  }
}
