/** Tests that the page of a run shows its numbers, for any names and any length of the run, and loads nothing. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { visibleText } from "../../../src/base/printable.ts";
import { distributionOf } from "../../../src/tools/report/distribution.ts";
import { html } from "../../../src/tools/report/index.ts";
import { fourDigits } from "../../../src/tools/report/numbers.ts";
import { times } from "../../size.ts";
import { of, read, record, result } from "./reader.ts";

test("a minimal result gives a complete page", async () => {
  const { elements, data, text } = await read(html(result(), []));
  expect(data).toEqual({ plots: [], waterfall: null });
  expect(elements.filter((tag) => tag === "figure")).toEqual([]);
  expect(text).toContain("Load on a server");
});

test("the inline script is valid", () => {
  const scripts = [...html(result(), []).matchAll(/<script>([\s\S]*?)<\/script>/g)];
  expect(scripts).toHaveLength(1);
  expect(() => new Function(scripts[0]![1]!)).not.toThrow();
});

/** The page's own script. */
const SCRIPT = /<script>[\s\S]*?<\/script>/;

test("an escape sequence from a server is shown, in texts and in plots", async () => {
  const name = "\u001b[31mred\u009b2J";
  const failure = { kind: name, message: name };
  const page = html(result({ title: name, errors: { [name]: 1 } }), [record(0, 5, { requestId: name, failure })]);
  const { data, text } = await read(page);
  expect(page.replace(SCRIPT, "")).not.toMatch(/\p{Cc}(?<![\n\t])/u);
  expect(text).toContain("\\x1b[31mred\\x9b2J");
  expect(data.waterfall!.ids).toEqual(["\\x1b[31mred\\x9b2J"]);
});

test("names, commands and errors appear as text, and nothing is loaded", () => {
  const smuggled = fc.constantFrom(
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><iframe src="https://example.com">',
    "<!--",
    "' onclick='x",
    "\u2028</SCRIPT >",
  );
  const text = fc.oneof(smuggled, fc.string({ unit: "binary" }));
  return fc.assert(
    fc.asyncProperty(text, text, text, async (first, second, third) => {
      const part = {
        title: first,
        command: second,
        warnings: [third],
        versions: { [first]: second },
        metadata: { [second]: third },
        definitions: { ttft: third, [first]: second },
        errors: { [third]: 2 },
        distributions: { ttft: of(1, 2), [second]: of(1) },
        truth: { errors: { [first]: of(1, 2) } },
        server_metrics: { delta: { [third]: 3 } },
      };
      const failure = { kind: first, message: second };
      const page = html(result(part, { model_id: first, [second]: third }), [
        record(0, 5, { requestId: third, failure }),
      ]);
      const { elements, addresses, handlers, data } = await read(page);
      const plainly = { ...part, title: "", command: "a", warnings: ["a"] };
      const failed = record(0, 5, { failure: { kind: "a", message: "a" } });
      const plain = await read(html(result(plainly, { model_id: "a", b: "c" }), [failed]));
      expect(elements.filter((tag) => tag === "script")).toHaveLength(2);
      expect([addresses, handlers]).toEqual([[], []]);
      expect(new Set(elements)).toEqual(new Set(plain.elements));
      expect(data.waterfall!.ids).toEqual([visibleText(third)]);
      expect(page.replace(SCRIPT, "").replaceAll(/[\n\t]/g, "")).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
    }),
    { numRuns: times(60) },
  );
});

