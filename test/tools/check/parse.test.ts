/** Tests that the parser reports every defect with its line, keeps the valid lines, and ends on any input. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  type Exposition,
  type Family,
  type FaultKind,
  parse,
  print,
  type Sample,
} from "../../../src/tools/check/index.ts";
import { times } from "../../size.ts";

const read = (text: string | Uint8Array, contentType?: string): Exposition => {
  const found = parse(text, { contentType: contentType ?? null });
  if ("unreadable" in found) throw new Error(found.unreadable);
  return found;
};
const HISTOGRAM =
  '# TYPE h histogram\nh_bucket{le="1"} 1\nh_bucket{le="2"} 2\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n';
const OM = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/** Name, text, kind, line, and a part of the message. */
const DEFECTS: readonly (readonly [
  name: string,
  text: string | Uint8Array,
  kind: FaultKind,
  line: number,
  words: string,
])[] = [
  ["no final newline", "a 1\nb 2", "syntax", 2, "does not end in a newline"],
  ["a line that is cut off in its labels", 'a 1\nb{x="y', "syntax", 2, "cut off"],
  ["a line that is cut off before its value", "a 1\nb{} ", "syntax", 2, "no value"],
  ["a duplicate series", 'a{x="1",y="2"} 1\na{y="2",x="1"} 2\n', "duplicate", 2, "first at line 1"],
  ["a second # TYPE", "# TYPE a gauge\na 1\n# TYPE a gauge\n", "family", 3, "a second # TYPE of a"],
  ["# TYPE after the samples", "a 1\n# TYPE a gauge\n", "family", 2, "after its first sample"],
  ["a second # HELP", "# HELP a x\n# HELP a x\na 1\n", "family", 2, "a second # HELP of a"],
  ["interleaved families", 'a{x="1"} 1\nb 1\na{x="2"} 1\n', "family", 3, "must form one block (it began at line 1)"],
  [
    "buckets that fall",
    HISTOGRAM.replace('"2"} 2', '"2"} 0'),
    "monotone",
    3,
    'le="2" holds 0, less than le="1" with 1',
  ],
  ["+Inf that is not the count", HISTOGRAM.replace("count 2", "count 3"), "infinity", 4, "_count is 3"],
  ["no +Inf", HISTOGRAM.replace('h_bucket{le="+Inf"} 2\n', ""), "infinity", 2, 'no bucket le="+Inf"'],
  ["no count", HISTOGRAM.replace("h_count 2\n", ""), "infinity", 2, "no _count"],
  ["no sum", HISTOGRAM.replace("h_sum 3\n", ""), "infinity", 2, "no _sum"],
  ["a bucket without le", HISTOGRAM.replace('{le="1"}', ""), "syntax", 2, "without le"],
  ["le that is not a number", HISTOGRAM.replace('le="1"', 'le="one"'), "syntax", 2, "is not a number"],
  ["a bad escape in a label", 'a 1\nb{x="\\q"} 1\n', "syntax", 2, "the escape \\q"],
  ["a bad escape in a help text", "# HELP a \\q\na 1\n", "syntax", 1, "the escape \\q"],
  ["CRLF", "a 1\r\nb 1\r\n", "syntax", 1, "CRLF"],
  ["a label without quotes", "a 1\nb{x=1} 1\n", "syntax", 2, "in quotes"],
  ["an invalid label name", 'a 1\nb{1x="1"} 1\n', "syntax", 2, "not a label name"],
  ["a label twice", 'a 1\nb{x="1",x="2"} 1\n', "syntax", 2, "occurs twice"],
  ["labels without a comma", 'a 1\nb{x="1" y="2"} 1\n', "syntax", 2, "must be followed by a comma or a brace"],
  ["an invalid metric name", "a 1\n2b 1\n", "syntax", 2, "not a metric name"],
  ["a value that is not a number", "a 1\nb one\n", "syntax", 2, '"one" is not a number'],
  ["a value with a comma", "a 1\nb 1,5\n", "syntax", 2, "not a number"],
  ["a hexadecimal value", "a 1\nb 0x10\n", "syntax", 2, "not a number"],
  ["more after the timestamp", "a 1\nb 1 2 3\n", "syntax", 2, "after value and timestamp"],
  ["a timestamp in seconds", "a 1\nb 1 2.5\n", "syntax", 2, "whole milliseconds"],
  ["an exemplar", 'a 1\nb_total 1 # {id="x"} 1\n', "syntax", 2, "0.0.4 does not have"],
  ["an unknown type", "# TYPE a number\na 1\n", "syntax", 1, "is not a type"],
  ["a type of OpenMetrics", "# TYPE a info\na 1\n", "syntax", 1, "is not a type"],
  [
    "a summary's value without quantile",
    "# TYPE a summary\na 1\na_sum 1\na_count 1\n",
    "syntax",
    2,
    "without quantile",
  ],
  ["a histogram's bare sample", "# TYPE a histogram\na 1\n", "syntax", 2, "not a sample of a histogram"],
  [
    "bytes that are not UTF-8",
    new Uint8Array([...Buffer.from('a 1\nb{x="'), 0xff, ...Buffer.from('"} 1\n')]),
    "syntax",
    2,
    "not UTF-8",
  ],
];

