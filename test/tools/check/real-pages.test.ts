/**
 * Tests that pages of real servers keep the laws, and that changes to them break the expected laws. The folder `recorded/` has
 * pages of:
 *
 * - the real vLLM 0.33.0 classes, with model m, 40 blocks of 16, max_num_seqs 6, max_model_len 512. In `clean` no client
 *   disconnected, in `aborts` 17 of 172 clients did.
 * - a real Dynamo 1.6.1 frontend and its mocker.
 * - a real Triton 2.51.0.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { type CheckOptions, checkScrapes, type Report } from "../../../src/tools/check/index.ts";

const folder = new URL("recorded/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), "utf8");
const files = readdirSync(folder).sort();
const names = files.filter((name) => name.endsWith(".txt"));
const parameters = { maxNumSeqs: 6, maxModelLen: 512, enablePrefixCaching: true };
const violated = (report: Report) => report.violated.map(({ id, violations }) => [id, violations[0]!.left.text]);
const ids = (report: Report, verdict: string) =>
  report.laws.filter((law) => law.verdict === verdict).map(({ id }) => id);

describe("pages of real servers", () => {
  test.each(names)("%s alone breaks no law", (name) => {
    const report = checkScrapes([{ text: read(name), source: name }], { parameters });
    expect(violated(report)).toEqual([]);
    expect(report.unreadable).toEqual([]);
    expect(ids(report, "held").length).toBeGreaterThan(15);
  });

  const clean = names.filter((name) => name.startsWith("vllm-clean")).map(read);
  const aborts = names.filter((name) => name.startsWith("vllm-aborts")).map(read);

  test("successive scrapes of vLLM break no law if no client disconnected", () => {
    const report = checkScrapes(clean, { parameters, clean: true });
    expect(violated(report)).toEqual([]);
    expect(ids(report, "note")).toEqual([]);
    // Laws that cannot be judged, because such a page has no adapters, speculation, HTTP or several engines, and scrapes are
    // rare.
    const missing = ids(report, "not checkable").filter((id) => /^[GV]/.test(id));
    expect(missing).toEqual(["V33", "V35", "V36", "V37", "V39", "V40", "V41", "V42", "V43"]);
  });

  test("if clients disconnected, scrapes of vLLM get two notes on events that the real engine does not count", () => {
    const report = checkScrapes(aborts, { parameters });
    expect(violated(report)).toEqual([]);
    expect(ids(report, "note")).toEqual(["V22", "V25"]);
    expect(report.laws.find(({ id }) => id === "V25")!.notes[0]!.known).toContain("vllm#31503");
  });

  test("a page after disconnects is not clean, although no abort is counted and all gauges are 0", () => {
    const wrongly = checkScrapes(aborts, { parameters, clean: true });
    expect(violated(wrongly).map(([id]) => id)).toContain("V22");
  });

  test("vLLM's front end in Rust breaks no law, and gets a note on the reasons that it shows later", () => {
    const [idle, after] = ["idle", "page"].map((name) => {
      const page = new URL(`../../conformance/recorded/vllm-rs-0.33-${name}.txt`, import.meta.url);
      return checkScrapes([readFileSync(page, "utf8")], {
        parameters: { maxModelLen: 1024, enablePrefixCaching: true },
      });
    });
    expect([violated(idle!), violated(after!)]).toEqual([[], []]);
    expect([ids(idle!, "note"), ids(after!, "note")]).toEqual([[], ["V32"]]);
    expect(ids(after!, "held").length).toBeGreaterThan(40);
  });

  test("a gauge named like a counter is found in OpenMetrics, too", () => {
    const page = readFileSync(new URL("../../conformance/recorded/vllm-rs-0.33-idle.txt", import.meta.url), "utf8");
    const gauge = page.replace(
      /# HELP vllm:num_preemptions .*\n# TYPE .* counter\n/,
      "# TYPE vllm:num_preemptions_total gauge\n",
    );
    expect(ids(checkScrapes([gauge]), "violated")).toEqual(["G18"]);
  });

  test("vLLM's API server breaks no law after steps of three tokens, refusals, failures and disconnects", () => {
    const page = new URL("../../conformance/recorded/vllm-0.33-server-exposition.txt", import.meta.url);
    const served = { maxNumSeqs: 64, maxModelLen: 1024, numSpeculativeTokens: 2 };
    const report = checkScrapes([readFileSync(page, "utf8")], { parameters: served });
    expect(violated(report)).toEqual([]);
    expect(ids(report, "held").length).toBeGreaterThan(40);
  });

  test("Triton breaks no law before and after its requests", () => {
    const [after, before] = names.filter((name) => name.includes("summary_default")).map(read);
    const report = checkScrapes([before!, after!], { parameters: { batchOfOne: true } });
    expect(violated(report)).toEqual([]);
    expect(report.dialects).toEqual(["triton"]);
  });

  test.each(files.filter((name) => name.endsWith(".json")))("%s: successive pages of Triton break no law", (name) => {
    const pages = pagesOf(JSON.parse(read(name)));
    const report = checkScrapes(pages);
    expect(violated(report)).toEqual([]);
    expect(report.scrapes).toBe(pages.length);
  });

  test("the dialects of a page are recognized", () => {
    const spoken = (name: string) => checkScrapes([read(name)]).dialects.join();
    expect(spoken("vllm-clean-99-rest1.txt")).toBe("vllm");
    expect(spoken("triton-2.51-fresh.fresh.txt")).toBe("triton");
    expect(spoken("dynamo-1.6.1-frontend-kv-after-load.txt")).toBe("dynamo-frontend,dynamo-worker");
    expect(spoken("dynamo-1.6.1-mocker-worker-after-2-requests.txt")).toBe("vllm,dynamo-worker");
  });
});

type SampleValue = number | "NaN" | { readonly recorded: number };
interface Recording {
  readonly steps: readonly {
    readonly scrape?: string;
    readonly expect?: {
      readonly families?: readonly {
        readonly name: string;
        readonly help: string;
        readonly type: string;
        readonly samples: readonly {
          readonly name?: string;
          readonly labels: Record<string, string>;
          readonly value: SampleValue;
        }[];
      }[];
    };
  }[];
}

/** Converts a recording to a page. It has times as measured and label values as escaped. */
function pagesOf({ steps }: Recording): string[] {
  return steps.flatMap(({ scrape, expect: answer }) => {
    if (scrape === undefined || answer?.families === undefined) return [];
    const lines = answer.families.flatMap(({ name, help, type, samples }) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
      ...samples.map((sample) => {
        const labels = Object.entries(sample.labels).map(([label, text]) => `${label}="${text}"`);
        const value = typeof sample.value === "object" ? sample.value.recorded : sample.value;
        return `${sample.name ?? name}{${labels.join(",")}} ${value}`;
      }),
    ]);
    return [`${lines.join("\n")}\n`];
  });
}

