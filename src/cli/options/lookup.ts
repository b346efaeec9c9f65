/** Finds an option by its name: a flag without dashes, or a key of the configuration file. */
import { aliases, ignoredOptions } from "./ignored-flags.ts";
import { type Option, type OptionRow, ownValue } from "./option.ts";
import { serveOptions } from "./serve-options.ts";

export interface FoundOption {
  /** Name of the option in the table of options, even if the user wrote an alias. */
  readonly name: string;
  readonly option: Option;
  /** True if the option exists in `vllm serve` or trtllm-serve but has no effect here. */
  readonly ignored: boolean;
  /** False if the written name negates the option: --no-x for --x, --disable-x for --enable-x, or --enable-x for --disable-x. */
  readonly sets: boolean;
  /** Names after the dots of `name.key`, which lead to a key of a JSON object. Absent: there are none. */
  readonly keys?: readonly string[];
}

/** Names that only the command line and configuration file of one role accept. */
export interface RoleNames {
  /** Names of options, by alias. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Options that are accepted without effect, by name. */
  readonly ignored: Readonly<Record<string, Option>>;
}

const NONE: RoleNames = { aliases: {}, ignored: {} };

const rows: Readonly<Record<string, OptionRow>> = serveOptions;

/**
 * Finds an option. Returns undefined if the name is unknown. `a_b` counts as `a-b`. The form `name.key` sets a key of a JSON
 * value, which options without effect and keyed options accept.
 */
export function lookup(written: string, more: RoleNames = NONE): FoundOption | undefined {
  const [head = "", ...keys] = written.split(".");
  const name = head.replaceAll("_", "-");
  const found = named(name, more) ?? negated(name, more);
  if (keys.length === 0 || found === undefined || found.ignored) return found;
  return found.option.isKeyed ? { ...found, keys } : undefined;
}

function named(name: string, more: RoleNames, sets = true): FoundOption | undefined {
  const own = ownValue(aliases, name) ?? ownValue(more.aliases, name) ?? name;
  if (Object.hasOwn(rows, own)) return { name: own, option: rows[own]!, ignored: false, sets };
  if (Object.hasOwn(ignoredOptions, own)) return { name: own, option: ignoredOptions[own]!, ignored: true, sets };
  if (Object.hasOwn(more.ignored, own)) return { name: own, option: more.ignored[own]!, ignored: true, sets };
  return undefined;
}

/**
 * Finds the option that the written name negates. In addition to --no-x, vLLM pairs --enable-x with --disable-x
 * (`utils/argparse_utils.py`).
 */
function negated(name: string, more: RoleNames): FoundOption | undefined {
  const [, prefix = "", rest = ""] = /^(no-|enable-|disable-)(.*)$/.exec(name) ?? [];
  const inverse = { "no-": rest, "enable-": `disable-${rest}`, "disable-": `enable-${rest}` }[prefix];
  const found = inverse === undefined ? undefined : named(inverse, more, false);
  return found?.option.arity === "toggle" ? found : undefined;
}

/** Returns up to three names similar to `written`, the nearest first, from the server's options and from `more`. */
export function nearNames(written: string, more: readonly string[] = []): string[] {
  return nearest(written, [...more, ...Object.keys(rows), ...Object.keys(ignoredOptions)]);
}

/** Returns up to three of `names` that are similar to `written`, the nearest first. */
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

/** Returns the Levenshtein distance of two texts: the number of characters to insert, delete or replace. */
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
