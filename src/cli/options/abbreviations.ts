/**
 * Completes abbreviated flags of `vllm serve`, as Python's argparse does for vLLM (`_get_option_tuples`; vLLM 0.33 leaves
 * `allow_abbrev` on in `utils/argparse_utils.py`). Flags that vLLM does not have are never completed, and never make an
 * abbreviation ambiguous.
 */
import { aliases, ignoredOptions, shortFlags } from "./ignored-flags.ts";
import { type Option, type OptionRow, ownValue } from "./option.ts";
import { serveOptions } from "./serve-options.ts";

/** Aliases that vLLM itself registers. All other aliases in `aliases` belong to trtllm-serve. */
const VLLM_ALIASES = ["device-memory-utilization"];

let registered: readonly string[] | null = null;

/** Returns every long flag that vLLM registers, with its dashes, in alphabetical order. */
function vllmFlags(): readonly string[] {
  registered ??= flagsOf().sort();
  return registered;
}

function flagsOf(): string[] {
  const own = Object.entries<OptionRow>(serveOptions).filter(([, { ours }]) => !ours);
  const foreign = Object.entries<Option>(ignoredOptions);
  const second = VLLM_ALIASES.map((name) => [name, ownValue(serveOptions, aliases[name]!)!] as const);
  const flags = new Set(["--help"]);
  for (const [name, { arity }] of [...own, ...foreign, ...second]) {
    flags.add(`--${name}`);
    if (arity !== "toggle") continue;
    flags.add(`--no-${name}`);
    // vLLM's `EnableDisableAction` accepts both --enable-x and --disable-x for the same option.
    if (name.startsWith("enable-")) flags.add(`--disable-${name.slice("enable-".length)}`);
    if (name.startsWith("disable-")) flags.add(`--enable-${name.slice("disable-".length)}`);
  }
  return [...flags];
}

/** Flag that an argument may abbreviate. */
export interface Completion {
  readonly flag: string;
  /** Value that follows a one-letter flag without a space, such as 4 in `-n4`. Absent if the argument has no such value. */
  readonly attached?: string;
}

/** Returns the flags that an argument may abbreviate; the list may be empty. `written`: the argument up to its `=`. */
export function completionsOf(written: string): readonly Completion[] {
  if (written.startsWith("--")) {
    const prefix = written.replaceAll("_", "-");
    return vllmFlags().flatMap((flag) => (flag.startsWith(prefix) ? [{ flag }] : []));
  }
  const letter = written.slice(0, 2);
  return ["-h", ...Object.keys(shortFlags)].flatMap((flag): Completion[] => {
    if (flag === letter) return [{ flag, attached: written.slice(2) }];
    return flag.startsWith(written) ? [{ flag }] : [];
  });
}

/** Returns argparse's error message for an ambiguous abbreviation. */
export function ambiguous(token: string, completions: readonly Completion[]): string {
  return `ambiguous option: ${token} could match ${completions.map(({ flag }) => flag).join(", ")}`;
}
