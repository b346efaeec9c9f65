/** Plays recordings and says how many came out as recorded: what the commands `golden` and `golden:trtllm` have in common. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { firstDifference, sideBySide } from "./compare.ts";
import { mutate } from "./mutate.ts";
import type { Found } from "./places.ts";

export interface Play {
  /** For messages. */
  readonly command: string;
  /** The core in `build/`. */
  readonly core: string;
  /** Played where no place is named. */
  readonly own: readonly string[];
  /** What is a recording, for messages. */
  readonly kinds: string;
  readonly recordingsAt: (places: readonly string[]) => Iterable<Found>;
}

/** Exit code of the whole: 0 when all passed, 1 when one failed, 2 for wrong words. With `--mutate` a recording passes when its mutant is noticed. */
export function play({ command, core, own, kinds, recordingsAt }: Play): number {
  const wrong = (why: string) => {
    console.error(`${command}: ${why}`);
    return 2;
  };
  const given = words();
  if (typeof given === "string") return wrong(given);
  const { seed, only } = given;
  const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build", core)));
  const places = given.places.length ? given.places : own;
  const missing = new Set(only);
  let passed = 0;
  let failed = 0;
  for (const found of recordingsAt(places)) {
    if (only && !isWanted(found.name, only, missing)) continue;
    const verdict = judge(found, module, seed);
    if (verdict === null) passed++;
    else {
      failed++;
      console.log(verdict);
    }
  }
  if (passed + failed === 0 && missing.size === 0) return wrong(`no recordings (${kinds}) in ${places.join(" ")}`);
  for (const name of missing) console.log(`absent ${name}`);
  failed += missing.size;
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

/** LIST of `--only` is a file with a name per line (what follows a `#` is a comment), or names separated by commas. */
function words() {
  const options = { mutate: { type: "string" }, only: { type: "string" } } as const;
  const there = "there are --mutate SEED, --only LIST, and files and folders";
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    const { mutate: seed, only: list } = values;
    if (seed !== undefined && !/^-?\d+$/.test(seed)) return "--mutate takes a whole number";
    const text = list !== undefined && existsSync(list) ? readFileSync(list, "utf8").replace(/#.*$/gm, "") : list;
    const only = text === undefined ? null : new Set(text.split(/[\s,]+/).filter(Boolean));
    return { seed: seed === undefined ? null : Number(seed), only, places: positionals };
  } catch (error) {
    const { message } = error as Error;
    if (message.includes("--mutate")) return "--mutate takes a whole number";
    return `${/'(-[^' ]*)/.exec(message)?.[1] ?? message}: unknown; ${there}`;
  }
}

/** By the end of its name, whole parts of it: `fuzz_01`, `overlap/fuzz_01`; in a file of several also by what follows the `#`. */
function isWanted(name: string, only: ReadonlySet<string>, missing: Set<string>): boolean {
  const plain = name.replace(/\.jsonl?(\.gz)?(?=#|$)/, "");
  const hits = [...only].filter((one) => `/${plain}`.endsWith(`/${one}`) || plain.endsWith(`#${one}`));
  for (const hit of hits) missing.delete(hit);
  return hits.length > 0;
}

/** null when it passes. */
function judge({ name, load }: Found, module: WebAssembly.Module, seed: number | null): string | null {
  try {
    const recording = load();
    if (seed === null) {
      const difference = firstDifference(recording, module);
      return difference && `${name}: ${sideBySide(difference)}`;
    }
    const changed = mutate(recording, seed);
    return firstDifference(recording, module) ? null : `${name}: the mutant was not noticed: ${changed}`;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return why.startsWith(name) ? why : `${name}: ${why}`;
  }
}
