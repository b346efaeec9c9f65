/** Plays recordings and says how many came out as recorded: what the commands `golden` and `golden:trtllm` have in common. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { firstDifference, sideBySide } from "./compare.ts";
import { mutate } from "./mutate.ts";
import { namesOf } from "./only.ts";
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

/**
 * Exit code of the whole: 0 when all passed, 1 when one failed, 2 for wrong words. With `--mutate` a value of each recording is
 * changed first: then each is to fail, and the exit code is 0 when all do.
 */
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
  let unread = 0;
  for (const found of recordingsAt(places)) {
    if (only && !isWanted(found.name, only, missing)) continue;
    const { kind, why } = judge(found, module, seed);
    if (kind === "passed") passed++;
    else failed++;
    if (kind === "unread") unread++;
    if (why !== "") console.log(why);
  }
  if (passed + failed === 0 && missing.size === 0) return wrong(`no recordings (${kinds}) in ${places.join(" ")}`);
  for (const name of missing) console.log(`absent ${name}`);
  failed += missing.size;
  console.log(`${passed} passed, ${failed} failed`);
  const bad = seed === null ? failed : passed + unread + missing.size;
  return bad === 0 ? 0 : 1;
}

function words() {
  const options = { mutate: { type: "string" }, only: { type: "string" } } as const;
  const there = "there are --mutate SEED, --only LIST, and files and folders";
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    const { mutate: seed, only: list } = values;
    if (seed !== undefined && !/^-?\d+$/.test(seed)) return "--mutate takes a whole number";
    const only = list === undefined ? null : namesOf(list);
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

interface Judged {
  readonly kind: "passed" | "failed" | "unread";
  /** To be said of it; "": nothing. */
  readonly why: string;
}

function judge({ name, load }: Found, module: WebAssembly.Module, seed: number | null): Judged {
  try {
    const recording = load();
    const changed = seed === null ? null : mutate(recording, seed);
    const difference = firstDifference(recording, module);
    if (changed === null)
      return difference ? { kind: "failed", why: `${name}: ${sideBySide(difference)}` } : { kind: "passed", why: "" };
    return difference
      ? { kind: "failed", why: "" }
      : { kind: "passed", why: `passed although changed: ${name}: ${changed}` };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { kind: "unread", why: why.startsWith(name) ? why : `${name}: ${why}` };
  }
}