const OM_DEFECTS: readonly (readonly [name: string, text: string, line: number, words: string])[] = [
  ["no # EOF", "# TYPE a gauge\na 1\n", 2, "no # EOF"],
  ["text after # EOF", "# TYPE a gauge\na 1\n# EOF\nb 1\n", 4, "after # EOF"],
  ["a blank line", "# TYPE a gauge\n\na 1\n# EOF\n", 2, "a blank line"],
  ["a comment", "# a remark\na 1\n# EOF\n", 1, "a comment"],
  ["a counter without _total", "# TYPE a counter\na 1\n# EOF\n", 2, "not a sample of a counter"],
  ["a unit that the name does not have", "# TYPE a_s gauge\n# UNIT a_s bytes\na_s 1\n# EOF\n", 2, "unit bytes"],
  ["an exemplar of a gauge", '# TYPE a gauge\na 1 # {id="x"} 1\n# EOF\n', 2, "only buckets and counters"],
  [
    "an exemplar with long labels",
    `# TYPE a counter\na_total 1 # {id="${"x".repeat(130)}"} 1\n# EOF\n`,
    2,
    "132 characters",
  ],
  ["an exemplar without labels", "# TYPE a counter\na_total 1 # 1\n# EOF\n", 2, "without label set"],
  ["an exemplar without a value", '# TYPE a counter\na_total 1 # {id="x"}\n# EOF\n', 2, "without a number"],
];

describe("defects", () => {
  test.each(DEFECTS)("%s is reported with its line", (_, text, kind, line, words) => {
    const { faults } = read(text, "text/plain");
    expect(faults[0]).toMatchObject({ kind, line });
    expect(faults[0]!.message).toContain(words);
  });

  test.each(OM_DEFECTS)("OpenMetrics: %s is reported with its line", (_, text, line, words) => {
    const { faults } = read(text, OM);
    expect(faults[0]).toMatchObject({ kind: "syntax", line });
    expect(faults[0]!.message).toContain(words);
  });

  test("one bad line does not hide the others", () => {
    const { byName, faults } = read('a 1\nb{x="\\q"} 1\nc 3\n');
    expect(faults).toHaveLength(1);
    expect(byName.get("c")![0]!.value).toBe(3);
  });

  test("one defect per line is kept up to a limit, and all are counted", () => {
    const { faults, faultCount } = read(`a 1\n${"b one\n".repeat(500)}`);
    expect(faultCount).toBe(500);
    expect(faults).toHaveLength(50);
  });
});

