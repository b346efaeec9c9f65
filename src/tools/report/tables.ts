/** Makes the tables of a report: all numbers of the result as text, which can be read, copied and searched without a script. */
import { Markup, markup } from "./markup.ts";
import { inTableOrder, labelOf, METRIC_DEFINITIONS } from "./names.ts";
import { fourDigits, isNumber, percentShown, rounded, timeShown } from "./numbers.ts";
import type { Distribution, Result, SweepPoint, UnderstudyPart } from "./result.ts";

export function tiles(result: Result): Markup {
  const { distributions = {}, slo = {}, tokens_per_s_per_user: perUser, retries } = result.understudy;
  const flat = (name: string) => (isNumber(result[name]) ? (result[name] as number) : null);
  const latency = (metric: string, label: string, main: `p${number}`, beside: `p${number}`) => {
    const of = distributions[metric];
    if (!isNumber(of?.[main])) return false;
    const [number, unit] = timeShown(of[main]);
    return tile(
      `${label} ${main}`,
      number,
      unit,
      isNumber(of[beside]) ? `${beside} ${timeShown(of[beside]).join(" ")}` : "",
    );
  };
  const [completed, failed, goodput] = [flat("completed"), flat("failed"), flat("request_goodput")];
  const throughput = flat("request_throughput");
  const attained = goodput !== null && throughput ? goodput / throughput : null;
  return markup`<section class="tiles">
${flat("output_throughput") !== null && tile("Output", rounded(flat("output_throughput")!), "tokens/s", throughputNote(flat("total_token_throughput")))}
${throughput !== null && tile("Requests", rounded(throughput), "/s", completed === null ? "" : `${fourDigits(completed)} in ${rounded(flat("duration") ?? 0)} s`)}
${latency("ttft", "TTFT", "p50", "p99")}
${latency("tpot", "TPOT", "p50", "p99")}
${latency("itl", "ITL", "p50", "p99")}
${latency("e2el", "E2E", "p50", "p99")}
${isNumber(perUser?.p50) && tile("Per user p50", rounded(perUser.p50), "tokens/s", isNumber(perUser.p10) ? `p10 ${rounded(perUser.p10)} tokens/s` : "")}
${goodput !== null && tile("Goodput", rounded(goodput), "/s", `within ${sloText(slo)}`, attained !== null && attained < 0.9 ? "bad" : "good")}
${failed !== null && tile("Failed", fourDigits(failed), "", completed === null ? "" : `of ${fourDigits(completed + failed)} requests`, failed > 0 ? "bad" : "")}
${retries !== undefined && retries.limit > 0 && tile("Retries", fourDigits(retries.count), "", `of ${fourDigits(retries.requests)} requests, ${rounded(retries.per_request)} per request`, retries.count > 0 ? "bad" : "")}
</section>`;
}

const throughputNote = (total: number | null) => (total === null ? "" : `${rounded(total)} with input`);
const sloText = (slo: Readonly<Record<string, number>>) =>
  Object.entries(slo)
    .map(([metric, ms]) => `${labelOf(metric)} ${ms} ms`)
    .join(", ") || "the SLO";

function tile(label: string, number: string, unit: string, note: string, tone = ""): Markup {
  return markup`<div class="tile ${tone}"><span>${label}</span><strong>${number}<small>${unit}</small></strong><span>${note || " "}</span></div>`;
}

