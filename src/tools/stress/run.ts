/** How does a client go through its cases? Some at once, each with a server's address of its own, and a verdict each. */
import type { Clock } from "../../base/clock.ts";
import type { StressCase } from "./cases.ts";
import { growthVerdict, type MeasuredRun } from "./growth.ts";
import { type CaseResult, caseResult, type Judging, stressPause } from "./result.ts";
import { type SeenAnswer, seenAnswer } from "./seen.ts";
import { type CaseRun, StressServer } from "./server.ts";

export interface StressAsk {
  readonly url: string;
  readonly id: string;
  /** Nobody waits any more. */
  readonly signal: AbortSignal;
  /** Another ask follows in the case: connections are to stay. */
  readonly more: boolean;
  /** The answer calls tools, which the request should offer. */
  readonly withTools: boolean;
}

/** Asks once for the answer under the case's address, and says what it saw. What it throws is a crash. */
export type StressClient = (asked: StressAsk) => Promise<SeenAnswer>;

export interface StressSettings {
  readonly cases: readonly StressCase[];
  /** Cases at once. */
  readonly concurrency: number;
  /** So long after its last byte a case must have ended. */
  readonly hangMs: number;
  readonly retries: number | null;
  readonly port: number;
  readonly clock: Clock;
  readonly epochSeconds: () => number;
}

/** A case that nothing ends by itself. */
const CASE_MOST_US = 60e6;
/** A client that is told to stop may take so long. */
const GRACE_US = 5e6;
const LOOK_US = 50_000;
const HUNG = seenAnswer({ ended: "hung" });

export async function stressRun(
  client: StressClient,
  settings: StressSettings,
  told: (result: CaseResult) => void,
): Promise<CaseResult[]> {
  const { cases, concurrency, clock, port, epochSeconds, retries } = settings;
  const server = new StressServer(port, clock, epochSeconds);
  const judging: Judging = { server, clock, retries };
  const results: CaseResult[] = [];
  const waiting = cases.map((one, at) => ({ one, at }));
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const result = await runCase(client, settings, judging, next.one);
      results[next.at] = result;
      told(result);
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
  judging: Judging,
  one: StressCase,
): Promise<CaseResult> {
  const beganUs = settings.clock.now();
  const asker: Asker = { client, settings, server: judging.server, over: new AbortController() };
  const measured = async (less: StressCase): Promise<MeasuredRun> => {
    const { run, seen } = await askAll(asker, less);
    return { bytes: run.bytes, cost: seen[0]!.cost };
  };
  const clean = one.less && (await measured(one.less.clean));
  const small = one.less && (await measured(one.less.small));
  const { run, seen } = await askAll(asker, one);
  const growth = clean && small && growthVerdict(clean, small, { bytes: run.bytes, cost: seen[0]!.cost });
  const result = await caseResult(judging, one, run, seen, growth, (settings.clock.now() - beganUs) / 1000);
  // Not before: a client would close what it has left open.
  asker.over.abort();
  return result;
}

interface Asker {
  readonly client: StressClient;
  readonly settings: StressSettings;
  readonly server: StressServer;
  readonly over: AbortController;
}

/** Has the client ask as often as the case wants. */
async function askAll(
  asker: Asker,
  one: StressCase,
): Promise<{ readonly run: CaseRun; readonly seen: readonly SeenAnswer[] }> {
  const run = asker.server.open(one);
  if (one.atOnce)
    return { run, seen: await Promise.all(Array.from({ length: one.asks }, () => askOnce(asker, run, false))) };
  const seen: SeenAnswer[] = [];
  for (let left = one.asks; left > 0 && !asker.over.signal.aborted; left--)
    seen.push(await askOnce(asker, run, left > 1));
  return { run, seen };
}

async function askOnce({ client, settings, server, over }: Asker, run: CaseRun, more: boolean): Promise<SeenAnswer> {
  const { id, withTools } = run.one;
  const answered = new AbortController();
  const asked = client({ url: server.urlOf(run.one), id, signal: over.signal, more, withTools }).catch((why: unknown) =>
    seenAnswer({ ended: "crashed", error: why instanceof Error ? why.message : String(why) }),
  );
  const seen = await Promise.race([asked, hung(run, settings, answered.signal)]);
  answered.abort();
  if (seen.ended !== "hung") return seen;
  over.abort();
  await Promise.race([asked, stressPause(settings.clock, GRACE_US)]);
  return seen;
}

/** Settles when nothing was sent for too long, and nothing is to come. */
async function hung(run: CaseRun, { clock, hangMs }: StressSettings, over: AbortSignal): Promise<SeenAnswer> {
  const beganUs = clock.now();
  while (!over.aborted) {
    await stressPause(clock, LOOK_US);
    const nowUs = clock.now();
    const isQuiet = run.lastUs > beganUs && nowUs - run.lastUs > hangMs * 1000;
    if (isQuiet || nowUs - beganUs > CASE_MOST_US) return HUNG;
  }
  return HUNG;
}
