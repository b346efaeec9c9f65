/** What does the server say of itself? One scrape of `/metrics`, read without the server's own code. */

export class Page {
  constructor(readonly text: string) {}

  static async of(port: number): Promise<Page> {
    return new Page(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  }

  /** Sum over all samples of the name whose labels contain each of `labels` (as printed: `outcome="abort"`). */
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

  /** Mean of a histogram's observations since an earlier page, and how many there were. */
  since(before: Page, name: string): { readonly mean: number; readonly count: number } {
    const count = this.value(`${name}_count`) - before.value(`${name}_count`);
    return { mean: (this.value(`${name}_sum`) - before.value(`${name}_sum`)) / count, count };
  }
}
