import type { CheckOptions, Scrape } from "../../../../src/tools/check/index.ts";

/** Each law has one: a page that keeps it, and the smallest change that breaks it. */
export interface Example {
  readonly law: string;
  /** One scrape, or several in a row. */
  readonly pages: readonly string[];
  /** What stands in the last page, and what breaks the law in its place. */
  readonly change: readonly [from: string, to: string];
  readonly options?: CheckOptions;
  /** For the last scrape, or what all of them have. */
  readonly last?: Partial<Scrape>;
  readonly each?: readonly Partial<Scrape>[];
}

/** Trimmed lines, as they stand between the quotes of a test. */
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
