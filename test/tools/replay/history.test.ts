/** Tests that a history contains every sample of every page in the order of OpenMetrics, with any amount of memory. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { clients, PATIENT } from "../../../src/tools/replay/clients.ts";
import { History, type ScrapeTarget, type Spool } from "../../../src/tools/replay/history.ts";

function memorySpool(): Spool & { appended: number } {
  const pieces: number[] = [];
  return {
    appended: 0,
    append(bytes) {
      const at = pieces.length;
      pieces.push(...bytes);
      this.appended++;
      return at;
    },
    read: (at, length) => Uint8Array.from(pieces.slice(at, at + length)),
  };
}

const A: ScrapeTarget = { job: "vllm", instance: "a:8000" };
const B: ScrapeTarget = { job: "triton", instance: "a:8000" };
const textOf = (history: History) => [...history.file()].join("");

/** Returns the lines of the pages, without the series that a scraper adds. */
const pageLines = (history: History) =>
  textOf(history)
    .split("\n")
    .filter((line) => !/^(# TYPE )?(up|scrape_\w+)[ {]/.test(line));

test("a page in OpenMetrics, as vLLM's front end in Rust has it, keeps its names, types and help texts", () => {
  const page = (count: number) => `# HELP x:tokens So \\"called\\".
# TYPE x:tokens counter
x:tokens_total{model="m"} ${count}
# HELP t Seconds.
# TYPE t histogram
t_sum{model="m"} 0.5
t_count{model="m"} ${count}
t_bucket{le="+Inf",model="m"} ${count}
# EOF
`;
  const history = new History(memorySpool());
  history.add(A, page(1), 15);
  const m = 'job="vllm",instance="a:8000",model="m"';
  expect(pageLines(history).join("\n")).toBe(`# HELP x:tokens So \\"called\\".
# TYPE x:tokens counter
x:tokens_total{${m}} 1 15
# HELP t Seconds.
# TYPE t histogram
t_sum{${m}} 0.5 15
t_count{${m}} 1 15
t_bucket{${m.replace("model", 'le="+Inf",model')}} 1 15
# EOF
`);
});

test("counters, creation times, histograms, summaries, help texts and unusual numbers are converted", () => {
  const page = (count: number) => `# HELP x:tokens_total So "called" tokens\\n.
# TYPE x:tokens_total counter
x:tokens_total{model="m"} ${count}.0
# HELP x:tokens_created So called
# TYPE x:tokens_created gauge
x:tokens_created{model="m"} 7.0
# HELP nv_count Without the ending
# TYPE nv_count counter
nv_count{model="m"} ${count}
# HELP t Seconds
# TYPE t histogram
t_bucket{le="1.0",model="m"} ${count}
t_bucket{le="+Inf",model="m"} ${count}
t_count{model="m"} ${count}
t_sum{model="m"} 0.5
# HELP s Quantiles
# TYPE s summary
s{model="m",quantile="0.5"} Nan
s_count{model="m"} 0
# TYPE plain gauge
plain 1e-05
`;
  const history = new History(memorySpool());
  history.add(A, page(1), 15);
  history.add(A, page(2), 30.5);
  const m = 'job="vllm",instance="a:8000",model="m"';
  const le = (bound: string) => `job="vllm",instance="a:8000",le="${bound}",model="m"`;
  expect(pageLines(history).join("\n")).toBe(`# HELP x:tokens So \\"called\\" tokens\\n.
# TYPE x:tokens counter
x:tokens_total{${m}} 1.0 15
x:tokens_created{${m}} 7.0 15
x:tokens_total{${m}} 2.0 30.5
x:tokens_created{${m}} 7.0 30.5
# HELP nv_count Without the ending
# TYPE nv_count unknown
nv_count{${m}} 1 15
nv_count{${m}} 2 30.5
# HELP t Seconds
# TYPE t histogram
t_bucket{${le("1.0")}} 1 15
t_bucket{${le("+Inf")}} 1 15
t_count{${m}} 1 15
t_sum{${m}} 0.5 15
t_bucket{${le("1.0")}} 2 30.5
t_bucket{${le("+Inf")}} 2 30.5
t_count{${m}} 2 30.5
t_sum{${m}} 0.5 30.5
# HELP s Quantiles
# TYPE s summary
s{${m},quantile="0.5"} NaN 15
s_count{${m}} 0 15
s{${m},quantile="0.5"} NaN 30.5
s_count{${m}} 0 30.5
# TYPE plain gauge
plain{job="vllm",instance="a:8000"} 1e-05 15
plain{job="vllm",instance="a:8000"} 1e-05 30.5
# EOF
`);
});

test("the series of a scraper are added: up, duration, number of samples, number of new series", () => {
  const history = new History(memorySpool());
  history.add(A, "# TYPE a gauge\na 1\n", 0);
  history.add(A, '# TYPE a gauge\na 1\na{b="c"} 2\n', 15);
  history.add(B, "# TYPE a gauge\na 1\n", 15);
  const lines = textOf(history).split("\n");
  const of = (name: string) => lines.filter((line) => line.startsWith(`${name}{`)).map((line) => line.split("} ")[1]);
  expect(of("up")).toEqual(["1 0", "1 15", "1 15"]);
  expect(of("scrape_samples_scraped")).toEqual(["1 0", "2 15", "1 15"]);
  expect(of("scrape_series_added")).toEqual(["1 0", "1 15", "1 15"]);
  expect(of("scrape_duration_seconds")).toEqual(["0 0", "0 15", "0 15"]);
  expect(of("a")).toEqual(["1 0", "1 15", "2 15", "1 15"]);
});

test("any pages: a metric's samples are consecutive with rising times, none is lost, and little memory suffices", () => {
  const series = fc.record({ family: fc.nat(3), label: fc.nat(2), value: fc.nat(99) });
  const scrape = fc.record({
    target: fc.constantFrom(A, B),
    samples: fc.uniqueArray(series, { selector: (s) => `${s.family} ${s.label}` }),
  });
  fc.assert(
    fc.property(fc.array(scrape, { maxLength: 12 }), fc.nat(400), (scrapes, heldMost) => {
      const spool = memorySpool();
      const [roomy, tight] = [new History(memorySpool()), new History(spool, undefined, heldMost)];
      const expected: string[] = [];
      scrapes.forEach(({ target, samples }, atS) => {
        const page = samples.toSorted((a, b) => a.family - b.family);
        const text = page.map(
          ({ family, label, value }) => `# TYPE f${family} gauge\nf${family}{l="${label}"} ${value}\n`,
        );
        for (const history of [roomy, tight]) history.add(target, text.join(""), atS);
        for (const { family, label, value } of page) {
          expected.push(`f${family}{job="${target.job}",instance="${target.instance}",l="${label}"} ${value} ${atS}`);
        }
      });
      expect(textOf(tight)).toBe(textOf(roomy));
      if (expected.length * 50 > heldMost + 50) expect(spool.appended).toBeGreaterThan(0);
      const lines = pageLines(roomy).filter((line) => line.startsWith("f"));
      expect(lines.toSorted()).toEqual(expected.toSorted());
      // The samples of a metric are consecutive, and their times rise.
      const seen = new Set<string>();
      let [last, lastAt] = ["", -1];
      for (const line of lines) {
        const [name, , at] = line.split(/ (?=[^{}]*$)| (?=\d+$)/) as [string, string, string];
        if (name !== last) {
          expect(seen.has(name)).toBe(false);
          seen.add(name);
          lastAt = -1;
        }
        expect(Number(at)).toBeGreaterThan(lastAt);
        [last, lastAt] = [name, Number(at)];
      }
    }),
  );
});

describe("clients", () => {
  const draw = (options: Parameters<typeof clients>[0], count = 4000) => {
    const next = clients(options);
    return Array.from({ length: count }, next);
  };

  test("patient clients never leave", () => {
    expect(draw(PATIENT, 3)).toEqual(Array(3).fill({ stops: false, leavesAfterUs: Number.POSITIVE_INFINITY }));
  });

  test("shares and ranges are as ordered, and equal seeds give equal draws", () => {
    const options = { stopShare: 0.3, patienceUs: [2e6, 6e6] as const, seed: 5 };
    const drawn = draw(options);
    expect(draw(options)).toEqual(drawn);
    expect(draw({ ...options, seed: 6 })).not.toEqual(drawn);
    const stops = drawn.filter((client) => client.stops).length / drawn.length;
    expect(stops).toBeGreaterThan(0.27);
    expect(stops).toBeLessThan(0.33);
    const waits = drawn.map((client) => client.leavesAfterUs);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(2e6);
    expect(Math.max(...waits)).toBeLessThanOrEqual(6e6);
    expect(waits.reduce((sum, wait) => sum + wait) / waits.length / 1e6).toBeCloseTo(4, 0);
  });
});