test("the security policy allows only the page's own script and style", () => {
  const page = html(result(), []);
  expect(page).toContain("default-src &#39;none&#39;; script-src &#39;unsafe-inline&#39;");
  expect(page).not.toMatch(/@import|url\(/);
});

describe("numbers", () => {
  // The logarithm of the first number rounds up to 4.
  test.each([
    [9999.999999999996, "10,000"],
    [12345.6, "12,346"],
    [123.456, "123.5"],
    [1.5, "1.50"],
    [0.01234, "0.0123"],
    [0, "0"],
    [-2.5, "-2.50"],
    [null, "–"],
    ["inf", "inf"],
  ])("%p reads %s", (value, expected) => expect(fourDigits(value)).toBe(expected));

  test("all metrics, each with its steady window and the definition from the result", async () => {
    const steady = { from_s: 1, to_s: 2, distributions: { ttft: of(7) } };
    const part = {
      distributions: { e2el: of(5000), ttft: of(1, 2, 3), mine: of(4) },
      steady,
      definitions: { mine: "my own" },
    };
    const { text } = await read(html(result(part), []));
    const rows = text.replace(/\s+/g, " ");
    expect(rows).toMatch(/TTFT 2 0\.8165 1 2 2.80 2.98 3 3 steady window 7 0 7 7 7 7 7 1 E2E 5,000/);
    expect(rows).toMatch(/mine 4 0 4/);
    expect(rows).toContain("mine my own");
    expect(rows).toContain("time to first token: from the first byte");
  });

  test("adjusted percentiles count failed requests as infinitely slow, and our numbers are next to vLLM's", async () => {
    const part = {
      distributions: { ttft: of(1, 2) },
      adj: { ttft: { p50: 2, p99: null } },
      counts: { sent: 3 },
      client: { cpu_s: 1.5 },
    };
    const rows = (await read(html(result(part, { itls: [1, 2], label: null }), []))).text.replace(/\s+/g, " ");
    expect(rows).toContain("failed as ∞ 2 ∞ TTFT");
    expect(rows).toContain(
      "label – understudy.schema_version 1 understudy.counts.sent 3 understudy.client.cpu_s 1.50 ",
    );
  });

  test("ITL and ICL are one row if they are equal, else two rows", async () => {
    const same = await read(html(result({ distributions: { itl: of(1, 2), icl: of(1, 2) } }), []));
    expect(same.text).toContain("ITL = ICL");
    const other = await read(html(result({ distributions: { itl: of(0, 2), icl: of(2, 2) } }), []));
    expect(other.text).not.toContain("ITL = ICL");
  });

  test("tiles at the top, and failures by kind", async () => {
    const flat = {
      output_throughput: 1234.5,
      request_throughput: 10,
      request_goodput: 8,
      completed: 90,
      failed: 10,
      duration: 9,
      mean_ttft_ms: 1.5,
    };
    const part = {
      errors: { timeout: 1, "mid-stream end": 9, connect: 0 },
      slo: { ttft: 500 },
      distributions: { ttft: of(20_000, 20_000) },
      retries: { limit: 2, count: 30, requests: 20, per_request: 0.3 },
      tokens_per_s_per_user: distributionOf(Float64Array.of(10, 40, 40), [10, 50]),
    };
    const rows = (await read(html(result(part, flat), []))).text.replace(/\s+/g, " ");
    expect(rows).toContain("Output 1,235 tokens/s");
    expect(rows).toContain("TTFT p50 20 s p99 20 s");
    expect(rows).toContain("Goodput 8 /s within TTFT 500 ms");
    expect(rows).toContain("Retries 30 of 20 requests, 0.3 per request");
    expect(rows).toContain("Per user p50 40 tokens/s p10 16 tokens/s");
    expect(rows).toContain("Failed 10 of 100 requests");
    expect(rows).toMatch(/completed 90 90 % mid-stream end 9 9 % timeout 1 1 %/);
    expect(rows).toContain("mean_ttft_ms 1.50");
  });
});

describe("plots", () => {
  test("cumulative shares, with the SLO and the share within it", async () => {
    const values = Array.from({ length: 1000 }, (_, i) => 10 + i / 100);
    const { plot } = await read(
      html(
        result({
          distributions: { ttft: of(...values), ttft_intended: of(...values.map((v) => 2 * v)) },
          slo: { ttft: 15 },
        }),
        [],
      ),
    );
    const { data, marks, lines, note } = plot("cdf-ttft");
    expect(lines.map(({ label }) => label)).toEqual(["TTFT", "TTFT from intended"]);
    expect(marks).toMatchObject([{ axis: "x", at: 15 }]);
    expect(note).toMatch(/(49|50)\.\d % within the SLO/);
    const [xs, first, late] = data as number[][];
    xs!.forEach((x, i) => {
      expect(i === 0 || x >= xs![i - 1]!).toBe(true);
      expect(Math.abs(first![i]! - Math.max(0, Math.min(1, (x - 10) / 10)))).toBeLessThan(0.025);
      expect(Math.abs(late![i]! - Math.max(0, Math.min(1, (x - 20) / 20)))).toBeLessThan(0.025);
    });
    expect([first!.at(-1), late!.at(-1)]).toEqual([1, 1]);
  });

  test("the timeline marks long token gaps and names failures", async () => {
    const slow = Float64Array.from([100_000, 120_000, 150_000, 210_000]);
    const records = [
      record(1, 4, { chunkUs: slow, scheduledUs: 50_000 }),
      record(0, 5, {
        failure: { kind: "timeout", message: "too long" },
        firstUs: Number.NaN,
        lastUs: Number.NaN,
        chunkUs: [],
      }),
      record(2, 0, { sendUs: Number.NaN }),
    ];
    const { data } = await read(html(result(), records));
    expect(data.waterfall).toMatchObject({
      ids: ["request-0", "request-1"],
      send: [0.001, 0.011],
      scheduled: [null, 0.05],
      first: [null, 0.111],
      failure: ["timeout: too long", ""],
      thresholdsMs: [25, 50],
      outliers: { row: [1, 1], at: [0.15, 0.21], gapMs: [30, 60] },
    });
  });

  test("if the median gap exceeds the threshold, marks begin at twice the median", async () => {
    const { data } = await read(html(result({ distributions: { itl: of(40, 40, 40) } }), [record(0)]));
    expect(data.waterfall!.thresholdsMs).toEqual([80, 160]);
  });

  test("intended and actual sends, lateness, TTFT by input length", async () => {
    const records = Array.from({ length: 50 }, (_, i) => record(49 - i));
    const { plot } = await read(html(result(), records));
    const [seconds, intended, sent] = plot("arrivals").data as number[][];
    seconds!.forEach((t, i) => {
      // Times are drawn with five digits.
      expect(Math.abs(intended![i]! - Math.min(50, Math.floor(t / 0.01) + 1))).toBeLessThanOrEqual(1);
      expect(Math.abs(sent![i]! - Math.max(0, Math.floor((t - 0.001) / 0.01) + 1))).toBeLessThanOrEqual(1);
    });
    expect(plot("delay").data[1]).toEqual(Array(50).fill(1));
    expect(plot("scatter").data).toEqual([
      records.map(({ inputTokens }) => inputTokens).sort((a, b) => a - b),
      Array(50).fill(100),
    ]);
  });

  test("over time: counters become rates; the server's gauges", async () => {
    const timeseries = [1, 2, 4].map((t) => ({
      t,
      running: t,
      sent: 10 * t,
      completed: 8 * t,
      output_tokens: 100 * t * t,
      ttft_p50: 50,
      itl_p50: 0,
    }));
    const server = [0, 1].map((t) => ({ t, running: 1, waiting: 2, kv_usage: 0.5, preemptions: t }));
    const { plot } = await read(html(result({ timeseries, server_metrics: { timeseries: server } }), []));
    expect(plot("throughput").data).toEqual([
      [1, 2, 4],
      [100, 300, 600],
    ]);
    expect(plot("requests").data.slice(1)).toEqual([
      [10, 10, 10],
      [8, 8, 8],
    ]);
    expect(plot("concurrency").data[1]).toEqual([1, 2, 4]);
    expect(plot("latency-time").data.slice(1)).toEqual([
      [50, 50, 50],
      [null, null, null],
    ]);
    expect(plot("server-queue").data).toEqual([
      [0, 1],
      [1, 1],
      [2, 2],
    ]);
    expect(plot("server-kv").data[1]).toEqual([0.5, 0.5]);
    expect(plot("server-preemptions").data[1]).toEqual([0, 1]);
  });

  test("a sweep by rate in rising order, or by concurrency without rates", async () => {
    const point = (rate: number | null, concurrency: number, ms: number) => ({
      request_rate: rate,
      concurrency,
      request_throughput: 2 * ms,
      output_throughput: 3 * ms,
      request_goodput: ms,
      distributions: { ttft: of(ms) },
    });
    const byRate = await read(html(result({ sweep: [point(4, 1, 20), point(2, 9, 10)], slo: { ttft: 15 } }), []));
    expect(byRate.plot("sweep-ttft")).toMatchObject({
      title: "TTFT against rate",
      data: [
        [2, 4],
        [10, 20],
        [10, 20],
        [10, 20],
      ],
      marks: [{ axis: "y", at: 15 }],
    });
    expect(byRate.plot("sweep-throughput").data).toEqual([
      [2, 4],
      [20, 40],
      [10, 20],
    ]);
    expect(byRate.text.replace(/\s+/g, " ")).toMatch(
      /rate at once requests\/s tokens\/s goodput TTFT p50 TTFT p99 4 1 40 60 20 20 20 2 9 20 30 10 10 10 /,
    );
    const closed = await read(html(result({ sweep: [point(null, 1, 20), point(null, 9, 10)] }), []));
    expect(closed.plot("sweep-tokens").data).toEqual([
      [1, 9],
      [60, 30],
    ]);
  });

  test("the extreme measuring errors are only in the table, and x values rise on both sides of zero", () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.double({ min: -1e4, max: 1e4, noNaN: true }), { minLength: 1 }), async (values) => {
        const { plot, text } = await read(html(result({ truth: { errors: { itl: of(...values) } } }), []));
        const [xs, shares] = plot("truth").data as number[][];
        expect(xs!.every((x, i) => i === 0 || x >= xs![i - 1]!)).toBe(true);
        expect(shares!.every((share, i) => i === 0 || share >= shares![i - 1]!)).toBe(true);
        expect(shares!.at(-1)).toBeGreaterThanOrEqual(0.98);
        expect(text).toContain("98 % are drawn");
      }),
    ));

  test("measured minus true, on both sides of zero", async () => {
    const { plot, text } = await read(
      html(result({ truth: { errors: { ttft: of(-0.5, 0, 0.25, 1) }, lateness_ms: of(3) } }), []),
    );
    expect(plot("truth").data[0]![0]).toBeLessThan(0);
    expect(plot("truth").data[1]!.at(-1)).toBe(1);
    expect(text).toContain("measured − true");
    expect(text).toMatch(/own lateness\s+3 /);
  });
});

