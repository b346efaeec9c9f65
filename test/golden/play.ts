/**
 * Plays recordings and counts those that our core decides as recorded. The commands `golden` and `golden trtllm` share this
 * code.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { firstDifference, sideBySide } from "./compare.ts";
import { mutate } from "./mutate.ts";
import { namesOf } from "./only.ts";
import type { RecordingFile } from "./places.ts";

export interface Play {
  /** Name of the command, for messages. */
  readonly command: string;
  /** The core in `build/`. */
  readonly core: string;
  /** Files and folders that are played by default. */
  readonly defaults: readonly string[];
  /** Describes the accepted files, for messages. */
  readonly kinds: string;
  readonly recordingsAt: (places: readonly string[]) => Iterable<RecordingFile>;
}

/**
 * Plays the recordings and returns the exit code: 0 if all passed, 1 if one failed, 2 for a wrong command line. With
 * `--mutate`, a value of each recording is changed first. Then each recording must fail, and the exit code is 0 if all do.
 */
export function play({ command, core, defaults, kinds, recordingsAt }: Play): number {
  const wrong = (why: string) => {
    console.error(`${command}: ${why}`);
    return 2;
  };
  const options = words();
  if (typeof options === "string") return wrong(options);
  const { seed, only } = options;
  const module = new WebAssembly.Module(readFileSync(join(import.meta.dir, "../../build", core)));
  const places = options.places.length ? options.places : defaults;
  const missing = new Set(only);
  let passed = 0;
  let failed = 0;
  let unread = 0;
  for (const file of recordingsAt(places)) {
    if (only && !isWanted(file.name, only, missing)) continue;
    const { kind, why } = judge(file, module, seed);
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
  const flags = { mutate: { type: "string" }, only: { type: "string" } } as const;
  const accepted = "accepted are --mutate SEED, --only LIST, and files and folders";
  try {
    const { values, positionals } = parseArgs({ options: flags, allowPositionals: true });
    const { mutate: seed, only: list } = values;
    if (seed !== undefined && !/^-?\d+$/.test(seed)) return "--mutate: must be a whole number";
    const only = list === undefined ? null : namesOf(list);
    return { seed: seed === undefined ? null : Number(seed), only, places: positionals };
  } catch (error) {
    const { message } = error as Error;
    if (message.includes("--mutate")) return "--mutate: must be a whole number";
    return `${/'(-[^' ]*)/.exec(message)?.[1] ?? message}: unknown; ${accepted}`;
  }
}

/**
 * Reports whether a name of `only` is the end of the recording's name, in whole path parts: `fuzz_01`, `overlap/fuzz_01`. In
 * a file with several recordings, the part after the `#` also counts.
 */
function isWanted(name: string, only: ReadonlySet<string>, missing: Set<string>): boolean {
  const plain = name.replace(/\.jsonl?(\.gz)?(?=#|$)/, "");
  const hits = [...only].filter((wanted) => `/${plain}`.endsWith(`/${wanted}`) || plain.endsWith(`#${wanted}`));
  for (const hit of hits) missing.delete(hit);
  return hits.length > 0;
}

interface Verdict {
  readonly kind: "passed" | "failed" | "unread";
  /** Text to print about the recording, or "" for none. */
  readonly why: string;
}

function judge({ name, load }: RecordingFile, module: WebAssembly.Module, seed: number | null): Verdict {
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
