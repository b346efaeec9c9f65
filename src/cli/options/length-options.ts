/** Options that set how long an answer is if it ends before max_tokens. */
import {
  aroundMean,
  DEFAULT_OUTPUT_LENGTHS,
  OUTPUT_LENGTH_FORMS,
  outputLengthsText,
  parseOutputLengths,
} from "../../text/answers/length-forms.ts";
import { ourServeGroup } from "./landing.ts";
import { integer, readable, row } from "./option.ts";
import type { ServeValues } from "./serve-options.ts";

export const lengthOptions = ourServeGroup("Stand-in", {
  "output-tokens": row(
    `Lengths in tokens at which answers end by themselves, drawn from the request's seed: ${OUTPUT_LENGTH_FORMS} (the output lengths of a trace). max_tokens cuts longer answers; with ignore_eos all reach it.`,
    {
      lands: "text.outputTokens",
      as: (text: string) => parseOutputLengths(text)!,
      ...readable("LENGTHS", `${OUTPUT_LENGTH_FORMS}; lengths up to 1000000, sigma up to 3`, parseOutputLengths),
      initial: DEFAULT_OUTPUT_LENGTHS,
      default: outputLengthsText(DEFAULT_OUTPUT_LENGTHS),
    },
  ),
  "mean-output-tokens": row("Same as --output-tokens lognormal:mean=N.", {
    lands: "text.outputTokens",
    as: aroundMean,
    ...integer(1, 1_000_000),
    default: "128",
  }),
});

/**
 * Returns an error message if more than one option sets the lengths of answers, else undefined. `at`: returns the place where
 * the user set an option.
 */
export function doubleLengths(values: ServeValues, at: (option: string) => string): string | undefined {
  const { "output-tokens": text, "mean-output-tokens": mean } = values;
  if (text === undefined || mean === undefined) return undefined;
  return `${at("mean-output-tokens")}: ${at("output-tokens")} (${text}) sets it too; use one of them`;
}
