/** How does somebody's own test suite go through the cases? It calls their addresses when it likes, and may post what it saw. */
import type { StressCase } from "./cases.ts";
import { type CaseResult, caseResult, type Judging, stressPause } from "./result.ts";
import type { StressSettings } from "./run.ts";
import { SEEN_SHAPE, type SeenAnswer, seenIn } from "./seen.ts";
import { type CaseRun, type StressDesk, StressServer } from "./server.ts";
import { isRed } from "./verdict.ts";

export interface WaitSettings extends Omit<StressSettings, "concurrency" | "hangMs"> {
  readonly waitMs: number;
  /** Ends the wait before its time. */
  readonly over: AbortSignal;
  /** Told the server's URL when it takes requests. */
  readonly listening: (url: string) => void;
}

export interface Waited {
  /** Cases that were called. */
  readonly results: readonly CaseResult[];
  readonly notCalled: number;
}

interface Open {
  readonly one: StressCase;
  readonly run: CaseRun;
  readonly seen: SeenAnswer[];
  result: CaseResult | null;
}

const LOOK_US = 100_000;

/**
 * Beside the cases: `GET /cases`, `POST /case/ID/seen` with what a client saw, which is answered with the verdict, and
 * `POST /end`. Ends when every case was judged, or the time is over.
 */
export async function stressWait(settings: WaitSettings): Promise<Waited> {
  const { clock, epochSeconds, port, retries, waitMs, over, listening } = settings;
  const open = new Map<string, Open>();
  let ended = false;
  const desk: StressDesk = (method, path, body) => {
    if (path === "/cases" && method === "GET")
      return Promise.resolve({ status: 200, json: [...open.values()].map(listed) });
    if (path === "/end" && method === "POST") {
      ended = true;
      return Promise.resolve({ status: 200, json: {} });
    }
    const id = /^\/case\/([^/]+)\/seen$/.exec(path)?.[1];
    return id === undefined || method !== "POST" ? null : posted(judging, open.get(id), body);
  };
  const server = new StressServer(port, clock, epochSeconds, desk);
  const judging: Judging = { server, clock, retries };
  const listed = ({ one }: Open) => ({
    id: one.id,
    plan: one.line,
    fault: one.what,
    url: server.urlOf(one),
    asks: one.asks,
    atOnce: one.atOnce,
    withTools: one.withTools,
  });
  for (const one of settings.cases) open.set(one.id, { one, run: server.open(one), seen: [], result: null });
  listening(server.url);
  const endUs = clock.now() + waitMs * 1000;
  const isJudged = () => [...open.values()].every(({ result }) => result !== null);
  while (!ended && !over.aborted && clock.now() < endUs && !isJudged()) await stressPause(clock, LOOK_US);
  const called = [...open.values()].filter(({ run }) => run.requests.length > 0);
  const results = await Promise.all(
    called.map((one) => one.result ?? caseResult(judging, one.one, one.run, null, null, 0)),
  );
  await server.close();
  return { results, notCalled: open.size - called.length };
}

async function posted(
  judging: Judging,
  found: Open | undefined,
  body: () => Promise<Uint8Array | null>,
): Promise<{ status: number; json: unknown }> {
  const bytes = await body();
  if (found === undefined) return { status: 404, json: { error: "no such case; GET /cases lists them" } };
  if (bytes === null) return { status: 413, json: { error: "too large; 32 MiB are taken" } };
  const seen = seenIn(parsed(bytes));
  if (seen === null) return { status: 400, json: { error: `not of this shape: ${SEEN_SHAPE}` } };
  found.seen.push(seen);
  const result = await caseResult(judging, found.one, found.run, found.seen, null, 0);
  if (found.seen.length >= found.one.asks) found.result = result;
  const { verdict, why, requests } = result;
  return { status: 200, json: { verdict, why, isRed: isRed(verdict), requests } };
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch {
    return null;
  }
}