/** Adds to a value. The series is given by its name and its labels without engine and model. */
type Change = readonly [series: string, by: number | "minus the queue" | ((value: number) => number)];

function changed(text: string, changes: readonly Change[]): string {
  const values = new Map(
    text.split("\n").flatMap((line) => {
      const found = /^vllm:([^{ ]+)(?:\{([^}]*)\})? (\S+)$/.exec(line);
      if (!found) return [];
      const labels = found[2]!.split(",").filter((label) => !/^(engine|model_name)=/.test(label));
      return [
        [
          labels.length > 0 ? `${found[1]}{${labels.join(",")}}` : found[1]!,
          { line, value: Number(found[3]) },
        ] as const,
      ];
    }),
  );
  const queue = values.get("request_queue_time_seconds_sum")!.value;
  return changes.reduce((all, [series, by]) => {
    const { line, value } = values.get(series)!;
    const now = typeof by === "function" ? by(value) : value + (by === "minus the queue" ? -queue : by);
    return all.replace(`${line}\n`, `${line.slice(0, line.lastIndexOf(" "))} ${now}\n`);
  }, text);
}

/** Grows a count of a histogram together with a bucket, so that the histogram stays valid. */
const last = (name: string, by: number): Change[] => [
  [`${name}_count`, by],
  [`${name}_bucket{le="+Inf"}`, by],
];

