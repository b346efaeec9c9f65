/** Splits report pages into their parts, for tests of their content. */
import { distributionOf } from "../../../src/tools/report/distribution.ts";
import type { ReportRecord, Result } from "../../../src/tools/report/index.ts";
import type { PageData, Plot } from "../../../src/tools/report/plot.ts";

const PERCENTILES = [50, 90, 99];
export const of = (...values: number[]) => distributionOf(Float64Array.from(values), PERCENTILES);

/** Requests sent every 10 ms, 1 ms late, with 100 ms to the first token and then one token every 20 ms. */
export function record(index: number, tokens = 5, changes: Partial<ReportRecord> = {}): ReportRecord {
  const sendUs = index * 10_000 + 1000;
  const chunkUs = Float64Array.from({ length: tokens }, (_, i) => sendUs + 100_000 + i * 20_000);
  return {
    index,
    requestId: `request-${index}`,
    intendedUs: index * 10_000,
    sendUs,
    firstUs: chunkUs[0]!,
    lastUs: chunkUs.at(-1)!,
    endUs: chunkUs.at(-1)! + 500,
    chunkUs,
    inputTokens: 100 + index,
    outputTokens: tokens,
    failure: null,
    ...changes,
  };
}

export const result = (understudy: Partial<Result["understudy"]> = {}, flat: Record<string, unknown> = {}): Result => ({
  ...flat,
  understudy: { schema_version: 1, ...understudy },
});

/** Returns the parts of a page, as a browser would parse it. */
export async function read(page: string) {
  const elements: string[] = [];
  const addresses: string[] = [];
  const handlers: string[] = [];
  await new HTMLRewriter()
    .on("*", {
      element(element) {
        elements.push(element.tagName);
        for (const [name, value] of element.attributes) {
          if (["src", "href", "action", "data", "srcset", "poster"].includes(name)) addresses.push(value);
          if (name.startsWith("on")) handlers.push(name);
        }
      },
    })
    .transform(new Response(page))
    .text();
  const [, json = ""] = /<script type="application\/json" id="data">([\s\S]*?)<\/script>/.exec(page) ?? [];
  const data: PageData = JSON.parse(json);
  const plot = (id: string) => data.plots.find((plot) => plot.id === id) as Plot;
  const text = page.replace(/<(style|script)[\s\S]*?<\/\1>/g, "").replace(/<[^>]+>/g, " ");
  return { elements, addresses, handlers, data, plot, text };
}
