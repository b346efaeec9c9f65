/** The result of a case: the verdict and its evidence, which is the client's report and the record of the wire. */
import type { Clock } from "../../base/clock.ts";
import type { StressCase } from "./cases.ts";
import type { ClientReport } from "./seen.ts";
import type { CaseRun, StressServer } from "./server.ts";
import type { TimelineAnswer } from "./timeline.ts";
import { isRed, NOTHING_READ, type StressVerdict, verdictOf } from "./verdict.ts";

export interface CaseResult {
  readonly id: string;
  /** Text of the plan, which repeats the case. */
  readonly plan: string;
  /** The bytes that the plan's faults produce. */
  readonly fault: string;
  readonly verdict: StressVerdict;
  /** Reason for the verdict, in sentences. */
  readonly why: string;
  /** Source of the evidence. "wire": the client reported nothing, and only the wire was judged. */
  readonly by: "client" | "wire";
  readonly requests: number;
  /** Milliseconds between successive requests. */
  readonly gapsMs: readonly number[];
  readonly connections: { readonly opened: number; readonly open: number };
  readonly ms: number;
  /** The client's last report. Null if it reported nothing. */
  readonly said: Omit<ClientReport, "own" | "ended"> | null;
  /** The answers as they were sent. Empty unless the verdict is red. */
  readonly wire: readonly TimelineAnswer[];
}

/** Dependencies and settings that all cases of a run are judged with. */
export interface JudgeContext {
  readonly server: StressServer;
  readonly clock: Clock;
  /** Maximum number of retries that the client promises. Null if unknown. */
  readonly retries: number | null;
}

/** Microseconds between the end of a case and the search for connections that were left open. */
const LEAK_US = 1e6;
/** Maximum number of characters of a text that are kept. */
const TEXT_MOST = 4000;

/**
 * Judges a case. `seen`: the client's report for each time it asked, or null if it reports nothing. `ms`: duration of the case
 * in milliseconds.
 */
export async function caseResult(
  { server, clock, retries }: JudgeContext,
  stressCase: StressCase,
  run: CaseRun,
  seen: readonly ClientReport[] | null,
  growth: ["slow" | "memory", string] | null,
  ms: number,
): Promise<CaseResult> {
  if (server.wireOf(run).unfinished > 0) await stressPause(clock, LEAK_US);
  const wire = server.wireOf(run);
  const reading = run.reading ?? NOTHING_READ;
  const verdict = verdictOf({ stressCase, reading, reached: run.reached ?? true, seen, wire, retries, growth });
  const { requests } = wire;
  const last = seen?.at(-1);
  return {
    id: stressCase.id,
    plan: stressCase.line,
    fault: stressCase.what,
    ...verdict,
    by: seen === null ? "wire" : "client",
    requests: requests.length,
    gapsMs: requests.slice(1).map(({ atUs }, at) => Math.round((atUs - requests[at]!.atUs) / 1000)),
    connections: { opened: new Set(requests.map(({ port }) => port)).size, open: wire.open },
    ms: Math.round(ms),
    said: last === undefined ? null : reportOf(last),
    wire: isRed(verdict.verdict) ? run.answers : [],
  };
}

function reportOf({ text, own: _own, ended: _ended, ...others }: ClientReport): NonNullable<CaseResult["said"]> {
  return { text: text.slice(0, TEXT_MOST), ...others };
}

export const stressPause = (clock: Clock, us: number) =>
  new Promise<void>((resolve) => void clock.at(clock.now() + us, resolve));
