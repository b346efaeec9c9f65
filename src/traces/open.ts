/** Which trace is meant, and which requests are in it? Opens by format, guesses it from the file where that is clear. */
import { AZURE_HEADER, azure } from "./azure.ts";
import { burstgpt, isBurstgptHeader } from "./burstgpt.ts";
import { elements } from "./elements.ts";
import { TraceFile } from "./lines.ts";
import { mooncake } from "./mooncake.ts";
import { arrivalsOf, parameters, spread } from "./pace.ts";
import { sharegpt } from "./sharegpt.ts";
import { SYNTHETIC_FORM, synthetic } from "./synthetic.ts";
import { type Pace, type Trace, TraceError, type TraceItem } from "./trace.ts";
import { truth } from "./truth.ts";

/** Pace of a ShareGPT trace, which has no times of its own. */
const SHAREGPT_PACE: Pace = { kind: "closed", concurrency: 256 };

export const TRACE_FORMATS = `mooncake, azure, burstgpt, truth, sharegpt[:concurrency=N|rate=R], ${SYNTHETIC_FORM}`;

/**
 * `path` null, or what would be its format: a made-up trace. `format` null: guessed. Throws a TraceError that says in one
 * line what is wrong; `cure`: what helps where the format cannot be guessed.
 */
export function openTrace(
  path: string | null,
  format: string | null,
  cure = `say it with --format (${TRACE_FORMATS})`,
): Trace {
  if (format === null && path?.startsWith("synthetic:")) return openTrace(null, path);
  const [name = "", rest = ""] = split(format ?? "");
  if (name === "synthetic") {
    if (path !== null)
      throw new TraceError(`--format synthetic makes its own requests; "${path}" is one trace too many`);
    return { ...synthetic(rest), format: name, bytes: 0, bytesRead: () => 0, passedOver: () => 0, close: () => {} };
  }
  if (format !== null) checkName(name, rest);
  if (path === null) throw new TraceError(`which trace? Give a file, or --format ${SYNTHETIC_FORM}`);
  const file = new TraceFile(path);
  try {
    return fromFile(file, format === null ? guess(file, cure) : name, rest);
  } catch (failure) {
    file.close();
    throw failure;
  }
}

function checkName(name: string, rest: string): void {
  if (!["mooncake", "azure", "burstgpt", "sharegpt", "truth"].includes(name)) {
    throw new TraceError(`--format ${name}: no such format; there are ${TRACE_FORMATS}`);
  }
  if (rest !== "" && name !== "sharegpt") throw new TraceError(`--format ${name} takes nothing after the colon`);
}

function fromFile(file: TraceFile, format: string, rest: string): Trace {
  let passedOver = 0;
  const arrivals = arrivalsOf(format, parameters(format, rest, ["concurrency", "rate"]));
  const items = (seed: number): Iterable<TraceItem> => {
    if (format === "mooncake") return mooncake(file.lines());
    if (format === "azure") return azure(file.lines());
    if (format === "burstgpt") return burstgpt(file.lines(), () => passedOver++);
    if (format === "truth") return truth(file.lines(), () => passedOver++);
    return spread(
      sharegpt(elements(file.pieces()), () => passedOver++),
      arrivals?.rate ?? null,
      seed,
    );
  };
  return {
    format,
    pace: arrivals?.pace ?? (format === "sharegpt" ? SHAREGPT_PACE : { kind: "open" }),
    bytes: file.bytes,
    bytesRead: () => file.bytesRead,
    items,
    total: null,
    adapters: 0,
    passedOver: () => passedOver,
    close: () => file.close(),
  };
}

/** What the file's beginning says, whatever its name. */
function guess(file: TraceFile, cure: string): string {
  const head = file.head(4096).trimStart();
  if (head === "") throw new TraceError(`${file.path}: the trace is empty`);
  const line = head.split(/\r?\n/, 1)[0]!;
  if (line.replaceAll('"', "").toLowerCase() === AZURE_HEADER.toLowerCase()) return "azure";
  if (isBurstgptHeader(line)) return "burstgpt";
  if (/^\{.*"(input_length|hash_ids)"\s*:/.test(line)) return "mooncake";
  if (/^\{"type":"(header|step|request)"/.test(line)) return "truth";
  if (/^[[{][\s\S]*"conversations?"\s*:/.test(head)) return "sharegpt";
  throw new TraceError(`${file.path}: its format is not clear; ${cure}`);
}

function split(format: string): [string, string] {
  const colon = format.indexOf(":");
  return colon < 0 ? [format, ""] : [format.slice(0, colon), format.slice(colon + 1)];
}
