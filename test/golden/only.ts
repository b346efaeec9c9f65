/** Which recordings does the LIST of `--only` name? What the commands that play recordings have in common. */
import { existsSync, readFileSync } from "node:fs";

/** LIST is a file with a name per line (what follows a `#` is a comment), or names separated by commas. */
export function namesOf(list: string): ReadonlySet<string> {
  const text = existsSync(list) ? readFileSync(list, "utf8").replace(/#.*$/gm, "") : list;
  return new Set(text.split(/[\s,]+/).filter(Boolean));
}