const KNOWN_BAD: readonly (readonly [name: string, changes: readonly Change[], laws: readonly string[]])[] = [
  ["one generated token lost", [["generation_tokens_total", -1]], ["V13", "V21", "V24"]],
  [
    "hits counted again after a preemption",
    [
      ["prefix_cache_hits_total", 160],
      ["prefix_cache_queries_total", 200],
    ],
    ["V08", "V11"],
  ],
  ["hits alone", [["prefix_cache_hits_total", 16]], ["V11"]],
  ["the pool's gauge is stuck", [["kv_cache_usage_perc", 0.5]], ["V03", "V04", "V05"]],
  ["the gauge of running requests is stuck", [["num_requests_running", 3]], ["G19", "V05"]],
  [
    "TTFT observed twice for 100 requests",
    [...last("time_to_first_token_seconds", 100), ["time_to_first_token_seconds_sum", 20]],
    ["V24", "V25"],
  ],
  ["cached tokens counted as computed", [["iteration_tokens_total_sum", 8320]], ["V13"]],
  ["the reasons do not add up to the queue", [['num_requests_waiting_by_reason{reason="capacity"}', 1]], ["V01"]],
  ["the prompt of an aborted request counted", [["prompt_tokens_total", 40]], ["V08", "V09", "V22", "V23"]],
  [
    "the same, by source too",
    [
      ["prompt_tokens_total", 40],
      ['prompt_tokens_by_source_total{source="local_compute"}', 40],
    ],
    ["V08", "V13", "V22", "V23"],
  ],
  ["one queue time not observed", last("request_queue_time_seconds", -1), ["V16"]],
  [
    "TTFT in the list of gaps too",
    [...last("inter_token_latency_seconds", 165), ["inter_token_latency_seconds_sum", 8]],
    ["V20", "V24"],
  ],
  ["a preemption counted twice", [["num_preemptions_total", 12]], ["V27"]],
  ["a success without its latency", [['request_success_total{finished_reason="stop"}', 1]], ["V14", "V15"]],
  ["TTFT measured from scheduling", [["time_to_first_token_seconds_sum", "minus the queue"]], ["V19"]],
  ["E2E without the queue", [["e2e_request_latency_seconds_sum", "minus the queue"]], ["V18"]],
];

describe("changes of a page of the real vLLM at clean rest break their laws", () => {
  const page = read("vllm-clean-99-rest1.txt");
  const options: CheckOptions = { parameters, clean: true };
  const atRest = (text: string) => checkScrapes([{ text, rest: true }], options);

  test("the unchanged page breaks no law", () => expect(violated(atRest(page))).toEqual([]));

  test.each(KNOWN_BAD)("%s", (_, changes, laws) => {
    const text = changed(page, changes);
    expect(text).not.toBe(page);
    const broken = atRest(text).violated.map(({ id }) => id);
    expect(laws.filter((id) => !broken.includes(id))).toEqual([]);
  });

  test("a failure in the engine is an output without tokens", () => {
    const observed = changed(page, last("inter_token_latency_seconds", 1));
    const failed = changed(observed, [['request_success_total{finished_reason="error"}', 1]]);
    const only = ["V24"];
    expect(checkScrapes([observed], { only }).violated.map(({ id }) => id)).toEqual(only);
    expect(checkScrapes([failed], { only }).violated).toEqual([]);
  });

  test("any one of the counters off by one breaks a law", () => {
    const unguarded: string[] = [];
    for (const line of page.split("\n")) {
      const [, series = ""] = /^(vllm:(?!\w+_(bucket|created)\b)\S+) /.exec(line) ?? [];
      if (series === "" || /_created|_bucket/.test(series)) continue;
      const value = Number(line.slice(series.length + 1));
      const text = page.replace(line, `${series} ${value + 1}`);
      if (atRest(text).violated.length === 0) unguarded.push(series.replace(/\{.*/, ""));
    }
    // No other value of the page determines the first four, and the sums are only bounded on one side.
    expect([...new Set(unguarded)]).toEqual([
      "vllm:external_prefix_cache_queries_total",
      "vllm:mm_cache_queries_total",
      "vllm:mm_cache_hits_total",
      "vllm:admission_rejections_total",
      "vllm:request_params_max_tokens_sum",
      "vllm:time_to_first_token_seconds_sum",
      "vllm:request_time_per_output_token_seconds_sum",
      "vllm:e2e_request_latency_seconds_sum",
    ]);
  });
});
