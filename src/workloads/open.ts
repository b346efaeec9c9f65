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
import { PassedOver } from "./passed-over.ts";
import { sharegpt } from "./sharegpt.ts";
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

/** Pace of a ShareGPT trace, which has no times of its own. */
const SHAREGPT_PACE: Pace = { kind: "closed", concurrency: 256 };

export const TRACE_FORMATS = `mooncake, bailian, weka, azure, burstgpt, otel, truth, sharegpt[:concurrency=N|rate=R], ${SYNTHETIC_FORM}`;

/** What is known of a format before a file is read. */
interface Format {
  /** Unit of its times; null: requests have no times of their own. */
  readonly unit: TimeForm | null;
  /** True if rows have hash ids and numbers for times, so that `TraceOptions` apply to it. */
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

/** Bytes of the beginning of a file that show its format: a row with some ten thousand hash ids. */
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
    const takers = Object.keys(FORMATS).filter(applies);
    throw new TraceError(`${flag} is for ${takers.join(", ")} traces, not ${format}`);
  }
  const stated = options.timestampUnit !== undefined || format !== "mooncake";
  return {
    blockTokens: options.hashBlockTokens ?? blockTokens,
    times: new Timestamps(options.timestampUnit ?? unit ?? "us", stated),
    ids: new Identities(),
  };
}

/**
 * `path` null, or what would be its format: a made-up trace. `format` null: guessed. Throws a TraceError that says in one
 * line what is wrong; `cure`: what helps where the format cannot be guessed.
 */
export function openTrace(
  path: string | null,
  format: string | null,
  options: TraceOptions = {},
  cure = `say it with --format (${TRACE_FORMATS})`,
): Trace {
  if (format === null && path?.startsWith("synthetic:")) return openTrace(null, path, options);
  const [name = "", rest = ""] = split(format ?? "");
  if (name === "synthetic") {
    if (path !== null)
      throw new TraceError(`--format synthetic makes its own requests; "${path}" is one trace too many`);
    const { blockTokens } = rowShapeOf(name, options);
    const made = { format: name, blockTokens, hasIds: false, times: null, bytes: 0, passed: new PassedOver() };
    return { ...synthetic(rest), ...made, bytesRead: () => 0, close: () => {} };
  }
  if (format !== null) checkName(name, rest);
  if (path === null) throw new TraceError(`which trace? Give a file, or --format ${SYNTHETIC_FORM}`);
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
    throw new TraceError(`--format ${name}: no such format; there are ${TRACE_FORMATS}`);
  }
  if (rest !== "" && name !== "sharegpt") throw new TraceError(`--format ${name} takes nothing after the colon`);
}

function fromFile(file: TraceFile, format: string, rest: string, options: TraceOptions): Trace {
  const passed = new PassedOver(isBurstgpt(format) ? "--trace-models and --trace-log-types choose others" : null);
  const passOver = passed.add;
  const stated = options.hashBlockTokens;
  const size = stated ?? (format === "weka" ? wekaBlockSize(file.head(HEAD_BYTES)) : null) ?? undefined;
  const shape = rowShapeOf(format, size === undefined ? options : { ...options, hashBlockTokens: size });
  const arrivals = arrivalsOf(format, parameters(format, rest, ["concurrency", "rate"]));
  const items = (seed: number): Iterable<TraceItem> => {
    if (format === "mooncake") return mooncake(file.lines(), shape);
    if (format === "bailian") return bailian(file.lines(), shape, passOver);
    if (format === "weka") return weka(elements(file.pieces()), shape, passOver, stated !== undefined);
    if (format === "otel") return timed(otel(elements(file.pieces()), passOver), shape.times);
    if (format === "azure") return timed(azure(file.lines()), shape.times);
    if (format === "burstgpt") return timed(burstgpt(file.lines(), passOver, options), shape.times);
    if (format === "truth") return timed(truth(file.lines(), passOver), shape.times);
    return spread(sharegpt(elements(file.pieces()), passOver), arrivals?.rate ?? null, seed);
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

/** What the file's beginning says, whatever its name. */
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
  throw new TraceError(`${file.path}: its format is not clear; ${cure}`);
}

function split(format: string): [string, string] {
  const colon = format.indexOf(":");
  return colon < 0 ? [format, ""] : [format.slice(0, colon), format.slice(colon + 1)];
}
