/** Reads `--output-tokens TEXT`: the lengths of answers that nothing else ends. */

/** A distribution of lengths. */
export type OutputLengths =
  | { readonly kind: "constant"; readonly tokens: number }
  /** `sigma`: standard deviation of the length's logarithm. */
  | { readonly kind: "lognormal"; readonly meanTokens: number; readonly sigma: number }
  /** Each request has one of the output lengths in this file. */
  | { readonly kind: "trace"; readonly file: string };

export const OUTPUT_LENGTH_FORMS = "constant:N, lognormal:mean=N,sigma=X, or trace:FILE";

/** Default of `sigma`. Two thirds of the lengths are between half and twice the median. */
const SIGMA = 0.7;
const SIGMA_MOST = 3;
const TOKENS_MOST = 1_000_000;

export const DEFAULT_OUTPUT_LENGTHS: OutputLengths = { kind: "lognormal", meanTokens: 128, sigma: SIGMA };

/** Returns the lengths that `--mean-output-tokens` means. */
export function aroundMean(meanTokens: number): OutputLengths {
  return { kind: "lognormal", meanTokens, sigma: SIGMA };
}

/** Returns undefined if the text has none of the forms. */
export function parseOutputLengths(text: string): OutputLengths | undefined {
  const [, form = "", rest = ""] = /^([a-z]+):(.+)$/s.exec(text) ?? [];
  if (form === "constant") {
    const tokens = within(rest, /^\d+$/, 1, TOKENS_MOST);
    return tokens === undefined ? undefined : { kind: "constant", tokens };
  }
  if (form === "trace") return { kind: "trace", file: rest };
  if (form !== "lognormal") return undefined;
  const [, mean = "", sigma = String(SIGMA)] = /^mean=([\d.]+)(?:,sigma=([\d.]+))?$/.exec(rest) ?? [];
  const [meanTokens, spread] = [within(mean, DECIMAL, 1, TOKENS_MOST), within(sigma, DECIMAL, 0, SIGMA_MOST)];
  if (meanTokens === undefined || spread === undefined) return undefined;
  return { kind: "lognormal", meanTokens, sigma: spread };
}

/** Returns the lengths as the banner prints them. */
export function outputLengthsText(lengths: OutputLengths): string {
  if (lengths.kind === "constant") return `constant:${lengths.tokens}`;
  if (lengths.kind === "trace") return `trace:${lengths.file}`;
  return `lognormal:mean=${lengths.meanTokens},sigma=${lengths.sigma}`;
}

const DECIMAL = /^(\d+\.?\d*|\.\d+)$/;

/** Returns the number of a text, or undefined if it has another form or is out of bounds. */
function within(text: string, form: RegExp, least: number, most: number): number | undefined {
  const value = form.test(text) ? Number(text) : Number.NaN;
  return value >= least && value <= most ? value : undefined;
}
