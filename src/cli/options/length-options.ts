/** The options of the lengths of answers that no limit ends. */
import {
  aroundMean,
  DEFAULT_OUTPUT_LENGTHS,
  OUTPUT_LENGTH_FORMS,
  outputLengthsText,
  parseOutputLengths,
} from "../../text/answers/length-forms.ts";
import { ourServeGroup } from "./landing.ts";
import { integer, readable } from "./option.ts";
import type { ServeValues } from "./serve-options.ts";

export const lengthOptions = ourServeGroup("Stand-in", {
  "output-tokens": {
    lands: "text.outputTokens",
    as: (text: string) => parseOutputLengths(text)!,
    ...readable("LENGTHS", `${OUTPUT_LENGTH_FORMS}; lengths up to 1000000, sigma up to 3`, parseOutputLengths),
    initial: DEFAULT_OUTPUT_LENGTHS,
    default: outputLengthsText(DEFAULT_OUTPUT_LENGTHS),
    about: `When answers end by themselves, by the request's seed: ${OUTPUT_LENGTH_FORMS} (the output lengths of a trace). max_tokens cuts them, with ignore_eos they go on to it.`,
  },
  "mean-output-tokens": {
    lands: "text.outputTokens",
    as: aroundMean,
    ...integer(1, 1_000_000),
    default: "128",
    about: "Short for --output-tokens lognormal:mean=N.",
  },
});

/** The line of an error if two options give the lengths, or undefined. `at`: where an option was given. */
export function doubleLengths(values: ServeValues, at: (option: string) => string): string | undefined {
  const { "output-tokens": text, "mean-output-tokens": mean } = values;
  if (text === undefined || mean === undefined) return undefined;
  return `${at("mean-output-tokens")}: ${at("output-tokens")} (${text}) says it too; take one of them`;
}
