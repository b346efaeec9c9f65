/** Compares numbers, labels and help texts of the text format with those of Python and prometheus_client. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  type Labels,
  Lines,
  printFamily,
  printFloat,
  python,
  pythonRepr,
  type Sample,
} from "../../../src/metrics/rows/text.ts";

/** Results of Python 3.11 and prometheus_client 0.26: `floatToGoString(x)`, then `repr(x)` if it differs. */
const KNOWN: readonly (readonly [value: number, exposition: string, repr?: string])[] = [
  [0, "0.0"],
  [-0, "-0.0"],
  [1, "1.0"],
  [-1, "-1.0"],
  [0.1, "0.1"],
  [1 / 3, "0.3333333333333333"],
  [0.0001, "0.0001"],
  [0.0001234, "0.0001234"],
  [9.999e-5, "9.999e-05"],
  [1e-5, "1e-05"],
  [-1e-5, "-1e-05"],
  [1.5e-7, "1.5e-07"],
  [3.3594634457113694e-9, "3.3594634457113694e-09"],
  [1e-10, "1e-10"],
  [1.2132399299399691e-23, "1.2132399299399691e-23"],
  [5e-324, "5e-324"],
  [2.2250738585072014e-308, "2.2250738585072014e-308"],
  [123456, "123456.0"],
  [999999, "999999.0"],
  [999999.5, "999999.5"],
  [-875893.3739717398, "-875893.3739717398"],
  [1e6, "1e+06", "1000000.0"],
  [1000000.5, "1.0000005e+06", "1000000.5"],
  [1234567, "1.234567e+06", "1234567.0"],
  [-1234567, "-1234567.0"],
  [7509556.236617766, "7.509556236617766e+06", "7509556.236617766"],
  [971857920, "9.7185792e+08", "971857920.0"],
  [1.7e9, "1.7e+09", "1700000000.0"],
  [1795235666.1131113, "1.7952356661131113e+09", "1795235666.1131113"],
  [2147483648, "2.147483648e+09", "2147483648.0"],
  [1e10, "1e+10", "10000000000.0"],
  [68313425596.38228, "6.831342559638228e+10", "68313425596.38228"],
  [1228913395735.989, "1.228913395735989e+12", "1228913395735.989"],
  [999999999999999.9, "9.999999999999999e+14", "999999999999999.9"],
  [9007199254740992, "9.007199254740992e+15", "9007199254740992.0"],
  [1e16, "1e+16"],
  [-1e16, "-1e+16"],
  [1.5e16, "1.5e+16"],
  [1.2345678901234567e19, "1.2345678901234567e+19"],
  [1e21, "1e+21"],
  [1e100, "1e+100"],
  [1.7976931348623157e308, "1.7976931348623157e+308"],
  [2.040000000000873, "2.040000000000873"],
  [107.421875, "107.421875"],
  [7680, "7680.0"],
  [Number.NaN, "NaN"],
];

test.each(KNOWN)("%p prints %s", (value, exposition, repr = exposition) => {
  expect(printFloat(value)).toBe(exposition);
  expect(pythonRepr(value)).toBe(repr);
});

test("infinities print in Prometheus's form", () => {
  expect([printFloat(Number.POSITIVE_INFINITY), printFloat(Number.NEGATIVE_INFINITY)]).toEqual(["+Inf", "-Inf"]);
});

test("any double reads back unchanged and has Python's form", () =>
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const text = printFloat(value);
      expect(Object.is(Number(text), value)).toBeTrue();
      expect(text).toMatch(/^-?(\d+\.\d+|\d(\.\d*[1-9])?e[+-]\d{2,3})$/);
      const fixed = !text.includes("e");
      const size = Math.abs(value);
      expect(fixed).toBe(size === 0 || (size >= 1e-4 && size < (value > 0 ? 1e6 : 1e16)));
    }),
  ));

test("labels are sorted and escaped, numeric labels are floats, and help texts are escaped", () => {
  const values: Sample[] = [
    { labels: { model_name: 'a"b\\c\nd', le: 0.1, _x: "1" }, value: 2, metricName: "f_bucket" },
    { labels: {}, value: 1e6 },
  ];
  expect(printFamily({ name: "f", help: 'say "x"\\\n', type: "histogram", values }, python)).toBe(
    [
      '# HELP f say "x"\\\\\\n',
      "# TYPE f histogram",
      'f_bucket{_x="1",le="0.1",model_name="a\\"b\\\\c\\nd"} 2.0',
      "f 1e+06",
      "",
    ].join("\n"),
  );
});

test("printed lines are reused only for the same labels and value", () => {
  const lines = new Lines();
  const page = (...samples: [metricName: string, labels: Labels, value?: number][]) => {
    const values = samples.map(([metricName, labels, value = 1]) => ({ metricName, labels, value }));
    const family = { name: "f", help: "", type: "gauge", values } as const;
    expect(printFamily(family, python, lines)).toBe(printFamily(family, python));
  };
  page(["f", { a: "1" }], ["f", {}], ["f", { le: 1 }]);
  page(["f", { a: "1" }], ["f", {}], ["f", { le: 1 }]);
  page(["f", { a: "1" }, 2], ["f", {}, 0], ["f", { le: 1 }, Number.NaN]);
  page(["f", { a: "1" }, 1], ["f", {}, -0], ["f", { le: 1 }, Number.NaN]);
  page(["g", { a: "1" }], ["f", { a: "1" }], ["f", { le: 2 }]);
  page(["g", { a: "1", b: "2" }], ["f", {}]);
  page(["g", { b: "2" }], ["f", { a: "1" }], ["f", { le: "2" }], ["f", { c: "" }]);
});
