/** Why were steps late? The server's own truth says it (docs/reference/truth-log.md): asked for after a run, by cause. */
import { table } from "../lib/report.ts";

/** A step that began more than a millisecond late. */
export interface LateStep {
  readonly dueUs: number;
  readonly lateUs: number;
  readonly cause: string;
}

const path = (port: number, query: string) => `http://127.0.0.1:${port}/understudy/requests?${query}`;

/** Where the run begins, for `lateSteps`; null: the server keeps no truth. */
export async function cursor(port: number): Promise<string | null> {
  const answer = await fetch(path(port, "since=end"));
  const lines = (await answer.text()).trimEnd().split("\n");
  return answer.ok ? JSON.parse(lines.at(-1)!).next : null;
}

/** The late ones of all steps that requests named which ended since; null: the server keeps no truth. */
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

export interface ByCause {
  readonly cause: string;
  readonly steps: number;
  readonly meanUs: number;
  readonly maxUs: number;
}

/** The most frequent first. */
export function byCause(late: readonly LateStep[]): ByCause[] {
  const causes = Map.groupBy(late, ({ cause }) => cause);
  return [...causes]
    .map(([cause, steps]) => {
      const us = steps.map(({ lateUs }) => lateUs);
      return {
        cause,
        steps: us.length,
        meanUs: us.reduce((sum, one) => sum + one, 0) / us.length,
        maxUs: Math.max(...us),
      };
    })
    .toSorted((a, b) => b.steps - a.steps);
}

/** `steps`: of which they are the late ones. */
export function showCauses(causes: readonly ByCause[] | null, steps: number): void {
  if (causes === null) return;
  const late = causes.reduce((sum, one) => sum + one.steps, 0);
  if (late === 0) console.log(`  none of ${steps} steps began more than 1 ms late`);
  else {
    table(`Late steps, ${late} of ${steps}, by likely cause, µs`, [
      ["", "steps", "mean", "max"],
      ...causes.map(({ cause, steps, meanUs, maxUs }) => [cause, steps, meanUs, maxUs]),
    ]);
  }
}
