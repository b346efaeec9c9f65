/** Damages a page in one number, name or line, and says which laws must find the damage. */

/** A page with one damage. */
export interface DamagedPage {
  readonly damage: string;
  /** Family of the changed line. Each violation must name it. */
  readonly family: string;
  /** Laws of which at least one must be violated. */
  readonly laws: readonly string[];
  readonly text: string;
}

interface Line {
  readonly at: number;
  readonly text: string;
  readonly name: string;
  readonly labels: string;
  readonly value: number;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$/;
const PART = /_(bucket|sum|count)$/;

class Page {
  readonly lines: readonly string[];
  readonly samples: readonly Line[];
  readonly #types: ReadonlyMap<string, string>;

  constructor(readonly text: string) {
    this.lines = text.split("\n");
    this.samples = this.lines.flatMap((text, at) => {
      const [, name, labels = "", value] = SAMPLE.exec(text) ?? [];
      return name === undefined ? [] : [{ at, text, name, labels, value: Number(value) }];
    });
    const types = [...text.matchAll(/^# ?TYPE (\S+) (\S+)$/gm)];
    this.#types = new Map(types.map(([, name, type]) => [name!, type!]));
  }

  typeOf({ name }: Line): string {
    return this.#types.get(name) ?? this.#types.get(name.replace(PART, "")) ?? "";
  }

  familyOf({ name }: Line): string {
    return this.#types.has(name) ? name : name.replace(PART, "");
  }

  /** Lines that replace the line: none, one or several. */
  with(at: number, ...lines: readonly string[]): string {
    return this.lines.toSpliced(at, 1, ...lines).join("\n");
  }

  valued({ at, name, labels }: Line, value: number | string): string {
    return this.with(at, `${name}${labels} ${value}`);
  }
}

type Way = readonly [
  damage: string,
  laws: readonly string[],
  wanted: (page: Page) => (line: Line, next: Line | undefined) => boolean,
  spoil: (page: Page, line: Line) => string,
];

const isBucket = ({ name }: Line): boolean => name.endsWith("_bucket");
const isLast = ({ labels }: Line): boolean => labels.includes('le="+Inf"');
const isHistogram = (page: Page, line: Line): boolean => page.typeOf(line) === "histogram";
const SHARE = /(usage_perc|utilization|fraction)$/;

const WAYS: readonly Way[] = [
  [
    "a bucket falls",
    ["G05"],
    () => (line, next) =>
      isBucket(line) &&
      !isLast(line) &&
      line.value > 0 &&
      next !== undefined &&
      next.name === line.name &&
      !isLast(next),
    (page, line) => {
      const next = page.samples[page.samples.indexOf(line) + 1]!;
      return page.valued(next, line.value - 1);
    },
  ],
  [
    "a bucket is above the last one",
    ["G05"],
    () => (line, next) => isBucket(line) && !isLast(line) && next !== undefined && isBucket(next),
    (page, line) => page.valued(line, 1e9),
  ],
  [
    "the count is not +Inf",
    ["G06"],
    (page) => (line) => line.name.endsWith("_count") && isHistogram(page, line) && hasLast(page, line),
    (page, line) => page.valued(line, line.value + 1),
  ],
  [
    "the sum is below what the buckets allow",
    ["G08"],
    (page) => (line) => line.name.endsWith("_sum") && isHistogram(page, line) && leastSum(page, line) > 0,
    (page, line) => page.valued(line, leastSum(page, line) / 2),
  ],
  [
    "a share is above 1",
    ["G15", "N12"],
    (page) => (line) =>
      page.typeOf(line) === "gauge" && (SHARE.test(line.name) || line.labels.includes('type="fraction"')),
    (page, line) => page.valued(line, 1.5),
  ],
  [
    "a series stands twice",
    ["G02"],
    (page) => (line) => page.typeOf(line) !== "",
    (page, line) => page.with(line.at, line.text, line.text),
  ],
  ["a family has no TYPE", ["G03"], hasType, (page, line) => page.with(typeLine(page, line))],
  [
    "a family has two TYPEs",
    ["G03"],
    hasType,
    (page, line) => page.with(typeLine(page, line), ...Array(2).fill(page.lines[typeLine(page, line)]!)),
  ],
  [
    "a type is misspelt",
    ["G01"],
    hasType,
    (page, line) => page.with(typeLine(page, line), `# TYPE ${page.familyOf(line)} countr`),
  ],
  [
    "a value is NaN",
    ["G04"],
    (page) => (line) => ["counter", "gauge"].includes(page.typeOf(line)),
    (page, line) => page.valued(line, "NaN"),
  ],
  [
    "a value is infinite",
    ["G04"],
    (page) => (line) => ["counter", "gauge"].includes(page.typeOf(line)),
    (page, line) => page.valued(line, "+Inf"),
  ],
  [
    "a counter is below 0",
    ["G14"],
    (page) => (line) => page.typeOf(line) === "counter",
    (page, line) => page.valued(line, -3),
  ],
  [
    "a time is below 0",
    ["G14"],
    (page) => (line) => page.typeOf(line) === "counter" && /_duration_us$/.test(line.name),
    (page, line) => page.valued(line, -0.5),
  ],
  [
    "a label that no such server has",
    ["G13"],
    (page) => (line) => line.labels !== "" && page.typeOf(line) !== "" && !line.name.endsWith("_info"),
    (page, line) => page.with(line.at, `${line.name}{shard="7",${line.labels.slice(1)} ${line.text.split(" ").at(-1)}`),
  ],
  [
    "a bound is no number",
    ["G01"],
    () => (line) => isBucket(line) && !isLast(line),
    (page, line) => page.with(line.at, line.text.replace(/le="[^"]*"/, 'le="half"')),
  ],
  [
    "half a request",
    ["G14"],
    (page) => (line) =>
      /(success|requests_running|request_metrics|request_statistics|_count)(_total)?$/.test(line.name) &&
      page.typeOf(line) !== "",
    (page, line) => page.valued(line, line.value + 0.5),
  ],
  ["a value with a comma", ["G01"], () => () => true, (page, line) => page.valued(line, "4,5")],
  [
    "a line ends before its value",
    ["G01"],
    () => () => true,
    (page, { at, name, labels }) => page.with(at, name + labels),
  ],
  ["a time in seconds", ["G01"], () => () => true, (page, { at, text }) => page.with(at, `${text} 1738217336.5`)],
  [
    "more blocks in use than there are",
    ["T04"],
    () =>
      ({ labels }) =>
        labels.includes('kv_cache_block_type="used"'),
    (page, line) => page.valued(line, 99_999),
  ],
  [
    "more successes than inferences",
    ["N01"],
    () =>
      ({ name, value }) =>
        name === "nv_inference_request_success" && value > 0,
    (page, line) => page.valued(line, line.value + 7),
  ],
  [
    "an empty histogram has a sum",
    ["G07"],
    (page) => (line) => line.name.endsWith("_sum") && isHistogram(page, line) && countOf(page, line) === 0,
    (page, line) => page.valued(line, 3),
  ],
  [
    "a series of a histogram has other bounds",
    ["G09"],
    (page) => (line) => isBucket(line) && !isLast(line) && hasTwin(page, line),
    (page, line) => page.with(line.at, line.text.replace(/le="([^"]*)"/, 'le="$1001"')),
  ],
  [
    "a gauge is called a counter",
    ["G18"],
    (page) => (line) => page.typeOf(line) === "gauge" && hasType(page)(line) && !/^(nv_|DCGM_)|_total$/.test(line.name),
    (page, line) => page.with(typeLine(page, line), `# TYPE ${page.familyOf(line)} counter`),
  ],
  [
    "an unsigned difference fell below zero",
    ["G21"],
    (page) => (line) => page.typeOf(line) === "counter" && !/flops|bytes/.test(line.name),
    (page, line) => page.valued(line, "18446744073709549568"),
  ],
  [
    "more executions than inferences",
    ["N02"],
    () =>
      ({ name }) =>
        name === "nv_inference_exec_count",
    (page, line) => page.valued(line, line.value + 9999),
  ],
  [
    "a part of the requests took longer than the requests",
    ["N03"],
    (page) => (line) =>
      line.name === "nv_inference_compute_infer_duration_us" &&
      siblingOf(page, "nv_inference_request_duration_us", line) > 0,
    (page, line) => page.valued(line, siblingOf(page, "nv_inference_request_duration_us", line) + 1e6),
  ],
  [
    "a time without a request",
    ["N04"],
    (page) => (line) =>
      /^nv_inference_\w+_duration_us$/.test(line.name) && siblingOf(page, "nv_inference_request_success", line) === 0,
    (page, line) => page.valued(line, 70_000),
  ],
  [
    "fewer than no requests are pending",
    ["N06"],
    () =>
      ({ name }) =>
        name === "nv_inference_pending_request_count",
    (page, line) => page.valued(line, -1),
  ],
  [
    "more active requests than there may be",
    ["T03"],
    () =>
      ({ labels }) =>
        labels.includes('request_type="active"'),
    (page, line) => page.valued(line, 99_999),
  ],
  [
    "a context request that was not scheduled",
    ["T02"],
    () =>
      ({ labels }) =>
        labels.includes('request_type="context"'),
    (page, line) => page.valued(line, line.value + 5),
  ],
  [
    "more hits than lookups",
    ["V06"],
    (page) => (line) => /(^|:)prefix_cache_hits_total$/.test(line.name) && page.typeOf(line) !== "gauge",
    (page, line) => page.valued(line, 1e15),
  ],
  [
    "fewer tokens than the ended requests had",
    ["V21", "V22"],
    (page) => (line) =>
      // Ray collects families one by one, so a difference of a few tokens is not a violation there.
      /^(?!ray_)(.*:)?(prompt|generation)_tokens_total$/.test(line.name) &&
      siblingOf(page, line.name.replace(/(prompt|generation)_tokens_total/, "request_$1_tokens_sum"), line) > 0,
    (page, line) => page.valued(line, 0),
  ],
  [
    "an engine's settings are no 1",
    ["V34"],
    () =>
      ({ name }) =>
        /(^|:)cache_config_info$/.test(name),
    (page, line) => page.valued(line, 2),
  ],
  [
    "more adapters run than there may be",
    ["V35"],
    () =>
      ({ name }) =>
        /(^|:)lora_requests_info$/.test(name),
    (page, line) => {
      const adapters = Array.from({ length: 40 }, (_, at) => `a${at}`).join(",");
      const labels = line.labels.replace(/running_lora_adapters="[^"]*"/, `running_lora_adapters="${adapters}"`);
      return page.with(line.at, `${line.name}${labels} ${line.value + 1}`);
    },
  ],
  [
    "no ended request, but queue times",
    ["S03"],
    (page) => (line) =>
      /trtllm_request_success_total$/.test(line.name) &&
      page.samples.filter(({ name }) => name === line.name).length === 1,
    (page, line) => page.valued(line, 0),
  ],
  [
    "a quote is lost",
    ["G01"],
    () =>
      ({ labels }) =>
        labels !== "",
    (page, line) => page.with(line.at, line.text.replace('"', "")),
  ],
];

const countOf = (page: Page, line: Line): number => siblingOf(page, line.name.replace(PART, "_count"), line);

/**
 * Returns the value of the series with another name and the same labels. NaN if there is none, or if the page is an excerpt
 * without it.
 */
const siblingOf = (page: Page, name: string, { labels }: Line): number =>
  page.samples.find((line) => line.name === name && line.labels === labels)?.value ?? Number.NaN;

/** Reports whether another series of the histogram has the same bound. */
function hasTwin(page: Page, { name, labels, at }: Line): boolean {
  const bound = /le="[^"]*"/.exec(labels)![0];
  return page.samples.some((line) => line.at !== at && line.name === name && line.labels.includes(bound));
}

function hasLast(page: Page, { name }: Line): boolean {
  return page.samples.some((line) => line.name === name.replace(PART, "_bucket") && isLast(line));
}

/** Returns the lowest sum that the buckets of a histogram with one series allow. */
function leastSum(page: Page, { name }: Line): number {
  let [least, below, bound] = [0, 0, 0];
  for (const { name: other, labels, value } of page.samples) {
    if (other !== name.replace(PART, "_bucket")) continue;
    least += (value - below) * bound;
    [below, bound] = [value, Number(/le="([^"]*)"/.exec(labels)![1]!.replace("+Inf", "Infinity"))];
  }
  return least;
}

const typeLine = (page: Page, line: Line): number =>
  page.lines.findIndex((text) => new RegExp(`^# ?TYPE ${page.familyOf(line)} `).test(text));

/** True if samples or another family follow directly, so that no gap of an excerpt is near. */
function hasType(page: Page): (line: Line) => boolean {
  return (line) => {
    const at = typeLine(page, line);
    return at >= 0 && !/^\W*$/.test(page.lines[at + 1] ?? "");
  };
}

/** Applies each damage that fits the page to the first, a middle and the last line of its kind. */
export function spoiled(text: string): DamagedPage[] {
  const page = new Page(text);
  return WAYS.flatMap(([damage, laws, wanted, spoil]) => {
    const isWanted = wanted(page);
    const lines = page.samples.filter((line, i) => isWanted(line, page.samples[i + 1]));
    const some = new Set([lines[0], lines[lines.length >> 1], lines.at(-1)]);
    return [...some].flatMap((line) =>
      line === undefined ? [] : [{ damage, laws, family: page.familyOf(line), text: spoil(page, line) }],
    );
  });
}
