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

/** Returns the recordings, sorted by name. A file that cannot be read gives an entry whose `load` throws. */
export function* recordingsAt(places: readonly string[]): Generator<RecordingFile> {
  for (const place of places) {
    const found = filesAt(place);
    for (const path of found.files) yield* recordingsIn(path, found.named);
  }
}

export function filesAt(place: string): { readonly files: readonly string[]; readonly named: boolean } {
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

/**
 * Returns the recordings of one file. A `.json` file without scenarios gives an error if it was `named`. In a folder it is
 * ignored.
 */
function* recordingsIn(path: string, named: boolean): Generator<RecordingFile> {
  let text: string;
  try {
    text = textOf(path);
  } catch (error) {
    yield failing(path, `${path}: ${error instanceof Error ? error.message : error}`);
    return;
  }
  if (!/\.json(\.gz)?$/.test(path)) {
    yield { name: path, load: () => ofTrace(readTrace(text, path)) };
    return;
  }
  const scenarios = scenariosOf(text);
  if (typeof scenarios === "string") {
    if (named || scenarios !== NO_SCENARIOS) yield failing(path, `${path}: ${scenarios}`);
    return;
  }
  for (const scenario of scenarios) yield { name: `${path}#${scenario.name}`, load: () => ofScenario(scenario) };
}

const NO_SCENARIOS = "holds no scenarios";

function scenariosOf(text: string): readonly Scenario[] | string {
  try {
    const { scenarios } = JSON.parse(text) as { readonly scenarios?: unknown };
    return Array.isArray(scenarios) ? scenarios : NO_SCENARIOS;
  } catch {
    return "not JSON";
  }
}

export function textOf(path: string): string {
  const bytes = readFileSync(path);
  // The first bytes show whether the file is packed. Its name may be any.
  const packed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  return new TextDecoder().decode(packed ? gunzipSync(bytes) : bytes);
}

export function failing(name: string, why: string): RecordingFile {
  return {
    name,
    load() {
      throw new Error(why);
    },
  };
}
