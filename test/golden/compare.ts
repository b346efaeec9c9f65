/** Where does our run of a trace first differ from the recording? Every key of every row counts but the informative ones. */
import { Runner } from "./runner.ts";
import type { Row, Trace } from "./trace.ts";

/** Keys that the format calls informative: turns of the recording's driver loop. */
const INFORMATIVE: Readonly<Record<string, readonly string[]>> = { s: ["tick"], end: ["ticks"] };

export interface Difference {
  readonly index: number;
  readonly recorded: Row;
  readonly ours: Row | { readonly error: string };
  /** Keys that differ. */
  readonly keys: readonly string[];
}

/** The first difference, or null: decision-identical. */
export function firstDifference(trace: Trace, module: WebAssembly.Module): Difference | null {
  const runner = new Runner(trace, module);
  for (const [index, recorded] of trace.rows.entries()) {
    let ours: Row;
    try {
      ours = runner.run(recorded);
    } catch (error) {
      return { index, recorded, ours: { error: String(error) }, keys: ["error"] };
    }
    const keys = differingKeys(recorded, ours);
    if (keys.length) return { index, recorded, ours, keys };
  }
  return null;
}

export function comparedKeys(row: Row): string[] {
  const informative = INFORMATIVE[row.t] ?? [];
  return Object.keys(row).filter((key) => !informative.includes(key));
}

function differingKeys(recorded: Row, ours: Row): string[] {
  const keys = new Set([...comparedKeys(recorded), ...comparedKeys(ours)]);
  return [...keys].filter((key) => JSON.stringify(recorded[key]) !== JSON.stringify(ours[key]));
}

/** The step side by side, for eyes. */
export function sideBySide({ index, recorded, ours, keys }: Difference): string {
  const at = `row ${index}: ${recorded.t}${"k" in recorded ? ` ${recorded.k}` : ""}`;
  const all = [...new Set([...Object.keys(recorded), ...Object.keys(ours)])];
  const lines = all.flatMap((key) => {
    const theirs = JSON.stringify(recorded[key]) ?? "–";
    const mine = JSON.stringify((ours as Row)[key]) ?? "–";
    return keys.includes(key) ? [`  ${key}`, `    recorded ${theirs}`, `    ours     ${mine}`] : [`  ${key} ${theirs}`];
  });
  return [`first difference in ${at}`, ...lines].join("\n");
}
