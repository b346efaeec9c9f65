/**
 * Finds the first row in which our run of a trace differs from the recording. All keys of all rows are compared, except the
 * informative ones.
 */
import type { Recording } from "./recording.ts";
import type { RequestPath } from "./request-path.ts";
import type { Row } from "./trace.ts";

/** Keys that the format calls informative: they count turns of the recording's driver loop. */
const INFORMATIVE: Readonly<Record<string, readonly string[]>> = { s: ["tick"], end: ["ticks"] };

export interface Difference {
  readonly index: number;
  readonly recorded: Row;
  readonly ours: Row | { readonly error: string };
  /** Keys that differ. */
  readonly keys: readonly string[];
}

/** Returns the first difference, or null if all decisions are identical. */
export function firstDifference(
  recording: Recording,
  module: WebAssembly.Module,
  path?: RequestPath,
): Difference | null {
  const runner = recording.start(module, path);
  for (const [index, recorded] of recording.rows.entries()) {
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
  const informative = INFORMATIVE[String(row.t)] ?? [];
  return Object.keys(row).filter((key) => !informative.includes(key));
}

function differingKeys(recorded: Row, ours: Row): string[] {
  const keys = new Set([...comparedKeys(recorded), ...comparedKeys(ours)]);
  return [...keys].filter((key) => JSON.stringify(recorded[key]) !== JSON.stringify(ours[key]));
}

/** Formats both versions of the row for a reader. */
export function sideBySide({ index, recorded, ours, keys }: Difference): string {
  const kind = recorded.t ?? ["s", "u", "abort"].find((key) => key in recorded) ?? "?";
  const number = recorded.k ?? recorded[String(kind)];
  const at = `row ${index}: ${kind}${number === undefined ? "" : ` ${number}`}`;
  const all = [...new Set([...Object.keys(recorded), ...Object.keys(ours)])];
  const lines = all.flatMap((key) => {
    const theirs = JSON.stringify(recorded[key]) ?? "–";
    const mine = JSON.stringify((ours as Row)[key]) ?? "–";
    return keys.includes(key) ? [`  ${key}`, `    recorded ${theirs}`, `    ours     ${mine}`] : [`  ${key} ${theirs}`];
  });
  return [`first difference in ${at}`, ...lines].join("\n");
}
