/** How is a server told when its answers end by themselves? */
import {
  aroundMean,
  DEFAULT_OUTPUT_LENGTHS,
  OUTPUT_LENGTH_FORMS,
  type OutputLengths,
  outputLengthsText,
  parseOutputLengths,
} from "../../text/answers/length-forms.ts";
import { integer, ourGroup, readable } from "./option.ts";
import type { ServeValues } from "./serve-options.ts";

export const lengthOptions = ourGroup("Stand-in", {
  "output-tokens": {
    ...readable("LENGTHS", `${OUTPUT_LENGTH_FORMS}; lengths up to 1000000, sigma up to 3`, parseOutputLengths),
    default: outputLengthsText(DEFAULT_OUTPUT_LENGTHS),
    about: `When answers end by themselves, by the request's seed: ${OUTPUT_LENGTH_FORMS} (the output lengths of a trace). max_tokens cuts them, with ignore_eos they go on to it.`,
  },
  "mean-output-tokens": {
    ...integer(1, 1_000_000),
    default: "128",
    about: "Short for --output-tokens lognormal:mean=N.",
  },
});

/** The lengths, or what is wrong. `at` tells where a value came from. */
export function outputLengthsOf(
  values: ServeValues,
  at: (option: string) => string,
): { readonly outputTokens: OutputLengths } | { readonly error: string } {
  const { "output-tokens": text, "mean-output-tokens": mean } = values;
  if (text !== undefined && mean !== undefined)
    return { error: `${at("mean-output-tokens")}: ${at("output-tokens")} (${text}) says it too; take one of them` };
  if (text !== undefined) return { outputTokens: parseOutputLengths(text)! };
  return { outputTokens: mean === undefined ? DEFAULT_OUTPUT_LENGTHS : aroundMean(mean) };
}
