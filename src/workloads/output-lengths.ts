/** Reads the output lengths of a trace for `--output-tokens trace:FILE`, in any format that can be recognised from the file. */
import { UserError } from "../base/start-errors.ts";
import { openTrace } from "./open.ts";
import { TraceError } from "./trace.ts";

/** Largest number of lengths, 4 MB. A longer trace only contributes its first lengths. */
const LENGTHS_MOST = 1_000_000;
/** Largest length: the core's positions have 32 bits, and no context is this long. */
const TOKENS_MOST = 2 ** 30;

/** Returns at least one length. Throws a `UserError` that names the file, the line and the expected contents. */
export function readOutputLengths(file: string): Uint32Array {
  try {
    return lengthsIn(file);
  } catch (error) {
    if (error instanceof TraceError) throw new UserError("--output-tokens trace", error.message);
    throw error;
  }
}

function lengthsIn(file: string): Uint32Array {
  const trace = openTrace(
    file,
    null,
    {},
    "a trace of mooncake, bailian, weka, azure, burstgpt, otel, sharegpt or our truth log is expected",
  );
  const lengths: number[] = [];
  try {
    for (const item of trace.items(0)) {
      if ("expected" in item) throw new TraceError(`${file}:${item.line}: expected ${item.expected}`);
      if (lengths.push(Math.min(item.outputTokens, TOKENS_MOST)) === LENGTHS_MOST) break;
    }
  } finally {
    trace.close();
  }
  if (lengths.length === 0) throw new TraceError(`${file}: no request with an output length`);
  return Uint32Array.from(lengths);
}
