/**
 * Which part of a page is a pasted text? People leave out lines and write `...` for them; what is missing there is no
 * defect of the server, and sums over what is left are not its sums.
 */
import type { Excerpt, ScrapedFamily } from "./exposition.ts";
import { readNumber } from "./sample-line.ts";

const GAP = /^\s*(#\s*)?(\.{3,}|…|\[\s*(\.{3}|…)\s*\]|<snip>|\[snip\])\s*$/i;
/** A text with more of them is something else. */
const GAPS_MOST = 10_000;

/** A line that stands for lines left out. */
export const isGap = (line: string): boolean => GAP.test(line);

/** Follows a reader through the lines and remembers which families a gap has touched. */
export class Tears {
  readonly #gaps = new Set<number>();
  readonly #lastLines = new Map<ScrapedFamily, number>();
  readonly torn = new Set<string>();
  #lastGap = 0;
  #cut: string | null = null;

  gap(line: number, current: ScrapedFamily | null): void {
    if (this.#gaps.size < GAPS_MOST) this.#gaps.add(line);
    this.#lastGap = line;
    if (current !== null) this.torn.add(current.name);
  }

  /** A line of the family, whatever it says. */
  line(family: ScrapedFamily, line: number): void {
    this.#lastLines.set(family, line);
  }

  sample(family: ScrapedFamily, line: number): void {
    if (this.isGapAt(line - 1)) this.torn.add(family.name);
  }

  /** True when lines were left out since the family's last one: that it goes on here is no defect then. */
  goesOnBehindGap(family: ScrapedFamily): boolean {
    const isBehind = this.#lastGap > (this.#lastLines.get(family) ?? 0);
    if (isBehind) this.torn.add(family.name);
    return isBehind;
  }

  isGapAt(line: number): boolean {
    return this.#gaps.has(line);
  }

  /** `last`: the family of the last line. A histogram that ends in a bucket and has no count yet was cut off. */
  end(last: ScrapedFamily): void {
    const sample = last.samples.at(-1);
    if (last.type !== "histogram" || sample?.name !== `${last.name}_bucket`) return;
    if (readNumber(sample.labels.le ?? "") === Number.POSITIVE_INFINITY) return;
    const series = last.samples.filter(({ name }) => name === `${last.name}_count`);
    if (series.some(({ labels }) => isSameSeries(labels, sample.labels))) return;
    this.#cut = last.name;
    this.torn.add(last.name);
  }

  excerpt(): Excerpt | null {
    if (this.#gaps.size === 0 && this.#cut === null) return null;
    return { gaps: [...this.#gaps], torn: this.torn, cut: this.#cut };
  }
}

type Labels = Readonly<Record<string, string>>;

function isSameSeries(count: Labels, bucket: Labels): boolean {
  return Object.keys(count).every((name) => count[name] === bucket[name]);
}
