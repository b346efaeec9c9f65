/** Opens a trace in a given format, or in the format that the beginning of the file shows. */
import { AZURE_HEADER, azure } from "./azure.ts";
import { BAILIAN_BLOCK, bailian, isBailianRow } from "./bailian.ts";
import { burstgpt, isBurstgptHeader } from "./burstgpt.ts";
import { elements } from "./elements.ts";
import { Identities } from "./identities.ts";
import { TraceFile } from "./lines.ts";
import { mooncake } from "./mooncake.ts";
import { isOtelHead, otel } from "./otel.ts";
import { arrivalsOf, parameters, spread } from "./pace.ts";
import { sharegpt } from "./sharegpt.ts";
import { SkippedRows } from "./skipped-rows.ts";
import { SYNTHETIC_FORM, synthetic } from "./synthetic.ts";
import { type TimeForm, Timestamps } from "./timestamps.ts";
import {
  type Pace,
  type RowShape,
  TRACE_BLOCK,
  type Trace,
  TraceError,
  type TraceItem,
  type TraceOptions,
} from "./trace.ts";
import { truth } from "./truth.ts";
import { isWekaHead, WEKA_BLOCK, weka, wekaBlockSize } from "./weka.ts";

/** Default pace of a ShareGPT trace, which has no times. */
const SHAREGPT_PACE: Pace = { kind: "closed", concurrency: 256 };

export const TRACE_FORMATS = `mooncake, bailian, weka, azure, burstgpt, otel, truth, sharegpt[:concurrency=N|rate=R], ${SYNTHETIC_FORM}`;

/** Properties of a format. */
interface Format {
  /** Unit of its times. Null if its requests have no times. */
  readonly unit: TimeForm | null;
  /** True if rows have hash ids and numeric times, so that the options of `TraceOptions` for rows apply. */
  readonly hasRows?: true;
  /** Prompt tokens per hash id. */
  readonly blockTokens?: number;
}

const FORMATS: Readonly<Record<string, Format>> = {
  mooncake: { unit: "ms", hasRows: true, blockTokens: TRACE_BLOCK },
  bailian: { unit: "s", hasRows: true, blockTokens: BAILIAN_BLOCK },
  weka: { unit: "s", hasRows: true, blockTokens: WEKA_BLOCK },
  azure: { unit: "dates" },
  burstgpt: { unit: "s" },
  otel: { unit: "dates" },
  truth: { unit: "us" },
  sharegpt: { unit: null },
};

/** Bytes at the start of a file that are enough to recognise its format: a row with some ten thousand hash ids. */
const HEAD_BYTES = 1 << 16;

const hasRows = (format: string): boolean => FORMATS[format]?.hasRows ?? false;
const isBurstgpt = (format: string): boolean => format === "burstgpt";

/** Options of rows, and the formats that they apply to. */
const ROW_OPTIONS: Readonly<Record<keyof TraceOptions, readonly [flag: string, applies: (format: string) => boolean]>> =
  {
    timestampUnit: ["--timestamp-unit", hasRows],
    hashBlockTokens: ["--hash-block-tokens", hasRows],
    models: ["--trace-models", isBurstgpt],
    logTypes: ["--trace-log-types", isBurstgpt],
  };

/** Returns how the rows of a format are read. Throws a TraceError for an option that does not apply to it. */
export function rowShapeOf(format: string, options: TraceOptions): RowShape {
  const { unit = null, blockTokens = TRACE_BLOCK } = FORMATS[format] ?? {};
  for (const [key, [flag, applies]] of Object.entries(ROW_OPTIONS)) {
    if (options[key as keyof TraceOptions] === undefined || applies(format)) continue;
    const formats = Object.keys(FORMATS).filter(applies);
    throw new TraceError(`${flag} is for ${formats.join(", ")} traces, not ${format}`);
  }
  const stated = options.timestampUnit !== undefined || format !== "mooncake";
  return {
    blockTokens: options.hashBlockTokens ?? blockTokens,
    times: new Timestamps(options.timestampUnit ?? unit ?? "us", stated),
    ids: new Identities(),
  };
}

/**
 * Opens a trace. If `path` is null or starts with `synthetic:`, the trace is generated. If `format` is null, it is
 * guessed. Throws a TraceError with one line for the user. `cure`: advice if the format cannot be guessed.
 */