describe("valid pages", () => {
  test.each([
    ["numbers", "a 1\nb -1.5e-3\nc +Inf\nd -inf\ne NaN\nf Nan\ng 1e+21\nh .5\ni 5.\n"],
    ["timestamps", "a 1 1700000000000\n"],
    ["blank lines and comments", "\n# a remark\n#\na 1\n\n"],
    ["# EOF in plain text is a comment", "a 1\n# EOF\n"],
    ["a trailing comma and blanks", 'a { x = "1" , } 1\n'],
    ["escapes", 'a{x="\\\\ \\" \\n"} 1\n'],
    ["any text in a label", 'a{x="é {},= # 5"} 1\n'],
    ["a family without samples", "# HELP a b\n# TYPE a gauge\n"],
    ["a histogram in any order", '# TYPE h histogram\nh_count 2\nh_bucket{le="+Inf"} 2\nh_bucket{le="1"} 1\nh_sum 3\n'],
  ])("%s", (_, text) => expect(read(text, "text/plain").faults).toEqual([]));

  test.each([
    ["a counter and its creation", "# TYPE a counter\n# HELP a x\na_total 1\na_created 1.5\n# EOF\n"],
    ["an exemplar", '# TYPE a counter\na_total 1 # {trace_id="abc"} 0.5 1700000000.1\n# EOF\n'],
    [
      "info, state set, unit",
      '# TYPE a info\na_info{v="1"} 1\n# TYPE b stateset\nb{b="x"} 1\n# TYPE c_s gauge\n# UNIT c_s s\nc_s 1\n# EOF\n',
    ],
    ["the same series at two times", "# TYPE a gauge\na 1 1\na 2 2\n# EOF\n"],
  ])("OpenMetrics: %s", (_, text) => expect(read(text, OM).faults).toEqual([]));

  test("values, labels and exemplars are read", () => {
    const { byName } = read('# TYPE a counter\na_total{x="\\\\n\\n\\""} 4 5.5 # {id="7"} 0.5 6\n# EOF\n', OM);
    expect(byName.get("a_total")![0]).toMatchObject({
      labels: { x: '\\n\n"' },
      value: 4,
      timestamp: 5.5,
      exemplar: { labels: { id: "7" }, value: 0.5, timestampS: 6 },
      line: 2,
    });
  });

  test("without a Content-Type the end of the text decides on the format", () => {
    expect(read("# TYPE a gauge\na 1\n# EOF\n").format).toBe("openmetrics");
    expect(read("a 1\n").format).toBe("text");
  });
});

describe("texts that are not metrics pages", () => {
  test.each([
    ["nothing", "", "empty"],
    ["blanks", " \n\n", "empty"],
    ["HTML", "<!doctype html><html></html>", "HTML"],
    ["JSON", '{"error":"x"}', "JSON"],
    ["prose", "404 page not found\n", "not an exposition: line 1"],
    ["gzip", new Uint8Array([0x1f, 0x8b, 8, 0, 0, 0]), "gzip"],
    ["zeros", new Uint8Array(1000), "not an exposition"],
    ["too much", "a 1\n".repeat(100), "more than 0.0 MiB"],
  ])("%s", (name, text, why) => {
    const found = parse(text, name === "too much" ? { maxBytes: 100 } : {});
    expect((found as { unreadable: string }).unreadable).toContain(why);
  });

  test("50 MB are refused unread, or read in bounded time if maxBytes allows it", () => {
    const line = 'vllm:request_success_total{engine="0",finished_reason="stop",model_name="a-model"} 12345\n';
    const text = Buffer.from(line.repeat(Math.ceil(50e6 / line.length)));
    expect(parse(text)).toMatchObject({ unreadable: expect.stringContaining("more than 16.0 MiB") });
    // All lines are the same series, so there are as many defects as lines, of which fifty are kept.
    const { faults, faultCount } = read(text.subarray(0, line.length * 50_000));
    expect([faults.length, faultCount]).toEqual([50, 49_999]);
    const garbage = parse(Buffer.alloc(50e6, 0x41), { maxBytes: 1e9 });
    expect("unreadable" in garbage).toBe(true);
  });
});

const name = fc
  .stringMatching(/^[a-z_:][a-z0-9_:]{0,12}$/)
  .filter((text) => !/_(bucket|sum|count|total|created|gsum|gcount|info)$/.test(text));
