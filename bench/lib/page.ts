/** Scrapes `/metrics` and reads values from the page, without the server's own code. */

export class Page {
  constructor(readonly text: string) {}

  static async of(port: number): Promise<Page> {
    return new Page(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  }

  /** Returns the sum of all samples of `name` with each of `labels` (as printed: `outcome="abort"`). NaN without samples. */
  value(name: string, ...labels: string[]): number {
    let sum = Number.NaN;
    for (const line of this.text.split("\n")) {
      if (!line.startsWith(name)) continue;
      const after = line[name.length];
      if (after !== "{" && after !== " ") continue;
      if (!labels.every((label) => line.includes(label))) continue;
      sum = (Number.isNaN(sum) ? 0 : sum) + Number(line.slice(line.lastIndexOf(" ") + 1));
    }
    return sum;
  }

  /** Returns the mean and the number of a histogram's observations since an earlier page. */
  since(before: Page, name: string): { readonly mean: number; readonly count: number } {
    const count = this.value(`${name}_count`) - before.value(`${name}_count`);
    return { mean: (this.value(`${name}_sum`) - before.value(`${name}_sum`)) / count, count };
  }
}
