/** Tests that pages of older versions are recognised, break no law, and still show damages. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { checkScrapes, type LawResult, type Report } from "../../../src/tools/check/index.ts";
import { whyNotHeld } from "../../../src/tools/check/laws/holds.ts";
import { laws } from "../../../src/tools/check/laws/index.ts";
import { versionsOf } from "../../../src/tools/check/pages/versions.ts";
import { checkTable } from "../../../src/tools/check/report.ts";
import { versionPages } from "./examples/versions.ts";
import { spoiled } from "./spoil.ts";

const page = readFileSync(new URL("recorded/vllm-clean-99-rest1.txt", import.meta.url), "utf8");
const complaints = ({ violated }: Report) =>
  violated.flatMap(({ id, violations }) => violations.map(({ left, right }) => `${id}: ${left.text} ${right.text}`));
const law = ({ laws }: Report, wanted: string): LawResult => laws.find(({ id }) => id === wanted)!;

describe.each(versionPages.map((page) => [page.name, page] as const))("%s", (_, { text, ...wanted }) => {
  test("is recognised and breaks no law", () => {
    const report = checkScrapes([text]);
    expect(complaints(report)).toEqual([]);
    expect(report.dialects).toEqual([...wanted.dialects] as typeof report.dialects);
    expect(report.versions.map(({ id }) => id)).toEqual([...wanted.versions] as never[]);
    expect(report.excerpts.length > 0).toBe(wanted.isExcerpt);
    const noted = report.laws.filter(({ verdict }) => verdict === "note").map(({ id }) => id);
    expect(noted).toEqual(wanted.notes.map(([id]) => id));
    for (const [id, thread] of wanted.notes) expect(law(report, id).notes[0]!.known).toStartWith(thread);
    const [version] = report.versions;
    if (version) expect(checkTable([{ name: "x", report }])).toContain(`${version.of} ${version.span} (shown by `);
  });

  test("ten or more damages: each is found in its family, and no other family is reported", () => {
    const ways = spoiled(text);
    expect(new Set(ways.map(({ damage }) => damage)).size).toBeGreaterThanOrEqual(10);
    for (const { damage, laws: any, family, text: changed } of ways) {
      const report = checkScrapes([changed]);
      const broken = report.violated.map(({ id }) => id);
      expect({ damage, found: any.some((id) => broken.includes(id)), broken }).toMatchObject({ found: true });
      const others = complaints(report).filter((words) => !words.includes(family) && !/: line \d+/.test(words));
      expect({ damage, family, others }).toEqual({ damage, family, others: [] });
    }
  });
});

test("the same damages are found on pages of the newest versions", () => {
  const triton = readFileSync(new URL("recorded/triton-2.51-all_on.after.txt", import.meta.url), "utf8");
  for (const text of [page, triton]) {
    for (const { damage, laws: any, text: changed } of spoiled(text)) {
      const broken = checkScrapes([changed]).violated.map(({ id }) => id);
      expect({ damage, found: any.some((id) => broken.includes(id)), broken }).toMatchObject({ found: true });
    }
  }
}, 30_000);

test("a duplicate series is one violation, and only its first sample counts in sums", () => {
  const line = /^vllm:prompt_tokens_total\{.*\n/m.exec(page)![0];
  expect(checkScrapes([page.replace(line, line + line)]).violated.map(({ id }) => id)).toEqual(["G02"]);
});

test("an older version needs evidence that only it has; the newest is assumed", () => {
  const versions = (text: string) => checkScrapes([text]).versions.map(({ id, toldBy }) => [id, toldBy]);
  expect(versions(page)).toEqual([["0.30", "request_num_preemptions_count"]]);
  expect(versions('vllm:num_requests_running{engine="0"} 0\n')).toEqual([["0.30", ""]]);
  expect(versions('nv_inference_request_success{model="m",version="1"} 0\n')).toEqual([["24.07", ""]]);
  const rust = readFileSync(new URL("../../conformance/recorded/vllm-rs-0.33-idle.txt", import.meta.url), "utf8");
  expect(versions(rust)).toEqual([["vllm-rs", "mooncake_num_descriptors and nixl_num_descriptors"]]);
  // An old family name on a new page does not make the page old.
  const added = (name: string) => `${page}# TYPE vllm:${name} gauge\nvllm:${name}{engine="0",model_name="m"} 0\n`;
  for (const name of ["num_requests_swapped", "gpu_cache_usage_perc"])
    expect(versions(added(name))).toEqual([["0.30", "request_num_preemptions_count"]]);
  // A page with families of 24.11 but without reasons has lost the reasons.
  const old = versionPages.find(({ name }) => name === "Triton before 24.07")!.text;
  const first = 'nv_inference_first_response_histogram_ms_count{model="alpha",version="1"} 0\n';
  const lost = checkScrapes([`${old}# TYPE nv_inference_first_response_histogram_ms_count gauge\n${first}`]);
  expect(complaints(lost).filter((words) => words.startsWith("N05"))).not.toEqual([]);
});

test("engineVersions override the version that the page shows, for dialects with such a version", () => {
  const versions = (engineVersions: readonly string[], text = page) =>
    checkScrapes([text], { engineVersions }).versions.map(({ of, id }) => `${of} ${id}`);
  for (const [version, id] of [
    ["V0", "V0"],
    ["0.6.6.post1", "V0"],
    ["0.8.5", "V1 to 0.11"],
    ["v0.10.2", "V1 to 0.11"],
    ["0.14.1", "0.12 to 0.29"],
    ["0.33.0", "0.30"],
    ["vllm-rs", "vllm-rs"],
    ["24.05", "0.30"],
  ] as const)
    expect(versions([version])).toEqual([`vllm ${id}`]);
  const both = versionPages.find(({ name }) => name === "TensorRT-LLM, groups of 2023")!.text;
  expect(versions(["23.10"], both)).toEqual(["trtllm without waiting", "triton before 24.07"]);
  expect(versions(["2.50.0"], both)).toEqual(["trtllm without waiting", "triton 24.07"]);
  expect(checkScrapes([both], { engineVersions: ["2.50.0"] }).violated.map(({ id }) => id)).toEqual(["N05"]);
});

test("a law without validity for a version has a reason, and all laws are valid for the newest", () => {
  for (const law of laws) {
    const newest = law.of === "any" || law.of === "cross" ? undefined : versionsOf(law.of).at(-1);
    if (newest !== undefined)
      expect(whyNotHeld(law, { of: law.of as "vllm", id: newest, span: "", toldBy: "" })).toBeNull();
  }
  const [v0] = versionPages;
  const result = law(checkScrapes([v0!.text]), "V15");
  expect(result).toMatchObject({ verdict: "not checkable", reason: "not of vllm V0: V0 counts otherwise" });
});

test("more first tokens than requests are a known bug of V0, not an error", () => {
  const [v0] = versionPages;
  const again = v0!.text.replace(/(first_token_seconds_(?:count|bucket\{le="\+Inf",).*) 3\n/g, "$1 5\n");
  const report = checkScrapes([again.replace(/(first_token_seconds_sum\S*) .*/, "$1 50")]);
  expect(complaints(report)).toEqual([]);
  expect(law(report, "V25")).toMatchObject({ verdict: "note" });
  expect(law(report, "V25").notes[0]!.known).toStartWith("vllm#8115");
});

