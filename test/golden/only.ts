/** Reads the LIST of `--only`, which names recordings, for the commands that play recordings. */
import { existsSync, readFileSync } from "node:fs";

/** Returns the names in LIST: a file with a name per line, where a `#` starts a comment, or names separated by commas. */
export function namesOf(list: string): ReadonlySet<string> {
  const text = existsSync(list) ? readFileSync(list, "utf8").replace(/#.*$/gm, "") : list;
  return new Set(text.split(/[\s,]+/).filter(Boolean));
}
