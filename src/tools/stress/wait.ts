/** Serves the cases to the user's own test suite, which calls their URLs at any time and may post reports. */
import { parsedJson } from "../../base/json-object.ts";
import type { StressCase } from "./cases.ts";
import { type CaseResult, caseResult, type JudgeContext, stressPause } from "./result.ts";
import type { StressSettings } from "./run.ts";
import { type ClientReport, REPORT_SHAPE, reportIn } from "./seen.ts";
import { type CaseRun, type StressDesk, StressServer } from "./server.ts";
import { isRed } from "./verdict.ts";

export interface WaitSettings extends Omit<StressSettings, "concurrency" | "hangMs"> {
  readonly waitMs: number;
  /** Ends the wait early. */
  readonly over: AbortSignal;
  /** Called with the server's URL when it accepts requests. */
  readonly listening: (url: string) => void;
}

export interface WaitOutcome {
  /** Results of the cases that were called. */
  readonly results: readonly CaseResult[];
  readonly notCalled: number;
}

interface OpenCase {
  readonly stressCase: StressCase;
  readonly run: CaseRun;
  readonly seen: ClientReport[];
  result: CaseResult | null;
}

const LOOK_US = 100_000;

/**
 * Serves the cases, and in addition `GET /cases`, `POST /case/ID/seen` with a client's report, which is answered with the
 * verdict, and `POST /end`. Resolves when every case was judged, or the time is over.
 */
export async function stressWait(settings: WaitSettings): Promise<WaitOutcome> {
  const { clock, epochSeconds, port, retries, waitMs, over, listening } = settings;
  const open = new Map<string, OpenCase>();
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
  const judging: JudgeContext = { server, clock, retries };
  const listed = ({ stressCase }: OpenCase) => ({
    id: stressCase.id,
    plan: stressCase.line,
    fault: stressCase.what,
    url: server.urlOf(stressCase),
    asks: stressCase.asks,
    atOnce: stressCase.atOnce,
    withTools: stressCase.withTools,
  });
  for (const stressCase of settings.cases)
    open.set(stressCase.id, { stressCase, run: server.open(stressCase), seen: [], result: null });
  listening(server.url);
  const endUs = clock.now() + waitMs * 1000;
  const isJudged = () => [...open.values()].every(({ result }) => result !== null);
  while (!ended && !over.aborted && clock.now() < endUs && !isJudged()) await stressPause(clock, LOOK_US);
  const called = [...open.values()].filter(({ run }) => run.requests.length > 0);
  const results = await Promise.all(
    called.map((openCase) => openCase.result ?? caseResult(judging, openCase.stressCase, openCase.run, null, null, 0)),
  );
  await server.close();
  return { results, notCalled: open.size - called.length };
}

async function posted(
  judging: JudgeContext,
  openCase: OpenCase | undefined,
  body: () => Promise<Uint8Array | null>,
): Promise<{ status: number; json: unknown }> {
  const bytes = await body();
  if (openCase === undefined) return { status: 404, json: { error: "no such case; GET /cases lists them" } };
  if (bytes === null) return { status: 413, json: { error: "too large; at most 32 MiB are accepted" } };
  const report = reportIn(parsedJson(Buffer.from(bytes).toString()));
  if (report === null) return { status: 400, json: { error: `must have this shape: ${REPORT_SHAPE}` } };
  openCase.seen.push(report);
  const result = await caseResult(judging, openCase.stressCase, openCase.run, openCase.seen, null, 0);
  if (openCase.seen.length >= openCase.stressCase.asks) openCase.result = result;
  const { verdict, why, requests } = result;
  return { status: 200, json: { verdict, why, isRed: isRed(verdict), requests } };
}
