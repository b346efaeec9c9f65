/** Compares the text of Triton's families with a real tritonserver 2.51: two recorded pages and its number format. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { MeterField, modelWidth } from "../../../src/metrics/ensemble/model-numbers.ts";
import { TritonModel } from "../../../src/metrics/ensemble/models.ts";
import { pages } from "../../../src/metrics/page.ts";
import type { Identity } from "../../../src/metrics/rows/identity.ts";
import { printG16, prometheusCpp } from "../../../src/metrics/triton/style.ts";
import { parseExposition } from "../parse.ts";
import { emptyEngine, emptySnapshot, identity } from "../snapshots.ts";

const recorded = (name: string) => readFileSync(join(import.meta.dir, ".", name), "utf8");

/** C's `%.16g`. */
const NUMBERS: readonly (readonly [number, string])[] = [
  [0, "0"],
  [-0, "-0"],
  [1, "1"],
  [-1.5, "-1.5"],
  [0.5, "0.5"],
  [0.1, "0.1"],
  [0.07, "0.07000000000000001"],
  [0.53, "0.53"],
  [1 / 3, "0.3333333333333333"],
  [2 / 3, "0.6666666666666666"],
  [0.0001, "0.0001"],
  [0.00001, "1e-05"],
  [1.5e-7, "1.5e-07"],
  [5e-324, "4.940656458412465e-324"],
  [85_899_345_920, "85899345920"],
  [1_795_297_745_850_370, "1795297745850370"],
  [9_007_199_254_740_991, "9007199254740991"],
  [1e16, "1e+16"],
  [1.5e16, "1.5e+16"],
  [123456.789, "123456.789"],
  [1e15 + 0.5, "1000000000000000"],
  [1e15 + 1.5, "1000000000000002"],
  [1e14 + 0.25, "100000000000000.2"],
  [1.7976931348623157e308, "1.797693134862316e+308"],
  [Number.NaN, "Nan"],
  [Number.POSITIVE_INFINITY, "+Inf"],
  [Number.NEGATIVE_INFINITY, "-Inf"],
];

test.each(NUMBERS)("%p prints %s", (value, text) => expect(printG16(value)).toBe(text));

test("any number reads back to 16 digits and has C's form", () =>
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const text = printG16(value);
      expect(text).toMatch(/^-?(\d+(\.\d*[1-9])?)(e[+-]\d{2,3})?$/);
      expect(text.replace(/e.*|[-.]|^0+\.?0*/g, "").length).toBeLessThanOrEqual(17);
      expect(Math.abs(Number(text) - value)).toBeLessThanOrEqual(Math.abs(value) * 1e-15);
    }),
  ));

test("labels are sorted by name, with le and quantile last", () => {
  expect(prometheusCpp.labelNames({ version: "1", le: 1, reason: "x", model: "m" })).toEqual([
    "model",
    "reason",
    "version",
    "le",
  ]);
});

/** Prints the page of a server with these models and counters, without a GPU and without a poll. */
async function page(models: readonly string[], config: Partial<Identity["triton"]>, numbers: readonly Float64Array[]) {
  const quantiles = config.quantiles ?? [];
  const meters = new Float64Array(MeterField.models + models.length * modelWidth(quantiles.length));
  numbers.forEach((of, index) => void meters.set(of, MeterField.models + index * modelWidth(quantiles.length)));
  const server: Identity = {
    ...identity,
    triton: {
      ...identity.triton,
      cpu: true,
      gpus: [],
      models: models.map((name) => ({ name, version: "1" })),
      ...config,
    },
  };
  const snapshot = emptySnapshot([{ ...emptyEngine(), meters: Array.from(meters) }]);
  return pages(server)("triton", () => snapshot);
}

/** Families that 2.51 does not have. */
const NEWER = ["nv_model_load_duration_secs"];

/** Returns the lines of each family. Within a family, a hash map determines the order of the real server's series. */
const familiesOf = (text: string) =>
  parseExposition(text)
    .filter(({ name }) => !NEWER.includes(name))
    .map(({ name, text: lines }) => [name, lines.split("\n").slice(0, 2), lines.split("\n").slice(2).sort()]);

test("a new server prints the same as the real one", async () => {
  const nothing = new Float64Array(modelWidth(0));
  const text = await page(["plain", "tokens"], {}, [nothing, nothing]);
  expect(familiesOf(text)).toEqual(familiesOf(recorded("fresh.fresh.txt")));
});

test("three requests with summaries print the same bytes as the real server", async () => {
  const targets = [
    { quantile: 0.25, error: 0.01 },
    { quantile: 0.5, error: 0.02 },
    { quantile: 0.9, error: 0.001 },
  ];
  const numbers = new Float64Array(modelWidth(targets.length));
  const model = new TritonModel(numbers, targets, 0);
  // The page shows sums and two of three values, so the third can be computed.
  model.succeeded(0, 132_370, 31, 39, 131_785, 201);
  model.succeeded(0, 201_776, 54, 48, 200_719, 306);
  model.succeeded(0, 300_953, 101, 169, 300_654, 972);
  model.refresh(0);
  const text = await page(["plain"], { quantiles: targets.map(({ quantile }) => quantile) }, [numbers]);
  const polled = /^nv_(cpu|pinned)/;
  const without = (families: ReturnType<typeof familiesOf>) => families.filter(([name]) => !polled.test(`${name}`));
  expect(without(familiesOf(text))).toEqual(without(familiesOf(recorded("summary_custom.after.txt"))));
  // Counters, gauges and summaries in the real server's order.
  const names = (page: string) => parseExposition(page).map(({ name }) => name);
  expect(names(text).filter((name) => !NEWER.includes(name))).toEqual(names(recorded("summary_custom.after.txt")));
});

test("counter_latencies=false removes durations and freezes counters, while summaries continue", async () => {
  const targets = [{ quantile: 0.5, error: 0.05 }];
  const numbers = new Float64Array(modelWidth(1));
  const model = new TritonModel(numbers, targets, 0);
  model.succeeded(0, 1000, 1, 2, 3, 4);
  model.failed("OTHER", 2, true);
  model.refresh(0);
  const text = await page(["plain"], { counters: false, quantiles: [0.5] }, [numbers]);
  const value = (series: string) =>
    text
      .split("\n")
      .find((line) => line.startsWith(`${series}{`))
      ?.split(" ")[1];
  expect(text).not.toContain("duration_us");
  for (const name of ["request_success", "request_failure", "count", "exec_count"])
    expect(value(`nv_inference_${name}`)).toBe("0");
  expect(value("nv_inference_request_summary_us_count")).toBe("1");
  expect(value("nv_inference_request_summary_us_sum")).toBe("1000");
});

test("options of the host remove families", async () => {
  const all = (await page(["m"], {}, [])).match(/^# TYPE \S+/gm)!;
  const none = (await page(["m"], { cpu: false }, [])).match(/^# TYPE \S+/gm)!;
  expect(all.filter((name) => !none.includes(name))).toEqual([
    "# TYPE nv_cpu_utilization",
    "# TYPE nv_cpu_memory_total_bytes",
    "# TYPE nv_cpu_memory_used_bytes",
  ]);
  expect(await page(["m"], { metrics: false }, [])).toBe("");
});
