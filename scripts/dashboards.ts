/** Writes deploy/grafana/<dialect>.json in Grafana's format. A test evaluates every expression. */
import { writeFileSync } from "node:fs";
import { type Dashboard, dashboards, type Panel } from "./dashboard-panels.ts";

/** Data source of all panels: a template variable that each dashboard defines. */
const SOURCE = { type: "prometheus", uid: "$datasource" };
const WIDTH = 12;
const HEIGHT = 8;

/** Returns the dashboard as JSON that Grafana 10 and later can import. */
export function json({ dialect, title, about, choice, sections }: Dashboard): string {
  let id = 0;
  let y = 0;
  const panels = sections.flatMap((section) => {
    const row = {
      id: ++id,
      type: "row",
      title: section.title,
      collapsed: false,
      gridPos: { h: 1, w: 24, x: 0, y },
      panels: [],
    };
    y += 1;
    const placed = section.panels.map((panel, index) => {
      const gridPos = { h: HEIGHT, w: WIDTH, x: (index % 2) * WIDTH, y: y + Math.floor(index / 2) * HEIGHT };
      return { id: ++id, ...panelJson(panel), gridPos };
    });
    y += Math.ceil(section.panels.length / 2) * HEIGHT;
    return [row, ...placed];
  });
  const family = choice?.[1] ?? "understudy_steps_total";
  const list = [
    { name: "datasource", label: "Data source", type: "datasource", query: "prometheus" },
    variable("job", "Job", `label_values(${family}, job)`),
    variable("instance", "Instance", `label_values(${family}{job=~"$job"}, instance)`),
    ...(choice ? [variable("choice", "Model", `label_values(${family}{job=~"$job"}, ${choice[0]})`)] : []),
  ];
  const dashboard = {
    uid: `understudy-${dialect}`,
    title,
    description: about,
    tags: ["understudy"],
    schemaVersion: 39,
    editable: true,
    time: { from: "now-1h", to: "now" },
    refresh: "15s",
    templating: { list },
    panels,
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

function panelJson({ title, unit, lines, about, kind = "timeseries" }: Panel) {
  return {
    type: kind,
    title,
    ...(about === undefined ? {} : { description: about }),
    datasource: SOURCE,
    fieldConfig: { defaults: { unit, ...(unit === "percentunit" ? { min: 0, max: 1 } : {}) }, overrides: [] },
    options:
      kind === "heatmap"
        ? { calculate: false, yAxis: { unit } }
        : { legend: { displayMode: "list", placement: "bottom" } },
    targets: lines.map(([expr, legendFormat], index) => ({
      refId: String.fromCharCode("A".charCodeAt(0) + index),
      datasource: SOURCE,
      expr,
      legendFormat,
      ...(kind === "heatmap" ? { format: "heatmap" } : {}),
    })),
  };
}

/** Returns a template variable that selects all values until the user chooses some. */
function variable(name: string, label: string, query: string) {
  return {
    name,
    label,
    type: "query",
    datasource: SOURCE,
    query: { query, refId: name },
    definition: query,
    refresh: 2,
    includeAll: true,
    multi: true,
    allValue: ".*",
    current: { text: "All", value: "$__all" },
  };
}

export const path = ({ dialect }: Dashboard) => new URL(`../deploy/grafana/${dialect}.json`, import.meta.url).pathname;

if (import.meta.main) for (const dashboard of dashboards) writeFileSync(path(dashboard), json(dashboard));
