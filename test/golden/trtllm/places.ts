/**
 * Finds the recordings of TensorRT-LLM's schedulers at given files and folders: traces, and files of project tests, packed or
 * not. Only one is read at a time.
 */
import { failing, filesAt, type RecordingFile, textOf } from "../places.ts";
import { type ProjectTests, projectTests } from "./project.ts";
import { TrtRunner } from "./runner.ts";
import { readTrtTrace } from "./trace.ts";

/** Returns the recordings, sorted by name. A file that cannot be read gives an entry whose `load` throws. */
export function* trtRecordingsAt(places: readonly string[]): Generator<RecordingFile> {
  for (const place of places) {
    const { files, named } = filesAt(place);
    for (const path of files) yield* recordingsIn(path, named);
  }
}

/**
 * Returns the recordings of one file. A `.json` file without project tests gives an error if it was `named`. In a folder it
 * is ignored.
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
    yield { name: path, load: () => ofTrtTrace(text, path) };
    return;
  }
  const tests = testsOf(text);
  if (typeof tests !== "string")
    for (const { name, recording } of tests) yield { name: `${path}#${name}`, load: () => recording };
  else if (named || tests !== NO_TESTS) yield failing(path, `${path}: ${tests}`);
}

export function ofTrtTrace(text: string, path: string) {
  const trace = readTrtTrace(text, path);
  return { rows: trace.rows, start: (module: WebAssembly.Module) => new TrtRunner(trace, module) };
}

const NO_TESTS = "holds no project tests";

function testsOf(text: string) {
  let tests: ProjectTests;
  try {
    tests = JSON.parse(text);
  } catch {
    return "not JSON";
  }
  return tests?.format === "trtllm-project-tests/1" ? projectTests(tests) : NO_TESTS;
}