test("the page of a long run stays below a megabyte and states the share of requests that it shows", async () => {
  const records = Array.from({ length: 20_000 }, (_, i) => {
    const chunkUs = Float64Array.from(
      { length: 50 },
      (_, k) => i * 10_000 + 100_000 + k * 60_000 + ((i * 7919) % 1000),
    );
    return record(i, 50, { chunkUs });
  });
  const gaps = Array.from({ length: 1e6 }, (_, i) => 1 + ((i * 7919) % 1e6) / 1e5);
  const timeseries = Array.from({ length: 100_000 }, (_, t) => ({
    t,
    running: t % 97,
    sent: t,
    completed: t,
    output_tokens: t * 3.7,
    ttft_p50: t,
    itl_p50: t,
  }));
  const server = timeseries.map(({ t }) => ({
    t,
    running: t,
    waiting: t,
    kv_usage: ((t * 31) % 101) / 101,
    preemptions: t,
  }));
  const itl = distributionOf(Float64Array.from(gaps), [50, 90, 99]);
  const distributions = { ttft: itl, itl, icl: itl, tpot: itl, e2el: itl, queue: itl };
  const page = html(result({ distributions, timeseries, server_metrics: { timeseries: server } }), records);
  expect(page.length).toBeLessThan(1_000_000);
  const { data, text } = await read(page);
  expect(text).toContain("160 of 20,000 requests");
  expect(text).toMatch(/2,000 of 20,000 requests|1,9\d\d of 20,000 requests/);
  expect(data.waterfall!.outliers.row.length).toBe(4000);
  for (const { data: columns } of data.plots) expect(columns[0]!.length).toBeLessThanOrEqual(2000);
});
