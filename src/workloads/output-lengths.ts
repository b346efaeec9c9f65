/** Which output lengths are in a trace? For `--output-tokens trace:FILE`, in any format that a file itself tells. */
import { openTrace } from "./open.ts";
import { TraceError } from "./trace.ts";

/** Four megabytes; of a longer trace the first ones are taken. */
const LENGTHS_MOST = 1_000_000;
/** The core's positions have 32 bits, and no context is that long. */
const TOKENS_MOST = 2 ** 30;

/** At least one length. Throws a TraceError in one line: the file, where it is wrong, what stands there in a good one. */
export function readOutputLengths(file: string): Uint32Array {
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