test("vLLM's laws are warnings in Ray Serve, which collects gauges one by one", () => {
  const text = page.replaceAll("vllm:", "ray_vllm:");
  const broken = (report: Report) => report.violated.map(({ id, violations }) => `${id} ${violations[0]!.severity}`);
  expect(checkScrapes([text]).violated).toEqual([]);
  const wrong = (by: number) =>
    text.replace(/(ray_vllm:generation_tokens_total\{\S*) (\S+)/, (_, name, value) => `${name} ${Number(value) + by}`);
  expect(broken(checkScrapes([wrong(100_000)], { only: ["V13"] }))).toEqual(["V13 W"]);
  expect(broken(checkScrapes([wrong(3)], { only: ["V13"] }))).toEqual([]);
  // The newer collector writes an underscore instead of the colon.
  expect(checkScrapes([page.replaceAll("vllm:", "ray_vllm_")]).dialects).toEqual(["vllm"]);
});

describe("excerpts", () => {
  const lines = page.split("\n");
  const at = (start: string) => lines.findIndex((line) => line.startsWith(start));
  const without = (from: number, count: number, mark = "...") => lines.toSpliced(from, count, mark).join("\n");

  test.each(["...", "…", "[...]", "# ...", "  ....  ", "<snip>"])("%p stands for left-out lines", (mark) => {
    const report = checkScrapes([without(at("vllm:request_success_total"), 2, mark)], {
      only: ["G01", "G06", "V15", "V32"],
    });
    expect(complaints(report)).toEqual([]);
    expect(report.excerpts).toMatchObject([{ gaps: [at("vllm:request_success_total") + 1], cut: null }]);
    // Because of the gap, the sum is not the server's.
    expect(law(report, "V15").reason).toContain("the excerpt may leave out series of vllm:request_success_total");
    expect(law(report, "V32").reason).toContain("an excerpt");
  });

  test("families that a gap does not touch are judged as usual", () => {
    const text = without(at("vllm:request_success_total"), 2).replace(/(generation_tokens_total\{\S*) (\S+)/, "$1 1");
    expect(checkScrapes([text]).violated.map(({ id }) => id)).toEqual(expect.arrayContaining(["V13", "V21"]));
  });

  test("an answer with a Content-Type is not an excerpt, so the line is an error", () => {
    const text = without(at("vllm:request_success_total"), 2);
    const contentType = "text/plain; version=0.0.4";
    expect(checkScrapes([{ text, contentType }]).violated.map(({ id }) => id)).toContain("G01");
    expect(checkScrapes([{ text, contentType, excerpt: true }]).violated).toEqual([]);
    expect(checkScrapes([{ text, excerpt: false }]).violated.map(({ id }) => id)).toContain("G01");
  });

  test("a missing +Inf bucket away from the end does not count as a cut", () => {
    const text = lines.filter((line) => !/^vllm:time_to_first_token_seconds_bucket.*\+Inf/.test(line)).join("\n");
    const report = checkScrapes([text]);
    expect(report.excerpts).toEqual([]);
    expect(report.violated.map(({ id }) => id)).toContain("G06");
  });
});

test("lost blanks after # are one warning", () => {
  const text = page.replaceAll(/^# (HELP|TYPE)/gm, "#$1");
  const report = checkScrapes([text]);
  expect(report.errors).toEqual([]);
  expect(report.violated.map(({ id }) => id)).toEqual(["G01"]);
  expect(law(report, "G01")).toMatchObject({ violationCount: 1, violations: [{ severity: "W" }] });
});

describe("`rest` describes the moment of a scrape, not the time before", () => {
  const { text: V0 } = versionPages[0]!;
  const scrapes = ["vllm-clean-04-step0160.txt", "vllm-clean-99-rest1.txt", "vllm-clean-99-rest2.txt"].map((name) =>
    readFileSync(new URL(`recorded/${name}`, import.meta.url), "utf8"),
  );
  const [busy, idle, still] = scrapes as [string, string, string];
  const g16 = (...pages: readonly { text: string; rest?: boolean }[]) =>
    law(checkScrapes(pages, { only: ["G16"] }), "G16");
  const earlier = idle.replace(/(prompt_tokens_total\{\S*) \S+/, "$1 1.0");

  test("both scrapes at rest with load in between: G16 does not compare them", () => {
    const result = g16({ text: earlier, rest: true }, { text: idle, rest: true });
    expect(result).toMatchObject({ verdict: "not checkable", violationCount: 0 });
    expect(result.reason).toContain("requests were under way at the scrape before, or since");
  });

  test("load at the first scrape, rest at the second", () => {
    expect(g16({ text: busy }, { text: idle, rest: true }).violationCount).toBe(0);
    const gauge = (running: number) => `# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running ${running}\n`;
    expect(g16({ text: gauge(8) }, { text: gauge(0), rest: true }).verdict).toBe("not checkable");
  });

  test("no request in between: drifting values are found, even with a stuck gauge", () => {
    expect(g16({ text: idle, rest: true }, { text: still, rest: true }).verdict).toBe("held");
    const drifts = (value: number) => `${V0}# TYPE vllm:drift gauge\nvllm:drift{model_name="m"} ${value}\n`;
    expect(g16({ text: drifts(1), rest: true }, { text: drifts(2), rest: true }).verdict).toBe("violated");
    const stuck = (value: number) => drifts(value).replace(/(vllm:num_requests_running\S*) 0/, "$1 2");
    expect(g16({ text: stuck(1), rest: true }, { text: stuck(2), rest: true }).verdict).toBe("violated");
  });
});
