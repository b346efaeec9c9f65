/** Which option carries this name, as a flag without its dashes or as a key of the file? */
import { aliases, ignoredOptions } from "./ignored-flags.ts";
import { type Option, type OptionRow, ownValue } from "./option.ts";
import { serveOptions } from "./serve-options.ts";

export interface FoundOption {
  /** The option's own name. */
  readonly name: string;
  readonly option: Option;
  /** An option of `vllm serve` or trtllm-serve that means nothing here. */
  readonly ignored: boolean;
  /** False for --no-x, and for --disable-x where the option is --enable-x (or the other way round). */
  readonly sets: boolean;
}

/** What one role's command line and file have beside the options that all roles have. */
export interface RoleNames {
  /** Second names. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Options that mean nothing here. */
  readonly ignored: Readonly<Record<string, Option>>;
}

const NONE: RoleNames = { aliases: {}, ignored: {} };

const rows: Readonly<Record<string, OptionRow>> = serveOptions;

/** `a_b` and `a-b` are the same name. What follows a dot is a key inside a JSON value, which only ignored options have. */
export function lookup(written: string, more: RoleNames = NONE): FoundOption | undefined {
  const [head = "", ...keys] = written.split(".");
  const name = head.replaceAll("_", "-");
  const found = named(name, more) ?? negated(name, more);
  return keys.length > 0 && !found?.ignored ? undefined : found;
}

function named(name: string, more: RoleNames, sets = true): FoundOption | undefined {
  const own = ownValue(aliases, name) ?? ownValue(more.aliases, name) ?? name;
  if (Object.hasOwn(rows, own)) return { name: own, option: rows[own]!, ignored: false, sets };
  if (Object.hasOwn(ignoredOptions, own)) return { name: own, option: ignoredOptions[own]!, ignored: true, sets };
  if (Object.hasOwn(more.ignored, own)) return { name: own, option: more.ignored[own]!, ignored: true, sets };
  return undefined;
}

/** vLLM (`utils/argparse_utils.py`) pairs --enable-x with --disable-x besides --no-…. */
function negated(name: string, more: RoleNames): FoundOption | undefined {
  const [, prefix = "", rest = ""] = /^(no-|enable-|disable-)(.*)$/.exec(name) ?? [];
  const inverse = { "no-": rest, "enable-": `disable-${rest}`, "disable-": `enable-${rest}` }[prefix];
  const found = inverse === undefined ? undefined : named(inverse, more, false);
  return found?.option.arity === "toggle" ? found : undefined;
}

/** Up to three names that look like this one, nearest first; `more` beside those of the server. */
export function nearNames(written: string, more: readonly string[] = []): string[] {
  return nearest(written, [...more, ...Object.keys(rows), ...Object.keys(ignoredOptions)]);
}

/** Up to three of `names` that look like this one, nearest first. */
export function nearest(written: string, names: readonly string[]): string[] {
  const name = written.split(".")[0]!.replaceAll("_", "-").replace(/^no-/, "");
  const limit = Math.max(2, Math.floor(name.length / 4));
  return names
    .map((candidate) => ({ candidate, far: candidate.startsWith(name) ? 1 : distance(name, candidate) }))
    .filter(({ far }) => far <= limit)
    .sort((a, b) => a.far - b.far)
    .slice(0, 3)
    .map(({ candidate }) => candidate);
}

/** Levenshtein: insertions, deletions and replacements. */
function distance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = above[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, above[j]! + 1, row[j - 1]! + 1));
    }
    above = row;
  }
  return above[b.length]!;
}
