/** Runs a client through its cases, several at the same time. Each case has its own URL and gets a verdict. */
import type { Clock } from "../../base/clock.ts";
import type { StressCase } from "./cases.ts";
import { growthVerdict, type MeasuredRun } from "./growth.ts";
import { type CaseResult, caseResult, type JudgeContext, stressPause } from "./result.ts";
import { type ClientReport, clientReport } from "./seen.ts";
import { type CaseRun, StressServer } from "./server.ts";

export interface StressAsk {
  readonly url: string;
  readonly id: string;
  /** Aborted when the case no longer waits for the client. */
  readonly signal: AbortSignal;
  /** True if the client is asked again in this case, so it must keep its connections. */
  readonly more: boolean;
  /** True if the answer calls tools, so the request should offer them. */
  readonly withTools: boolean;
}

/** Sends one request to the URL of a case and reports the answer. If it throws, the client counts as crashed. */
export type StressClient = (request: StressAsk) => Promise<ClientReport>;

export interface StressSettings {
  readonly cases: readonly StressCase[];
  /** Number of cases that run at the same time. */
  readonly concurrency: number;
  /** Milliseconds after the last byte within which the client must end. */
  readonly hangMs: number;
  readonly retries: number | null;
  readonly port: number;
  readonly clock: Clock;
  readonly epochSeconds: () => number;
}

/** Longest time of a case in microseconds, even if bytes keep coming. */
const CASE_MOST_US = 60e6;
/** Microseconds that a client may take to stop after the abort. */
const GRACE_US = 5e6;
const LOOK_US = 50_000;
const HUNG = clientReport({ ended: "hung" });

export async function stressRun(
  client: StressClient,
  settings: StressSettings,
  onResult: (result: CaseResult) => void,
): Promise<CaseResult[]> {
  const { cases, concurrency, clock, port, epochSeconds, retries } = settings;
  const server = new StressServer(port, clock, epochSeconds);
  const judging: JudgeContext = { server, clock, retries };
  const results: CaseResult[] = [];
  const waiting = cases.map((stressCase, at) => ({ stressCase, at }));
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const result = await runCase(client, settings, judging, next.stressCase);
      results[next.at] = result;
      onResult(result);
    }
  };
  try {
    await Promise.all(Array.from({ length: concurrency }, work));
  } finally {
    await server.close();
  }
  return results;
}

async function runCase(
  client: StressClient,
  settings: StressSettings,
  judging: JudgeContext,
  stressCase: StressCase,
): Promise<CaseResult> {
  const beganUs = settings.clock.now();
  const asker: Asker = { client, settings, server: judging.server, over: new AbortController() };
  const measured = async (less: StressCase): Promise<MeasuredRun> => {
    const { run, reports } = await askAll(asker, less);
    return { bytes: run.bytes, cost: reports[0]!.cost };
  };
  const clean = stressCase.less && (await measured(stressCase.less.clean));
  const small = stressCase.less && (await measured(stressCase.less.small));
  const { run, reports } = await askAll(asker, stressCase);
  const growth = clean && small && growthVerdict(clean, small, { bytes: run.bytes, cost: reports[0]!.cost });
  const result = await caseResult(judging, stressCase, run, reports, growth, (settings.clock.now() - beganUs) / 1000);
  // Abort only now, because a client closes its open connections then, and open connections are part of the verdict.
  asker.over.abort();
  return result;
}

interface Asker {
  readonly client: StressClient;
  readonly settings: StressSettings;
  readonly server: StressServer;
  readonly over: AbortController;
}

/** Asks the client as often as the case requires. */
async function askAll(
  asker: Asker,
  stressCase: StressCase,
): Promise<{ readonly run: CaseRun; readonly reports: readonly ClientReport[] }> {
  const run = asker.server.open(stressCase);
  if (stressCase.atOnce)
    return {
      run,
      reports: await Promise.all(Array.from({ length: stressCase.asks }, () => askOnce(asker, run, false))),
    };
  const reports: ClientReport[] = [];
  for (let left = stressCase.asks; left > 0 && !asker.over.signal.aborted; left--)
    reports.push(await askOnce(asker, run, left > 1));
  return { run, reports };
}

async function askOnce({ client, settings, server, over }: Asker, run: CaseRun, more: boolean): Promise<ClientReport> {
  const { id, withTools } = run.stressCase;
  const answered = new AbortController();
  const answer = client({ url: server.urlOf(run.stressCase), id, signal: over.signal, more, withTools }).catch(
    (why: unknown) => clientReport({ ended: "crashed", error: why instanceof Error ? why.message : String(why) }),
  );
  const report = await Promise.race([answer, hung(run, settings, answered.signal)]);
  answered.abort();
  if (report.ended !== "hung") return report;
  over.abort();
  await Promise.race([answer, stressPause(settings.clock, GRACE_US)]);
  return report;
}

/** Resolves when the last byte was sent too long ago and no more is to come. */
async function hung(run: CaseRun, { clock, hangMs }: StressSettings, over: AbortSignal): Promise<ClientReport> {
  const beganUs = clock.now();
  while (!over.aborted) {
    await stressPause(clock, LOOK_US);
    const nowUs = clock.now();
    const isQuiet = run.lastUs > beganUs && nowUs - run.lastUs > hangMs * 1000;
    if (isQuiet || nowUs - beganUs > CASE_MOST_US) return HUNG;
  }
  return HUNG;
}
