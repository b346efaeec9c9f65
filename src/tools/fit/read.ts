/** Reads a benchmark result and recognises its format. Throws a TraceError with one line if it cannot. */
import { jsonObjectIn } from "../../base/json-object.ts";
import { TraceError } from "../../workloads/trace.ts";
import { aiperfRecords, aiperfRun, isAiperf, isAiperfRecord } from "./aiperf.ts";
import type { FitRun } from "./run.ts";
import { isVllm, type JsonRecord, vllmRun } from "./vllm.ts";

const KNOWN =
  "a result of vllm bench serve --save-result, of aiperf (profile_export_aiperf.json or profile_export.jsonl) or of understudy load";

/** Returns the runs of a file: one, or one per line of `--append-result`. `name` is used in messages. */
export function readRuns(text: string, name: string): FitRun[] {
  const whole = jsonObjectIn(text);
  if (whole !== null) return [runFrom(whole, name)];
  const lines = text.split("\n").map((line, i) => ({ line, at: `${name}:${i + 1}` }));
  const objects = lines
    .filter(({ line }) => line.trim() !== "")
    .map(({ line, at }) => {
      const json = jsonObjectIn(line);
      if (json === null) throw new TraceError(`${at}: expected a JSON object, or a file that is one: ${KNOWN}`);
      return { json, at };
    });
  if (objects.length === 0) throw new TraceError(`${name}: is empty; expected ${KNOWN}`);
  if (!objects.every(({ json }) => isAiperfRecord(json))) return objects.map(({ json, at }) => runFrom(json, at));
  return [
    runOrThrow(
      aiperfRecords(
        objects.map(({ json }) => json),
        name,
      ),
      name,
    ),
  ];
}

function runFrom(json: JsonRecord, name: string): FitRun {
  if (isVllm(json)) return runOrThrow(vllmRun(json, name), name);
  if (isAiperf(json)) return runOrThrow(aiperfRun(json, name), name);
  if (isAiperfRecord(json)) return runOrThrow(aiperfRecords([json], name), name);
  throw new TraceError(`${name}: expected ${KNOWN}`);
}

function runOrThrow(run: FitRun | string, name: string): FitRun {
  if (typeof run === "string") throw new TraceError(`${name}: expected ${run}`);
  return run;
}
