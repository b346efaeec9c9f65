/**
 * Finds the places where a pasted text leaves out lines of a page. People write `...` there. A missing line is then no defect
 * of the server, and sums over the remaining lines are not the server's sums.
 */
import type { Excerpt, ScrapedFamily } from "./exposition.ts";
import { readNumber } from "./sample-line.ts";

const GAP = /^\s*(#\s*)?(\.{3,}|…|\[\s*(\.{3}|…)\s*\]|<snip>|\[snip\])\s*$/i;
/** Maximum number of left-out places that are kept. A text with more is not an excerpt of a page. */
const GAPS_MOST = 10_000;

/** Reports whether a line stands for left-out lines. */
export const isGap = (line: string): boolean => GAP.test(line);

/** Records during the reading of a page which families may lack lines. */
export class GapTracker {
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

  /** Records a line of the family, of whatever kind. */
  line(family: ScrapedFamily, line: number): void {
    this.#lastLines.set(family, line);
  }

  sample(family: ScrapedFamily, line: number): void {
    if (this.isGapAt(line - 1)) this.torn.add(family.name);
  }

  /** True if lines were left out since the family's last line. Then it is no defect that the family continues here. */
  goesOnBehindGap(family: ScrapedFamily): boolean {
    const isBehind = this.#lastGap > (this.#lastLines.get(family) ?? 0);
    if (isBehind) this.torn.add(family.name);
    return isBehind;
  }

  isGapAt(line: number): boolean {
    return this.#gaps.has(line);
  }

  /**
   * Records the end of the text. A histogram that ends in a bucket, and has no count for that series, was cut off. `last`: the
   * family of the last line.
   */
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