/** Makes a table with a row per metric, followed by a row for the steady window. */
export function latencyTable(part: UnderstudyPart): Markup | null {
  const { sched_delay_ms: delay, steady, adj = {} } = part;
  const distributions: Record<string, Distribution> = { ...part.distributions, ...(delay && { sched_delay: delay }) };
  const { itl, icl } = distributions;
  // With one token per chunk, ITL and ICL are equal, so one row is enough.
  const isBoth = itl !== undefined && icl !== undefined && JSON.stringify(itl) === JSON.stringify(icl);
  const metrics = inTableOrder(Object.keys(distributions)).filter(
    (metric) => distributions[metric]!.count > 0 && !(isBoth && metric === "icl"),
  );
  if (metrics.length === 0) return null;
  const columns = columnsOf(metrics.map((metric) => distributions[metric]!));
  const rows = metrics.map((metric) => {
    const inside = steady?.distributions[metric];
    const adjusted = adj[metric];
    return markup`<tr ${(inside || adjusted) && new Markup('class="has-more"')}><th title="${definitionOf(metric, part)}">${isBoth && metric === "itl" ? "ITL = ICL" : labelOf(metric)}</th>${cells(distributions[metric]!, columns)}</tr>
${inside && markup`<tr class="more ${adjusted && "has-more"}"><th>steady window</th>${cells(inside, columns)}</tr>`}
${adjusted && markup`<tr class="more"><th>failed as ∞</th>${columns.map((column) => markup`<td>${adjustedCell(adjusted[column])}</td>`)}<td></td></tr>`}`;
  });
  return markup`<div class="panel"><table><thead><tr><th>ms</th>${columns.map((column) => markup`<th>${column}</th>`)}<th>count</th></tr></thead><tbody>${rows}</tbody></table></div>`;
}

const adjustedCell = (value: number | null | undefined) =>
  value === null ? "∞" : value === undefined ? "" : fourDigits(value);

/** Percentiles that equal minimum and maximum. */
const ENDS = ["p0", "p100"];

/** Returns the columns for which any of the distributions has a value. */
function columnsOf(distributions: readonly Distribution[]): string[] {
  const percentiles = new Set(
    distributions.flatMap((distribution) =>
      Object.keys(distribution).filter((key) => /^p\d/.test(key) && !ENDS.includes(key)),
    ),
  );
  const rising = [...percentiles].sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
  const isThere = (name: string) =>
    distributions.some((distribution) => isNumber((distribution as unknown as Record<string, unknown>)[name]));
  return ["mean", "std", "min", ...rising, "max"].filter(isThere);
}

function cells(of: Distribution, columns: readonly string[]): Markup[] {
  const values = of as unknown as Readonly<Record<string, unknown>>;
  return [
    ...columns.map((column) => markup`<td>${fourDigits(values[column])}</td>`),
    markup`<td>${fourDigits(of.count)}</td>`,
  ];
}

/** Makes a table with a row for each run of a sweep. */
export function sweepTable({ sweep = [] }: UnderstudyPart): Markup | null {
  if (sweep.length === 0) return null;
  const shares = ["ttft", "tpot", "itl", "e2el"].flatMap((metric) =>
    (["p50", "p99"] as const)
      .filter((p) => sweep.some(({ distributions }) => isNumber(distributions[metric]?.[p])))
      .map((p) => [`${labelOf(metric)} ${p}`, (run: SweepPoint) => run.distributions[metric]?.[p]] as const),
  );
  const columns: (readonly [string, (run: SweepPoint) => number | null | undefined])[] = [
    ["rate", (run) => run.request_rate],
    ["at once", (run) => run.concurrency],
    ["requests/s", (run) => run.request_throughput],
    ["tokens/s", (run) => run.output_throughput],
    ["goodput", (run) => run.request_goodput],
    ["% good", (run) => (isNumber(run.attainment) ? 100 * run.attainment : null)],
    ...shares,
  ];
  const used = columns.filter(([, value]) => sweep.some((run) => isNumber(value(run))));
  return markup`<div class="panel"><table><thead><tr>${used.map(([name]) => markup`<th>${name}</th>`)}</tr></thead><tbody>
${sweep.map((run) => markup`<tr>${used.map(([, value], i) => (i === 0 ? markup`<th>${fourDigits(value(run))}</th>` : markup`<td>${fourDigits(value(run))}</td>`))}</tr>`)}</tbody></table></div>
<p class="sub">Times in ms. The rest of the page shows one of these runs: the last that kept the limits, or the last.</p>`;
}