export function openTrace(
  path: string | null,
  format: string | null,
  options: TraceOptions = {},
  cure = `state it with --format (${TRACE_FORMATS})`,
): Trace {
  if (format === null && path?.startsWith("synthetic:")) return openTrace(null, path, options);
  const [name = "", rest = ""] = split(format ?? "");
  if (name === "synthetic") {
    if (path !== null)
      throw new TraceError(`--format synthetic generates its own requests, so "${path}" must not be given`);
    const { blockTokens } = rowShapeOf(name, options);
    const common = { format: name, blockTokens, hasIds: false, times: null, bytes: 0, passed: new SkippedRows() };
    return { ...synthetic(rest), ...common, bytesRead: () => 0, close: () => {} };
  }
  if (format !== null) checkName(name, rest);
  if (path === null) throw new TraceError(`no trace: give a file, or --format ${SYNTHETIC_FORM}`);
  const file = new TraceFile(path);
  try {
    return fromFile(file, format === null ? guess(file, cure) : name, rest, options);
  } catch (failure) {
    file.close();
    throw failure;
  }
}

function checkName(name: string, rest: string): void {
  if (!Object.hasOwn(FORMATS, name)) {
    throw new TraceError(`--format ${name}: unknown format, must be one of ${TRACE_FORMATS}`);
  }
  if (rest !== "" && name !== "sharegpt") throw new TraceError(`--format ${name} takes nothing after the colon`);
}

function fromFile(file: TraceFile, format: string, rest: string, options: TraceOptions): Trace {
  const passed = new SkippedRows(isBurstgpt(format) ? "--trace-models and --trace-log-types choose others" : null);
  const skipRow = passed.add;
  const stated = options.hashBlockTokens;
  const size = stated ?? (format === "weka" ? wekaBlockSize(file.head(HEAD_BYTES)) : null) ?? undefined;
  const shape = rowShapeOf(format, size === undefined ? options : { ...options, hashBlockTokens: size });
  const arrivals = arrivalsOf(format, parameters(format, rest, ["concurrency", "rate"]));
  const items = (seed: number): Iterable<TraceItem> => {
    if (format === "mooncake") return mooncake(file.lines(), shape);
    if (format === "bailian") return bailian(file.lines(), shape, skipRow);
    if (format === "weka") return weka(elements(file.pieces()), shape, skipRow, stated !== undefined);
    if (format === "otel") return timed(otel(elements(file.pieces()), skipRow), shape.times);
    if (format === "azure") return timed(azure(file.lines()), shape.times);
    if (format === "burstgpt") return timed(burstgpt(file.lines(), skipRow, options), shape.times);
    if (format === "truth") return timed(truth(file.lines(), skipRow), shape.times);
    return spread(sharegpt(elements(file.pieces()), skipRow), arrivals?.rate ?? null, seed);
  };
  const { unit } = FORMATS[format]!;
  return {
    format,
    pace: arrivals?.pace ?? (format === "sharegpt" ? SHAREGPT_PACE : { kind: "open" }),
    blockTokens: shape.blockTokens,
    hasIds: hasRows(format),
    times: unit === null ? null : shape.times,
    bytes: file.bytes,
    bytesRead: () => file.bytesRead,
    items,
    total: null,
    adapters: 0,
    passed,
    close: () => file.close(),
  };
}

/** Adds the times of the requests to the trace's span. */
function* timed(items: Iterable<TraceItem>, times: Timestamps): Generator<TraceItem> {
  for (const item of items) {
    if (!("expected" in item)) times.add(item.arrivalUs);
    yield item;
  }
}

/** Returns the format that the start of the file shows, whatever the file's name. */
function guess(file: TraceFile, cure: string): string {
  const head = file.head(HEAD_BYTES).trimStart();
  if (head === "") throw new TraceError(`${file.path}: the trace is empty`);
  const line = head.split(/\r?\n/, 1)[0]!;
  if (line.replaceAll('"', "").toLowerCase() === AZURE_HEADER.toLowerCase()) return "azure";
  if (isBurstgptHeader(line)) return "burstgpt";
  if (isBailianRow(line)) return "bailian";
  if (isWekaHead(head)) return "weka";
  if (isOtelHead(head)) return "otel";
  if (/^\{.*"(input_length|hash_ids)"\s*:/.test(line)) return "mooncake";
  if (/^\{"type":"(header|step|request)"/.test(line)) return "truth";
  if (/^[[{][\s\S]*"(conversations?|messages)"\s*:/.test(head)) return "sharegpt";
  throw new TraceError(`${file.path}: its format is not recognised; ${cure}`);
}

function split(format: string): [string, string] {
  const colon = format.indexOf(":");
  return colon < 0 ? [format, ""] : [format.slice(0, colon), format.slice(colon + 1)];
}
