/**
 * What does a run look like? One page of HTML that needs nothing else: no network, no fonts, no files beside it. Its
 * numbers are text; its plots are drawn by a script in it, with uPlot. Whatever the run's size it stays below a megabyte.
 */
import { existsSync, readFileSync } from "node:fs";
import { TraceError } from "../../workloads/trace.ts";
import { latencyPlots, scatter, sweepPlots, truthPlot } from "./latency-plots.ts";
import { jsonFor, Markup, markup } from "./markup.ts";
import { fourDigits, isNumber } from "./numbers.ts";
import type { PageData, Plot, Waterfall } from "./plot.ts";
import type { ReportRecord, Result } from "./result.ts";
import { shareOf } from "./sample.ts";
import {
  allNumbers,
  definitionsOf,
  deltaTable,
  errorTable,
  latencyTable,
  sweepTable,
  tiles,
  truthTable,
} from "./tables.ts";
import { arrivalPlots, runPlots, serverPlots } from "./time-plots.ts";
import { waterfallOf } from "./waterfall.ts";

export type { Distribution, Moment, ReportRecord, Result, ServerMoment, SweepPoint, UnderstudyPart } from "./result.ts";

/** Nothing is loaded from anywhere, whatever somebody smuggled into a name. */
const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/** The page of a run. `records` may be empty: then there is nothing of single requests in it. */
export function html(result: Result, records: readonly ReportRecord[]): string {
  const { understudy: part } = result;
  const latency = latencyPlots(part);
  const dots = scatter(records, part);
  const truth = truthPlot(part);
  const sections = {
    sweep: sweepPlots(part),
    latency: dots === null ? latency : [...latency, dots],
    run: runPlots(part),
    arrivals: arrivalPlots(records),
    server: serverPlots(part),
    truth: truth === null ? [] : [truth],
  };
  const waterfall = waterfallOf(records, part);
  const data: PageData = { plots: Object.values(sections).flat(), waterfall };
  const title = part.title ?? `Load on ${result.model_id ?? "a server"}`;
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<title>${title}</title>
<style>${built("report.css")}</style>
</head>
<body>
<main>
${header(result, title)}
${tiles(result)}
${titled("Sweep", sweepTable(part), gap, plots(sections.sweep))}
${titled("Latency", latencyTable(part), gap, plots(sections.latency))}
${titled("Requests", waterfall && timeline(waterfall, part.requests ?? records.length))}
${titled("Over time", plots(sections.run))}
${titled("Arrivals", plots(sections.arrivals))}
${titled("Server", plots(sections.server), deltaTable(part))}
${titled("Measuring error", truthTable(part), gap, plots(sections.truth))}
${titled("Outcomes", errorTable(result), allNumbers(result))}
${titled("What the names mean", definitionsOf(part))}
<footer>Written by understudy ${part.versions?.understudy ?? ""}. A drag in a plot zooms, a double click shows all again. Plots need JavaScript; every number is in the tables and in the JSON.</footer>
</main>
<script type="application/json" id="data">${jsonFor(data)}</script>
<script>${built("report.js")}</script>
</body>
</html>
`.text;
}

const gap = new Markup('<div style="height:16px"></div>');

/** A part of the page; nothing where all of it is missing. */
function titled(title: string, ...parts: readonly (Markup | null)[]): Markup | null {
  if (parts.every((part) => part === null || part === gap)) return null;
  const id = title.toLowerCase().replaceAll(" ", "-");
  return markup`<section id="${id}"><h2>${title}</h2>${parts.some((part) => part === null) ? parts.filter((part) => part !== gap) : parts}</section>`;
}

function header(result: Result, title: string): Markup {
  const { understudy: part } = result;
  const named: (readonly [string, unknown])[] = [
    ["Date", dateShown(result.date)],
    ["Duration", isNumber(result.duration) ? `${fourDigits(result.duration)} s` : undefined],
    ["Model", result.model_id],
    ["Backend", result.backend ?? result.endpoint_type],
    ["Rate", result.request_rate],
    ["Concurrency", result.max_concurrency],
    ...Object.entries(part.arrivals ?? {}).filter(([name]) => name !== "rate"),
    ...Object.entries(part.metadata ?? {}),
    ...Object.entries(part.versions ?? {}),
    ...Object.entries(part.host ?? {}).map(([name, value]) => [name === "name" ? "host" : name, value] as const),
  ];
  const known = named.filter(
    ([, value]) => isNumber(value) || value === true || (typeof value === "string" && value !== ""),
  );
  // vLLM's keys come first; ours may say the same again.
  const isSame = (one: string, other: string) => one.toLowerCase() === other.toLowerCase();
  const facts = known.filter(([name], at) => known.findIndex(([other]) => isSame(name, other)) === at);
  return markup`<header><h1>${title}</h1>
${part.partial && markup`<p class="sub">Interrupted: what there was until then.</p>`}
${part.command !== undefined && markup`<pre>${part.command}</pre>`}
<dl class="facts">${facts.map(([name, value]) => markup`<div><dt>${name}</dt><dd>${typeof value === "number" ? fourDigits(value) : `${value}`}</dd></div>`)}</dl>
${part.warnings?.length ? markup`<ul class="warnings">${part.warnings.map((warning) => markup`<li>${warning}</li>`)}</ul>` : null}
</header>`;
}

/** vLLM writes 20261122-013015. */
function dateShown(date: unknown): unknown {
  return typeof date === "string"
    ? date.replace(/^(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)$/, "$1-$2-$3 $4:$5:$6")
    : date;
}

function plots(all: readonly Plot[]): Markup | null {
  if (all.length === 0) return null;
  return markup`<div class="plots">${all.map(
    ({ id, title, note }) =>
      markup`<figure><figcaption><h3>${title}</h3><p>${note}</p></figcaption><div class="place" data-plot="${id}"></div></figure>`,
  )}</div>`;
}

function timeline(
  { ids, thresholdsMs: [mild, bad], outliers, intended, scheduled, first, failure }: Waterfall,
  all: number,
): Markup {
  const queued = scheduled.some((time) => time !== null);
  // Answers without tokens have one part; requests that all failed have none of their own.
  const isWhole = first.every((time) => time === null);
  const key = (color: string, text: string, kind = "") =>
    markup`<span><i class="${kind}" style="background:var(--${color})"></i>${text}</span>`;
  return markup`<figure class="wide"><figcaption><h3>Timeline</h3><p>${shareOf(ids.length, all, "requests")}, one bar each. Point at one for its numbers.</p>
<div class="key">${intended.some((time) => time !== null) && key("grey", "sent late")}${isWhole ? key("blue", "to the end of the answer") : [queued ? [key("purple", "in the queue"), key("blue", "prefill")] : key("blue", "to the first token (queue and prefill)"), key("green", "decode")]}
${outliers.row.length > 0 && [key("orange", `token after ${mild} ms or more`, "tick"), key("red", `after ${bad} ms or more`, "tick")]}${failure.some(Boolean) && key("red", "failed (×)")}</div></figcaption>
<div class="place" data-plot="waterfall"></div></figure>`;
}

/**
 * Where a page is wanted after a long run, it is better to know before that it can be written: throws a TraceError where
 * its script has not been built.
 */
export function prepareHtml(): void {
  built("report.js");
  built("report.css");
}

/** The page's script and style, made by `scripts/pack-report.ts`. */
function built(name: "report.js" | "report.css"): Markup {
  const path = new URL(`../../../build/${name}`, import.meta.url);
  if (!existsSync(path)) throw new TraceError(`--html: build/${name} is missing; make it with: bun scripts/build.ts`);
  return new Markup(readFileSync(path, "utf8"));
}
