/**
 * Makes the report of a run as one HTML page that loads nothing: no network, no fonts, no other files. Numbers are text; plots
 * are drawn by an inline script with uPlot. The page stays below a megabyte for runs of any size.
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

/** The page's content security policy. It forbids loading anything, even if a name in the result contains markup. */
const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/** Returns the page of a run. If `records` is empty, the page shows no single requests. */
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
<footer>Written by understudy ${part.versions?.understudy ?? ""}. Drag in a plot to zoom, double-click to reset. Plots need JavaScript; the tables and the JSON have all numbers.</footer>
</main>
<script type="application/json" id="data">${jsonFor(data)}</script>
<script>${built("report.js")}</script>
</body>
</html>
`.text;
}

const gap = new Markup('<div style="height:16px"></div>');

/** Makes a section of the page. Null if all its parts are missing. */
function titled(title: string, ...parts: readonly (Markup | null)[]): Markup | null {
  if (parts.every((part) => part === null || part === gap)) return null;
  const id = title.toLowerCase().replaceAll(" ", "-");
  return markup`<section id="${id}"><h2>${title}</h2>${parts.some((part) => part === null) ? parts.filter((part) => part !== gap) : parts}</section>`;
}

function header(result: Result, title: string): Markup {
  const { understudy: part } = result;
  const allFacts: (readonly [string, unknown])[] = [
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
  const present = allFacts.filter(
    ([, value]) => isNumber(value) || value === true || (typeof value === "string" && value !== ""),
  );
  // Both vLLM's keys and our own may give the same fact. The first one is kept.
  const isSame = (first: string, second: string) => first.toLowerCase() === second.toLowerCase();
  const facts = present.filter(([name], at) => present.findIndex(([other]) => isSame(name, other)) === at);
  return markup`<header><h1>${title}</h1>
${part.partial && markup`<p class="sub">Interrupted: the results up to that moment.</p>`}
${part.command !== undefined && markup`<pre>${part.command}</pre>`}
<dl class="facts">${facts.map(([name, value]) => markup`<div><dt>${name}</dt><dd>${typeof value === "number" ? fourDigits(value) : `${value}`}</dd></div>`)}</dl>
${part.warnings?.length ? markup`<ul class="warnings">${part.warnings.map((warning) => markup`<li>${warning}</li>`)}</ul>` : null}
</header>`;
}

/** Makes a readable date of vLLM's form, such as 20261122-013015. */
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
  // True if no bar has a part up to the first token: answers without tokens are drawn as one part, failed requests as one or
  // none.
  const isWhole = first.every((time) => time === null);
  const key = (color: string, text: string, kind = "") =>
    markup`<span><i class="${kind}" style="background:var(--${color})"></i>${text}</span>`;
  return markup`<figure class="wide"><figcaption><h3>Timeline</h3><p>${shareOf(ids.length, all, "requests")}, one bar each. Point at a bar for its numbers.</p>
<div class="key">${intended.some((time) => time !== null) && key("grey", "sent late")}${isWhole ? key("blue", "to the end of the answer") : [queued ? [key("purple", "in the queue"), key("blue", "prefill")] : key("blue", "to the first token (queue and prefill)"), key("green", "decode")]}
${outliers.row.length > 0 && [key("orange", `token after ${mild} ms or more`, "tick"), key("red", `after ${bad} ms or more`, "tick")]}${failure.some(Boolean) && key("red", "failed (×)")}</div></figcaption>
<div class="place" data-plot="waterfall"></div></figure>`;
}

/** Checks before a long run that a page can be written. Throws a TraceError if the page's script was not built. */
export function prepareHtml(): void {
  built("report.js");
  built("report.css");
}

/** Returns the page's script or style, which `scripts/pack-report.ts` makes. */
function built(name: "report.js" | "report.css"): Markup {
  const path = new URL(`../../../build/${name}`, import.meta.url);
  if (!existsSync(path)) throw new TraceError(`--html: build/${name} is missing; make it with: bun scripts/build.ts`);
  return new Markup(readFileSync(path, "utf8"));
}
