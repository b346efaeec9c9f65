/** `understudy stress`: a client goes through disturbed answers; the table says which it does not bear. */
import { readFileSync } from "node:fs";
import { BrokenPlan } from "../../faults/parse.ts";
import { epochSeconds, WallClock } from "../../host/clock.ts";
import { takeOptions } from "../../options/take-options.ts";
import { type StressCase, stressCase, stressCases } from "../../stress/cases.ts";
import { commandClient } from "../../stress/command.ts";
import { referenceClient } from "../../stress/reference.ts";
import { type CaseResult, type StressClient, stressRun } from "../../stress/run.ts";
import { stressTable, unexpected } from "../../stress/table.ts";
import { isRed } from "../../stress/verdict.ts";
import { OutFile } from "../out-file.ts";
import { refuser } from "../refuse.ts";
import { type StressValues, stressHelp, stressOptions } from "./stress-options.ts";

const refuse = refuser("stress");
const TIMEOUT_S = 2;
const HANG_S = 4;
const CONCURRENCY = 4;

export async function runStress(argv: readonly string[]): Promise<void> {
  const split = argv.indexOf("--");
  const command = split === -1 ? [] : argv.slice(split + 1);
  const taken = takeOptions(stressOptions, split === -1 ? argv : argv.slice(0, split));
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return console.log(stressHelp());
  if (rest.length > 0) return refuse(`${rest[0]}: unknown (understudy stress --help); the command stands behind --`);
  if (command.length > 0 === (values.client !== undefined))
    return refuse("which client? Either -- COMMAND, or --client reference (understudy stress --help)");
  if (command.length > 0 && Bun.which(command[0]!) === null) return refuse(`-- ${command[0]}: no such program`);
  try {
    await stress(command, values);
  } catch (error) {
    if (error instanceof BrokenPlan) return refuse(`--replay ${values.replay}: ${error.message}`);
    if (error instanceof BrokenExpectation) return refuse(`--expect ${values.expect}: ${error.message}`);
    throw error;
  }
}

class BrokenExpectation extends Error {}

async function stress(command: readonly string[], values: StressValues): Promise<void> {
  const cases = casesOf(values);
  const expected = values.expect === undefined ? null : expectations(values.expect);
  const out = values.json === undefined ? null : new OutFile(values.json);
  const clock = new WallClock();
  const settings = {
    cases,
    concurrency: values.concurrency ?? CONCURRENCY,
    hangMs: (values.hang ?? HANG_S) * 1000,
    retries: values.retries ?? null,
    port: values.port ?? 0,
    clock,
    epochSeconds,
  };
  const results = await stressRun(clientOf(command, values, clock), settings, () => {});
  clock.close();
  out?.end(`${JSON.stringify({ results }, null, 1)}\n`);
  console.log(stressTable(results));
  const news = expected === null ? [] : unexpected(results, expected);
  for (const line of news) console.log(line);
  const neverRan = results.every(({ verdict }) => verdict === "never-called");
  const isRedRun = expected === null ? results.some(({ verdict }) => isRed(verdict)) : news.length > 0;
  process.exitCode = neverRan ? 2 : isRedRun ? 1 : 0;
}

function casesOf({ faults, replay, seed = 1, seeds = 1 }: StressValues): StressCase[] {
  if (replay !== undefined) return [stressCase(replay, seed)];
  return Array.from({ length: seeds }, (_, i) => stressCases(faults ?? [], seed + i)).flat();
}

function clientOf(command: readonly string[], values: StressValues, clock: WallClock): StressClient {
  const timeoutMs = (values.timeout ?? TIMEOUT_S) * 1000;
  if (command.length > 0) return commandClient(command, process.env, timeoutMs);
  const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
  return referenceClient(timer, timeoutMs, values.retries ?? 0);
}

/** Verdicts by plan. */
function expectations(file: string): ReadonlyMap<string, string> {
  try {
    const { results } = JSON.parse(readFileSync(file, "utf8")) as { readonly results: readonly CaseResult[] };
    return new Map(results.map(({ plan, verdict }) => [plan, verdict]));
  } catch (error) {
    throw new BrokenExpectation(`cannot be read (${(error as Error).message}); what --json writes is taken`);
  }
}
