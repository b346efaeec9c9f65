/** Which run passed a proxy? The records of a folder as a run, with prompts counted where their answers do not say. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { jsonObjectIn } from "../../base/json-object.ts";
import { DueTime } from "../../base/time/due-time.ts";
import { builtFiles, textOf } from "../../kernel/text.ts";
import { RECORD_NAME } from "../../text/canned/fixtures/recording.ts";
import type { PromptPart } from "../../text/tokens/types.ts";
import { isRecord, type RecordedStream, recordedStream } from "../../tools/fit/records.ts";
import { type FitRun, runOf } from "../../tools/fit/run.ts";
import { TraceError } from "../../workloads/trace.ts";

/** Size of all files together. */
const MIB_MOST = 256;

/** Throws `TraceError`; a `UserError` if a model's folder cannot be used. */
export async function folderRun(folder: string, config: ServeConfig): Promise<FitRun> {
  const streams = passedIn(folder);
  const unsaid = streams.filter(({ inputTokens }) => inputTokens === null);
  const count = unsaid.length > 0 ? await counterOf(config) : null;
  const requests = await Promise.all(
    streams.map(async (one) => ({ ...one, inputTokens: one.inputTokens ?? (await count!.tokens(one.prompt)) })),
  );
  count?.close();
  // Records do not say how requests were sent; arrivals are replayed at their times.
  const format = unsaid.length > 0 ? `proxy, ${unsaid.length} prompts counted here` : "proxy";
  return runOf({ source: folder, format, concurrency: null }, requests);
}

function passedIn(folder: string): RecordedStream[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const mib = names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) / 2 ** 20;
  if (mib > MIB_MOST) throw new TraceError(`"${folder}": has ${Math.ceil(mib)} MiB; at most ${MIB_MOST} are read`);
  const records = names.toSorted().flatMap((name) => {
    const path = join(folder, name);
    const json = jsonObjectIn(readFileSync(path, "utf8"));
    if (json === null && RECORD_NAME.test(name))
      throw new TraceError(`"${path}": is not a complete record; delete the file, or record again`);
    return json !== null && isRecord(json) ? [{ json, path }] : [];
  });
  if (records.length === 0) throw new TraceError(`"${folder}": has no records of understudy proxy --record`);
  const streams = records.flatMap(({ json, path }) => recordedStream(json, path) ?? []);
  if (streams.length === 0)
    throw new TraceError(`"${folder}": none of ${records.length} records is a stream that was answered to its end`);
  return streams;
}

/** By the model of `--tokenizer`, or the built-in vocabulary; roles and templates are not counted. */
async function counterOf({ text, engine }: ServeConfig) {
  const { encoder } = await textOf(text, await builtFiles(engine), new DueTime());
  const counted = async (part: PromptPart) =>
    typeof part === "number" ? part : (await encoder.encode([part], false, true)).length;
  return {
    tokens: async (prompt: string | number) => Math.max(1, await counted(prompt)),
    close: () => encoder.close(),
  };
}