const labelName = fc.stringMatching(/^[a-z_][a-z0-9_]{0,6}$/).filter((text) => !["le", "quantile"].includes(text));
const value = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
);
const labels = fc.dictionary(labelName, fc.string({ unit: "binary" }), { maxKeys: 4 });
// Leave out values that end in a carriage return, which would make a CRLF.
const help = fc.string({ unit: "binary" }).filter((text) => !text.endsWith("\r"));
const samples = fc.uniqueArray(fc.record({ labels, value, timestamp: fc.option(fc.integer()) }), {
  selector: ({ labels }) => JSON.stringify(Object.entries(labels).sort()),
  maxLength: 4,
});
const families = fc.uniqueArray(
  fc.record({
    name,
    help: fc.option(help),
    type: fc.constantFrom("gauge", "untyped"),
    samples,
  }),
  { selector: (family) => family.name, maxLength: 6 },
);

function expositionOf(
  wanted: readonly { name: string; help: string | null; type: string; samples: readonly object[] }[],
) {
  const found = new Map<string, Family>();
  for (const { name, help, type, samples } of wanted) {
    const written = samples.map((sample) => ({ name, exemplar: null, line: 0, ...sample }) as unknown as Sample);
    if (written.length > 0)
      found.set(name, { name, type: type as "gauge", help, unit: null, samples: written, line: 0 });
  }
  return found;
}

describe("random texts", () => {
  test("a printed page is read back equal", () => {
    fc.assert(
      fc.property(families, (wanted) => {
        const written = expositionOf(wanted);
        fc.pre(written.size > 0);
        const text = print({ families: written, format: "text" });
        const { families: back, faults } = read(text, "text/plain");
        expect(faults).toEqual([]);
        const plain = (all: ReadonlyMap<string, Family>) =>
          [...all.values()].map(({ name, type, help, samples }) => ({
            ...{ name, type, help },
            samples: samples.map(({ labels, value, timestamp }) => ({
              labels: { ...labels },
              value: value + 0,
              timestamp,
            })),
          }));
        expect(plain(back)).toEqual(plain(written));
        expect(print({ families: back, format: "text" })).toBe(text);
      }),
      { numRuns: times(300) },
    );
  });

  test("random bytes and random changes of a page never throw", () => {
    const page = Buffer.from(`${HISTOGRAM}a{x="1"} 1\n# HELP b c\nb NaN 5\n`);
    const changed = fc
      .array(fc.tuple(fc.nat({ max: page.length - 1 }), fc.nat({ max: 255 })), { maxLength: 5 })
      .map((changes) => {
        const bytes = new Uint8Array(page);
        for (const [at, byte] of changes) bytes[at] = byte;
        return bytes;
      });
    const lines = fc.array(fc.stringMatching(/^[a-z#{}"=,\\ \tHELPTYPE0-9.+-]{0,20}$/)).map((all) => all.join("\n"));
    fc.assert(
      fc.property(
        fc.oneof(fc.uint8Array(), changed, lines, fc.string({ unit: "binary" })),
        fc.constantFrom(OM, "text/plain", ""),
        (bytes, contentType) => {
          const found = parse(bytes, { contentType });
          if ("unreadable" in found) expect(found.unreadable).not.toBe("");
          else for (const { line } of found.faults) expect(line).toBeGreaterThan(0);
        },
      ),
      { numRuns: times(2000) },
    );
  });
});

test("a page of very many families or samples is not read", () => {
  const maxBytes = 64_000;
  const families = (count: number) => Array.from({ length: count }, (_, at) => `a${at} 1\n`).join("");
  const samples = (count: number) => Array.from({ length: count }, (_, at) => `a{b="${at}"} 1\n`).join("");
  expect(parse(families(400), { maxBytes })).toMatchObject({ format: "text" });
  expect(parse(families(401), { maxBytes })).toEqual({ unreadable: "more than 400 families: not read" });
  expect(parse(samples(2000), { maxBytes })).toMatchObject({ format: "text" });
  expect(parse(samples(2001), { maxBytes })).toEqual({ unreadable: "more than 2000 samples: not read" });
});
