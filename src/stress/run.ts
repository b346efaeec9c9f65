/** How does a client go through its cases? Some at once, each with a server's address of its own, and a verdict each. */
import type { Clock } from "../host/clock.ts";
import type { StressCase } from "./cases.ts";
import type { SeenAnswer } from "./seen.ts";
import { type CaseRun, StressServer } from "./server.ts";
import { type StressVerdict, verdictOf } from "./verdict.ts";

/** Asks once for the answer under the case's address, and says what it saw. */
export type StressClient = (asked: {
  readonly url: string;
  readonly id: string;
  readonly signal: AbortSignal;
}) => Promise<SeenAnswer>;

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

export interface CaseResult {
  readonly id: string;
  /** Orders the case again. */
  readonly plan: string;
  readonly verdict: StressVerdict;
  readonly why: string;
  readonly requests: number;
  readonly ms: number;
}

/** After a case's end, before its connections are looked at. */
const LEAK_US = 1e6;
/** A case that nothing ends by itself. */
const CASE_MOST_US = 60e6;
const LOOK_US = 50_000;
const HUNG: SeenAnswer = { text: "", finish: null, usage: null, error: null, own: null, ended: "hung" };
const CRASHED: SeenAnswer = { ...HUNG, ended: "crashed" };

export async function stressRun(
  client: StressClient,
  settings: StressSettings,
  told: (result: CaseResult) => void,
): Promise<CaseResult[]> {
  const { cases, concurrency, clock, port, epochSeconds } = settings;
  const server = new StressServer(port, clock, epochSeconds);
  const results: CaseResult[] = [];
  const waiting = cases.map((one, at) => ({ one, at }));
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const result = await runCase(client, settings, server, next.one);
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
  server: StressServer,
  one: StressCase,
): Promise<CaseResult> {
  const { clock, retries } = settings;
  const beganUs = clock.now();
  const run = server.open(one);
  const over = new AbortController();
  const asked = client({ url: server.urlOf(one), id: one.id, signal: over.signal }).catch(() => CRASHED);
  const seen = await Promise.race([asked, hung(run, settings)]);
  const endUs = clock.now();
  over.abort();
  if (seen.ended === "hung") await asked;
  if (server.openConnections(run) > 0) await pause(clock, LEAK_US);
  const wire = { requests: run.requests, open: server.openConnections(run) };
  const reading = run.reading ?? { text: "", failure: null, usage: null };
  const judged = verdictOf({ one, reading, reached: run.reached, seen, wire, retries });
  return {
    id: one.id,
    plan: one.line,
    ...judged,
    requests: run.requests.length,
    ms: Math.round((endUs - beganUs) / 1000),
  };
}

/** Settles when nothing was sent for too long, and nothing is to come. */
async function hung(run: CaseRun, { clock, hangMs }: StressSettings): Promise<SeenAnswer> {
  const beganUs = clock.now();
  for (;;) {
    await pause(clock, LOOK_US);
    const nowUs = clock.now();
    const isQuiet = run.lastUs > 0 && nowUs - run.lastUs > hangMs * 1000;
    if (isQuiet || nowUs - beganUs > CASE_MOST_US) return HUNG;
  }
}

const pause = (clock: Clock, us: number) => new Promise<void>((resolve) => void clock.at(clock.now() + us, resolve));
