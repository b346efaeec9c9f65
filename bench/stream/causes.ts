/** Reads late steps with their causes from the server's truth (docs/reference/truth-log.md) after a run, and summarizes them. */
import { note, table } from "../lib/bench.ts";

/** A step that began more than a millisecond late. */
interface LateStep {
  readonly dueUs: number;
  readonly lateUs: number;
  readonly cause: string;
}

const path = (port: number, query: string) => `http://127.0.0.1:${port}/understudy/requests?${query}`;

/** Returns the current position in the server's truth, for `lateSteps`. Null if the server keeps no truth. */
export async function cursor(port: number): Promise<string | null> {
  const answer = await fetch(path(port, "since=end"));
  const lines = (await answer.text()).trimEnd().split("\n");
  return answer.ok ? JSON.parse(lines.at(-1)!).next : null;
}

/** Returns the late steps of the requests that ended after `since`. Null if the server keeps no truth. */
export async function lateSteps(port: number, since: string | null): Promise<LateStep[] | null> {
  if (since === null) return null;
  const late = new Map<string, LateStep>();
  for (let [next, more] = [since, true]; more; ) {
    const lines = (await (await fetch(path(port, `since=${next}&limit=10000`))).text()).trimEnd().split("\n");
    for (const text of lines) {
      if (!text.startsWith('{"type":"step"')) continue;
      const { engine, step, dueUs, writeStartUs, rebasedUs = 0, cause } = JSON.parse(text);
      if (cause) late.set(`${engine}/${step}`, { dueUs, lateUs: writeStartUs - dueUs + rebasedUs, cause });
    }
    ({ next, more } = JSON.parse(lines.at(-1)!));
  }
  return [...late.values()];
}

/** Number and lateness of the late steps with one cause. */
interface CauseSummary {
  readonly cause: string;
  readonly steps: number;
  readonly meanUs: number;
  readonly maxUs: number;
}

/** Groups late steps by cause, the most frequent cause first. Null if the server keeps no truth. */
export function byCause(late: readonly LateStep[] | null): CauseSummary[] | null {
  if (late === null) return null;
  const summaries = Array.from(
    Map.groupBy(late, ({ cause }) => cause),
    ([cause, steps]) => {
      const us = steps.map(({ lateUs }) => lateUs);
      const meanUs = us.reduce((sum, lateUs) => sum + lateUs, 0) / us.length;
      return { cause, steps: us.length, meanUs, maxUs: Math.max(...us) };
    },
  );
  return summaries.sort((a, b) => b.steps - a.steps);
}

/** Prints the causes. `steps`: number of all steps, late or not. */
export function showCauses(causes: readonly CauseSummary[] | null, steps: number): void {
  if (causes === null) return;
  const late = causes.reduce((sum, cause) => sum + cause.steps, 0);
  if (late === 0) note(`none of ${steps} steps began more than 1 ms late`);
  else
    table(`Late steps, ${late} of ${steps}, by likely cause, µs`, [
      ["", "steps", "mean", "max"],
      ...causes.map((cause) => Object.values(cause)),
    ]);
}
