/**
 * Files for the results of `understudy load`. They are opened before the run, so that the user learns of an unwritable path at
 * once.
 */
import { appendFileSync, existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { printableJson } from "../../base/printable.ts";
import type { RequestRecord } from "../../tools/load/requests/types.ts";
import { stamp } from "../../tools/load/result.ts";
import type { Settings } from "../../tools/load/settings.ts";
import { html, prepareHtml } from "../../tools/report/index.ts";
import type { Result } from "../../tools/report/result.ts";
import { TraceError } from "../../workloads/trace.ts";
import { OutFile, overwritten, tried } from "../out-file.ts";
import type { LoadValues } from "./load-options.ts";

export class LoadFiles {
  readonly #json: OutFile | null;
  readonly #html: OutFile | null;
  readonly #saved: OutFile | null;
  readonly #appended: string | null;
  readonly #rows: OutFile | null;
  /** Path of the HTML report. Undefined if no report is written. */
  readonly report: string | undefined;
  #hasAppended = false;

  /**
   * Opens the files. Throws a TraceError if a file cannot be written, or if writing it would overwrite another file of the run.
   */
  constructor(values: LoadValues, settings: Settings, model: string, epochS: number) {
    const appends = values["append-result"] ?? false;
    const saves = appends || (values["save-result"] ?? false);
    const savedPath = saves ? pathOf(values, settings, model, epochS) : null;
    const base = savedPath ?? values.json;
    const rows = settings.detailed ? `${(base ?? "load").replace(/\.jsonl?$/, "")}.requests.jsonl` : undefined;
    const why = overwritten(values["dataset-path"] === undefined ? [] : [values["dataset-path"]], {
      "--json": values.json,
      "--html": values.html,
      "--save-result": savedPath ?? undefined,
      "--save-detailed": rows,
    });
    if (why !== undefined) throw new TraceError(why);
    const open = (path: string | undefined) => (path === undefined ? null : new OutFile(path));
    this.#json = open(values.json);
    this.report = values.html;
    this.#html = open(values.html);
    if (values.html !== undefined) prepareHtml();
    this.#appended = appends ? savedPath : null;
    this.#saved = appends ? null : open(savedPath ?? undefined);
    this.#rows = open(rows);
    if (this.#appended !== null) tried(this.#appended, () => appendFileSync(this.#appended!, ""));
  }

  write(result: Result, records: readonly RequestRecord[]): void {
    this.#json?.end(`${printableJson(result)}\n`);
    this.#saved?.end(printableJson(result));
    if (!this.#hasAppended) this.append(result);
    for (const record of records) this.#rows?.write(`${printableJson(rowOf(record))}\n`);
    this.#rows?.end("");
    this.#html?.end(html(result, records));
  }

  /** Appends a result as a line, one for each run of a sweep. As in vLLM, a newline precedes each line except the first. */
  append(result: Result): void {
    const path = this.#appended;
    if (path === null) return;
    this.#hasAppended = true;
    tried(path, () => {
      const isFirst = !existsSync(path) || statSync(path).size === 0;
      appendFileSync(path, `${isFirst ? "" : "\n"}${printableJson(result)}`);
    });
  }
}

/**
 * Returns the path where vLLM writes a result (0.33.0, `benchmarks/serve.py`, compute_result_filename). Creates the folder of
 * --result-dir.
 */
function pathOf(values: LoadValues, settings: Settings, model: string, epochS: number): string {
  const { loop, concurrency, dialect, label } = settings;
  const capped = concurrency === null ? "" : `-concurrency${concurrency}`;
  const rest = `${capped}-${model.split("/").at(-1)}-${stamp(epochS)}.json`;
  const ramp = loop.kind === "open" ? loop.ramp : null;
  const rate = ramp
    ? `ramp-up-${ramp.strategy}-${ramp.startRps}qps-${ramp.endRps}qps`
    : `${loop.kind === "open" ? float(loop.rate) : "inf"}qps`;
  const name = values["result-filename"] ?? `${label ?? dialect}-${rate}${rest}`;
  const folder = values["result-dir"];
  if (folder === undefined) return name;
  tried(folder, () => mkdirSync(folder, { recursive: true }));
  return join(folder, name);
}

/** Formats a number as Python prints a float. */
const float = (value: number): string =>
  Number.isInteger(value) ? `${value}.0` : value === Number.POSITIVE_INFINITY ? "inf" : String(value);

/**
 * Returns a request's row of --save-detailed. Times are in seconds since the start of the run. A time is null if the request
 * ended before that moment.
 */
function rowOf(record: RequestRecord): Record<string, unknown> {
  const seconds = (us: number) => (Number.isFinite(us) ? us / 1e6 : null);
  return {
    request_id: record.requestId,
    intended_s: seconds(record.intendedUs),
    send_s: seconds(record.sendUs),
    first_s: seconds(record.firstUs),
    last_s: seconds(record.lastUs),
    end_s: seconds(record.endUs),
    input_tokens: record.inputTokens,
    output_tokens: record.outputTokens,
    cached_tokens: record.cachedTokens,
    chunks: record.chunkUs.length,
    chunk_s: Array.from(record.chunkUs, seconds),
    chunk_tokens: Array.from(record.chunkTokens),
    status: record.status,
    retries: record.retries,
    disturbed: record.disturbed,
    error: record.failure,
  };
}
