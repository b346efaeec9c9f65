/** What came of a case? The verdict, and what it rests on: what the client said, what stood on the wire. */
import type { Clock } from "../../base/clock.ts";
import type { StressCase } from "./cases.ts";
import type { SeenAnswer } from "./seen.ts";
import type { CaseRun, StressServer } from "./server.ts";
import type { TimelineAnswer } from "./timeline.ts";
import { isRed, NOTHING_READ, type StressVerdict, verdictOf } from "./verdict.ts";

export interface CaseResult {
  readonly id: string;
  /** Orders the case again. */
  readonly plan: string;
  /** What the plan's faults write. */
  readonly fault: string;
  readonly verdict: StressVerdict;
  /** Why, in sentences. */
  readonly why: string;
  /** Who says what was seen; "wire": nobody, the wire alone was judged. */
  readonly by: "client" | "wire";
  readonly requests: number;
  /** Between its requests, milliseconds. */
  readonly gapsMs: readonly number[];
  readonly connections: { readonly opened: number; readonly open: number };
  readonly ms: number;
  /** The last of what the client said; null: nothing. */
  readonly said: Pick<SeenAnswer, "text" | "finish" | "usage" | "toolCalls" | "reasoning" | "error" | "cost"> | null;
  /** What left, in red cases. */
  readonly wire: readonly TimelineAnswer[];
}

/** What all cases of a run are judged by. */
export interface Judging {
  readonly server: StressServer;
  readonly clock: Clock;
  /** How often the client says that it tries again; null: it says nothing of it. */
  readonly retries: number | null;
}

/** After a case's end, before its connections are looked at. */
const LEAK_US = 1e6;
/** Characters of a text that are kept. */
const TEXT_MOST = 4000;

/** `seen`: each time that the client asked; null: nobody says. `ms`: how long it took. */
export async function caseResult(
  { server, clock, retries }: Judging,
  one: StressCase,
  run: CaseRun,
  seen: readonly SeenAnswer[] | null,
  growth: ["slow" | "memory", string] | null,
  ms: number,
): Promise<CaseResult> {
  if (server.wireOf(run).unfinished > 0) await stressPause(clock, LEAK_US);
  const wire = server.wireOf(run);
  const reading = run.reading ?? NOTHING_READ;
  const judged = verdictOf({ one, reading, reached: run.reached ?? true, seen, wire, retries, growth });
  const { requests } = wire;
  const last = seen?.at(-1);
  return {
    id: one.id,
    plan: one.line,
    fault: one.what,
    ...judged,
    by: seen === null ? "wire" : "client",
    requests: requests.length,
    gapsMs: requests.slice(1).map(({ atUs }, at) => Math.round((atUs - requests[at]!.atUs) / 1000)),
    connections: { opened: new Set(requests.map(({ port }) => port)).size, open: wire.open },
    ms: Math.round(ms),
    said: last === undefined ? null : saidOf(last),
    wire: isRed(judged.verdict) ? run.answers : [],
  };
}

function saidOf({
  text,
  finish,
  usage,
  toolCalls,
  reasoning,
  error,
  cost,
}: SeenAnswer): NonNullable<CaseResult["said"]> {
  return { text: text.slice(0, TEXT_MOST), finish, usage, toolCalls, reasoning, error, cost };
}

export const stressPause = (clock: Clock, us: number) =>
  new Promise<void>((resolve) => void clock.at(clock.now() + us, resolve));