/** Makes a table of requests by result. */
export function errorTable(result: Result): Markup | null {
  const errors = Object.entries(result.understudy.errors ?? {}).filter(([, count]) => count > 0);
  const { completed } = result;
  if (errors.length === 0 && !isNumber(completed)) return null;
  const rows: (readonly [string, number, string])[] = [
    ...(isNumber(completed) ? [["completed", completed, "fine"] as const] : []),
    ...errors.sort((a, b) => b[1] - a[1]).map(([kind, count]) => [kind, count, ""] as const),
  ];
  const all = rows.reduce((sum, [, count]) => sum + count, 0);
  return markup`<div class="panel"><table><thead><tr><th>Requests</th><th>count</th><th>share</th><th></th></tr></thead><tbody>
${rows.map(
  ([kind, count, tone]) =>
    markup`<tr><th>${kind}</th><td>${fourDigits(count)}</td><td>${percentShown(all > 0 ? count / all : 0)}</td><td class="share"><div class="${tone}" style="width:${all > 0 ? ((100 * count) / all).toFixed(1) : 0}%"></div></td></tr>`,
)}</tbody></table></div>`;
}

/** Makes a table of the growth of the server's counters. */
export function deltaTable({ server_metrics: server }: UnderstudyPart): Markup | null {
  const rows = Object.entries(server?.delta ?? {}).filter(([, value]) => isNumber(value) && value !== 0);
  if (rows.length === 0) return null;
  return folded("Growth of the server's counters", rows);
}

/** Members of `understudy` that other parts of the page show. */
const SHOWN_ELSEWHERE = [
  "definitions",
  "command",
  "warnings",
  "distributions",
  "sched_delay_ms",
  "adj",
  "slo",
  "title",
];

/** Makes a table of all single numbers of the result, by their names in the JSON. Lists are left out. */
export function allNumbers({ understudy, ...flat }: Result): Markup {
  const members = Object.entries(understudy).filter(([name]) => !SHOWN_ELSEWHERE.includes(name));
  const rows = [...Object.entries(flat), ...members.map(([name, value]) => [`understudy.${name}`, value] as const)];
  return folded(
    "All numbers, by their names in the JSON",
    rows.flatMap(([name, value]) => singles(name, value, 2)),
  );
}

/** Returns numbers, texts and booleans of an object, down to `depth` levels. */
function singles(name: string, value: unknown, depth: number): (readonly [string, unknown])[] {
  if (["number", "string", "boolean"].includes(typeof value) || value === null) return [[name, value]];
  if (typeof value !== "object" || Array.isArray(value) || value === undefined || depth === 1) return [];
  return Object.entries(value!).flatMap(([key, inner]) => singles(`${name}.${key}`, inner, depth - 1));
}

function folded(title: string, rows: readonly (readonly [string, unknown])[]): Markup {
  return markup`<details><summary>${title}</summary><div class="panel"><table><tbody>
${rows.map(([name, value]) => markup`<tr><th><code>${name}</code></th><td>${fourDigits(value)}</td></tr>`)}</tbody></table></div></details>`;
}

export function truthTable({ truth }: UnderstudyPart): Markup | null {
  const errors = Object.entries(truth?.errors ?? {}).filter(([, { count }]) => count > 0);
  if (errors.length === 0) return null;
  const columns = columnsOf(errors.map(([, distribution]) => distribution));
  // Late writes of the server are not the client's fault, but they are part of what it measured.
  const late = truth?.lateness_ms;
  const rows = late && late.count > 0 ? [...errors, ["the server's own lateness", late] as const] : errors;
  return markup`<div class="panel"><table><thead><tr><th>measured − true, ms</th>${columns.map((column) => markup`<th>${column}</th>`)}<th>count</th></tr></thead><tbody>
${rows.map(([metric, distribution]) => markup`<tr><th>${labelOf(metric)}</th>${cells(distribution, columns)}</tr>`)}</tbody></table></div>`;
}

export function definitionsOf(part: UnderstudyPart): Markup | null {
  const used = [...Object.keys(part.distributions ?? {}), ...(part.sched_delay_ms ? ["sched_delay"] : [])];
  const names = inTableOrder([...new Set([...used, ...Object.keys(part.definitions ?? {})])]).filter(
    (name) => definitionOf(name, part) !== "",
  );
  if (names.length === 0) return null;
  return markup`<div class="panel"><dl class="definitions">
${names.map((name) => markup`<dt>${labelOf(name)}</dt><dd>${definitionOf(name, part)}</dd>`)}</dl></div>`;
}

function definitionOf(metric: string, { definitions = {} }: UnderstudyPart): string {
  return definitions[metric] ?? METRIC_DEFINITIONS[metric] ?? "";
}
