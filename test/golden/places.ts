/**
 * Finds the recordings at given files and folders, including subfolders, in both formats, packed or not. Only one is read at
 * a time.
 */
import { type Dirent, lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { ofScenario, ofTrace, type Recording } from "./recording.ts";
import type { Scenario } from "./scheduler-log.ts";
import { readTrace } from "./trace.ts";

/** A recording and its name. `load` throws an Error with a one-line message if the recording cannot be read. */
export interface RecordingFile {
  readonly name: string;
  load(): Recording;
}

/** The two formats of recordings: one recording as lines of JSON, and files of JSON with several. */
interface Formats {
  readonly ofLines: (text: string, path: string) => Recording;
  /** Reads the parsed content of a `.json` file. Null if the file is no file of recordings. */
  readonly severalIn: (json: unknown) => readonly { readonly name: string; load(): Recording }[] | null;
  /** Describes a `.json` file for which `severalIn` returns null. */
  readonly none: string;
}

/**
 * Returns the recordings, sorted by name. A file that cannot be read gives an entry whose `load` throws. A `.json` file without
 * recordings gives one only if a place names it. In a folder it is ignored.
 */
export const recordingsIn = (formats: Formats) =>
  function* (places: readonly string[]): Generator<RecordingFile> {
    for (const place of places) {
      const { files, named } = filesAt(place);
      for (const path of files) yield* recordingsOf(path, named, formats);
    }
  };

function* recordingsOf(path: string, named: boolean, { ofLines, severalIn, none }: Formats): Generator<RecordingFile> {
  try {
    const text = textOf(path);
    if (!/\.json(\.gz)?$/.test(path)) return yield { name: path, load: () => ofLines(text, path) };
    const several = severalIn(parsed(text));
    for (const { name, load } of several ?? []) yield { name: `${path}#${name}`, load };
    if (several === null && named) throw new Error(`${path}: ${none}`);
  } catch (error) {
    const why = error instanceof Error ? error.message : `${error}`;
    yield failing(path, why.startsWith(`${path}: `) ? why : `${path}: ${why}`);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("not JSON");
  }
}

export const recordingsAt = recordingsIn({
  ofLines: (text, path) => ofTrace(readTrace(text, path)),
  severalIn(json) {
    const { scenarios } = json as { readonly scenarios?: readonly Scenario[] };
    if (!Array.isArray(scenarios)) return null;
    return scenarios.map((scenario) => ({ name: scenario.name, load: () => ofScenario(scenario) }));
  },
  none: "holds no scenarios",
});

function filesAt(place: string): { readonly files: readonly string[]; readonly named: boolean } {
  const stat = lstatSync(place, { throwIfNoEntry: false });
  return stat?.isDirectory() ? { files: below(place), named: false } : { files: [place], named: true };
}

function below(folder: string): string[] {
  const byName = (a: Dirent, b: Dirent) => (a.name < b.name ? -1 : 1);
  return readdirSync(folder, { withFileTypes: true })
    .toSorted(byName)
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return below(path);
      return /\.jsonl?(\.gz)?$/.test(entry.name) ? [path] : [];
    });
}

function textOf(path: string): string {
  const bytes = readFileSync(path);
  // The first bytes show whether the file is packed. Its name may be any.
  const packed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  return new TextDecoder().decode(packed ? gunzipSync(bytes) : bytes);
}

const failing = (name: string, why: string): RecordingFile => ({
  name,
  load() {
    throw new Error(why);
  },
});
