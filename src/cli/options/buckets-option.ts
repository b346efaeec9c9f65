/**
 * Checks the bucket bounds of `--custom-histogram-buckets`. Rules and error messages are those of vLLM 0.33
 * (`config/observability.py`, `ObservabilityConfig.custom_histogram_buckets`).
 */
import { BOUNDS_MOST, BUCKET_FAMILIES, type BucketFamily, type HistogramBuckets } from "../../engine/config/buckets.ts";
import { pythonRepr } from "../../metrics/rows/text.ts";
import { jsonObject } from "./option.ts";

/** Accepts any JSON object. Its content is checked later by `wrongBuckets`, which can name the wrong entry. */
export const bucketsOption = jsonObject(
  `a JSON object of rising bounds, as {"request_latency": [0.1, 1]}, by ${BUCKET_FAMILIES.join(", ")}`,
);

/** Returns vLLM's error message if vLLM refuses the bounds, else undefined. `where`: place of the option, for the message. */
export function wrongBuckets(given: Readonly<Record<string, unknown>> = {}, where: string): string | undefined {
  for (const [family, bounds] of Object.entries(given)) {
    if (!BUCKET_FAMILIES.includes(family as BucketFamily))
      return `${where}: unknown bucket family '${family}'; known families: [${BUCKET_FAMILIES.map((name) => `'${name}'`).join(", ")}]`;
    const wrong = Array.isArray(bounds) ? wrongBounds(bounds) : "a list of numbers is needed";
    if (wrong !== undefined) return `${where}: ['${family}']: ${wrong}`;
  }
  return undefined;
}

function wrongBounds(bounds: readonly unknown[]): string | undefined {
  if (bounds.length === 0) return "bucket list must not be empty";
  const bool = bounds.find((bound) => typeof bound === "boolean");
  if (bool !== undefined) return `bound ${bool ? "True" : "False"} must be a number, not a boolean`;
  const other = bounds.find((bound) => typeof bound !== "number");
  if (other !== undefined) return `bound ${JSON.stringify(other)} must be a number`;
  const numbers = bounds as readonly number[];
  const outside = numbers.find((bound) => !(Number.isFinite(bound) && bound > 0));
  if (outside !== undefined) return `bound ${pythonRepr(outside)} must be finite and greater than 0`;
  if (numbers.some((bound, i) => i > 0 && numbers[i - 1]! >= bound))
    return `bounds [${numbers.map(pythonRepr).join(", ")}] must be strictly increasing`;
  return numbers.length > BOUNDS_MOST
    ? `at most ${BOUNDS_MOST} bounds, not ${numbers.length}; vLLM has no limit`
    : undefined;
}

/** Returns the bounds with their type, without a check. Call it only if `wrongBuckets` has found no error in the bounds. */
export const checkedBuckets = (given: Readonly<Record<string, unknown>>) => given as HistogramBuckets;
