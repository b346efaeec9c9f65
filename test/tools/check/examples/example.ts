/** Defines the form of the laws' examples, and helpers that write their pages. */
import type { CheckOptions, Scrape } from "../../../../src/tools/check/index.ts";

/** An example of a law: a page that keeps it, and the smallest change that breaks it. */
export interface Example {
  readonly law: string;
  /** One scrape, or several successive ones. */
  readonly pages: readonly string[];
  /** A text in the last page, and the text that breaks the law in its place. */
  readonly change: readonly [from: string, to: string];
  readonly options?: CheckOptions;
  /** Options for the last scrape, or for all. */
  readonly last?: Partial<Scrape>;
  readonly each?: readonly Partial<Scrape>[];
}

/** Trims the lines, which are indented inside a test. */
export function page(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}

export function scrapesOf({ pages, last, each }: Example, lastPage = pages.at(-1)!): Scrape[] {
  return pages.map((text, i) => ({
    ...each?.[i],
    ...(i === pages.length - 1 ? { ...last, text: lastPage } : { text }),
  }));
}
