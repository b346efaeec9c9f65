/**
 * Reads a folder of `understudy proxy --record` as a benchmark run. Counts the tokens of a prompt if its recorded answer does
 * not state the number.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { jsonObjectIn } from "../../base/json-object.ts";
import { fileAtMost } from "../../base/read-at-most.ts";
import { DueTime } from "../../base/time/due-time.ts";
import { builtFiles, textOf } from "../../kernel/text.ts";
import { RECORD_NAME } from "../../text/canned/fixtures/recording.ts";
import type { PromptPart } from "../../text/tokens/types.ts";
import { isRecord, type RecordedStream, recordedStream } from "../../tools/fit/records.ts";
import { type FitRun, runOf } from "../../tools/fit/run.ts";
import { TraceError } from "../../workloads/trace.ts";

/** Most bytes of all files of the folder together. */
const BYTES_MOST = 2 ** 28;

/** Reads the folder. Throws `TraceError` for unusable records, and `UserError` for an unusable tokenizer folder. */
export async function folderRun(folder: string, config: ServeConfig, bytesMost = BYTES_MOST): Promise<FitRun> {
  const streams = passedIn(folder, bytesMost);
  const unsaid = streams.filter(({ inputTokens }) => inputTokens === null);
  const count = unsaid.length > 0 ? await counterOf(config) : null;
  const requests = await Promise.all(
    streams.map(async (stream) => ({
      ...stream,
      inputTokens: stream.inputTokens ?? (await count!.tokens(stream.prompt)),
    })),
  );
  count?.close();
  // Leave out the concurrency, because records do not state it. The replay sends requests at their recorded times instead.
  const format = unsaid.length > 0 ? `proxy, ${unsaid.length} prompts counted here` : "proxy";
  return runOf({ source: folder, format, concurrency: null }, requests);
}

function passedIn(folder: string, bytesMost: number): RecordedStream[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
  let left = bytesMost;
  const records = names.toSorted().flatMap((name) => {
    const path = join(folder, name);
    const { bytes } = fileAtMost(path, left);
    if (bytes === null) throw new TraceError(`"${folder}": its files have more than ${bytesMost / 2 ** 20} MiB`);
    left -= bytes.length;
    const json = jsonObjectIn(new TextDecoder().decode(bytes));
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

/**
 * Makes a function that counts the tokens of a prompt, with --tokenizer or the built-in vocabulary. It does not count roles and
 * chat templates.
 */
async function counterOf({ text, engine }: ServeConfig) {
  const { encoder } = await textOf(text, await builtFiles(engine), new DueTime());
  const counted = async (part: PromptPart) =>
    typeof part === "number" ? part : (await encoder.encode([part], false, true)).length;
  return {
    tokens: async (prompt: string | number) => Math.max(1, await counted(prompt)),
    close: () => encoder.close(),
  };
}
