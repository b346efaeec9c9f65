/**
 * Completes abbreviated flags of `vllm serve`, as Python's argparse does for it (`_get_option_tuples`; vLLM leaves `allow_abbrev`
 * on in `utils/argparse_utils.py`, 0.33). Flags that vLLM does not have are never completed, and never make a prefix ambiguous.
 */
import { aliases, ignoredOptions, shortFlags } from "./ignored-flags.ts";
import { type Option, type OptionRow, ownValue } from "./option.ts";
import { serveOptions } from "./serve-options.ts";

/** Aliases that vLLM registers. The other aliases are those of trtllm-serve. */
const VLLM_ALIASES = ["device-memory-utilization"];

let registered: readonly string[] | null = null;

/** Every long flag that vLLM registers, with its dashes, in alphabetical order. */
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
    // `EnableDisableAction` accepts --disable-x for --enable-x, and --enable-x for --disable-x.
    if (name.startsWith("enable-")) flags.add(`--disable-${name.slice("enable-".length)}`);
    if (name.startsWith("disable-")) flags.add(`--enable-${name.slice("disable-".length)}`);
  }
  return [...flags];
}

/** A flag that an argument may abbreviate. */
export interface Completion {
  readonly flag: string;
  /** Value attached to a flag of one letter, as the 4 of `-n4`; absent if the flag has no attached value. */
  readonly attached?: string;
}

/** Returns the flags that an argument may abbreviate, perhaps none. `written`: the argument up to its `=`. */
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
