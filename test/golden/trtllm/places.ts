/** Finds the recordings of TensorRT-LLM's schedulers at given files and folders: traces, and files of project tests. */
import { recordingsIn } from "../places.ts";
import { type ProjectTests, projectTests } from "./project.ts";
import { TrtRunner } from "./runner.ts";
import { readTrtTrace } from "./trace.ts";

export function ofTrtTrace(text: string, path: string) {
  const trace = readTrtTrace(text, path);
  return { rows: trace.rows, start: (module: WebAssembly.Module) => new TrtRunner(trace, module) };
}

export const trtRecordingsAt = recordingsIn({
  ofLines: ofTrtTrace,
  severalIn(json) {
    const tests = json as ProjectTests | null;
    if (tests?.format !== "trtllm-project-tests/1") return null;
    return projectTests(tests).map(({ name, recording }) => ({ name, load: () => recording }));
  },
  none: "holds no project tests",
});
