/** Reads the Grafana dashboards of Understudy from dashboards.yaml. `dashboards.ts` writes the files. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";

/** A PromQL expression, and the legend of its curves, which is a template of Grafana such as `{{label}}`. */
type Line = readonly [expr: string, legend: string];

export interface Panel {
  readonly title: string;
  /** Unit in Grafana's notation: s, ms, µs, percentunit, reqps, short, bytes … */
  readonly unit: string;
  readonly lines: readonly Line[];
  readonly about?: string;
  readonly kind?: "timeseries" | "stat" | "heatmap";
}

export interface Dashboard {
  readonly dialect: string;
  readonly title: string;
  readonly about: string;
  /**
   * The label by which a user selects series, and a metric family that has it. Null if the dashboard has no such selection.
   */
  readonly choice: readonly [label: string, family: string] | null;
  readonly sections: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
}

/** A panel of the file. It has one of `curves`, `quantiles` and `means`. */
interface FilePanel extends Omit<Panel, "lines"> {
  readonly curves?: Readonly<Record<string, string>>;
  readonly quantiles?: string;
  readonly means?: Readonly<Record<string, string>>;
}

interface FileDashboard {
  readonly title: string;
  readonly about: string;
  readonly choice?: { readonly label: string; readonly family: string };
  readonly sections: Readonly<Record<string, readonly FilePanel[]>>;
}

const RATE = "[$__rate_interval]";
const ALL = 'job=~"$job",instance=~"$instance"';
const QUANTILES = ["0.5", "0.9", "0.99"];

/** Returns expressions for the quantiles of a histogram, summed over all selected series. */
const quantilesOf = (family: string): Line[] =>
  QUANTILES.map((quantile) => [
    `histogram_quantile(${quantile}, sum by (le) (rate(${family}_bucket{$chosen}${RATE})))`,
    `p${Number(quantile) * 100}`,
  ]);
const meanOf = (family: string) =>
  `sum(rate(${family}_sum{$chosen}${RATE})) / (sum(rate(${family}_count{$chosen}${RATE})) > 0)`;

function dashboard([dialect, { title, about, choice, sections }]: [string, FileDashboard]): Dashboard {
  const chosen = choice ? `${ALL},${choice.label}=~"$choice"` : ALL;
  const panel = ({ curves = {}, quantiles, means = {}, ...rest }: FilePanel): Panel => {
    const lines = [
      ...Object.entries(curves).map(([legend, expr]): Line => [expr, legend]),
      ...(quantiles ? quantilesOf(quantiles) : []),
      ...Object.entries(means).map(([legend, family]): Line => [meanOf(family), legend]),
    ];
    if (lines.length === 0) throw new Error(`dashboards.yaml: ${dialect}: ${rest.title}: has no curves`);
    const full = (expr: string) => expr.replaceAll("$chosen", () => chosen).replaceAll("$all", () => ALL);
    return { ...rest, lines: lines.map(([expr, legend]) => [full(expr), legend]) };
  };
  return {
    ...{ dialect, title, about, choice: choice ? [choice.label, choice.family] : null },
    sections: Object.entries(sections).map(([title, panels]) => ({ title, panels: panels.map(panel) })),
  };
}

const file: Record<string, FileDashboard> = parse(readFileSync(new URL("dashboards.yaml", import.meta.url), "utf8"));
export const dashboards: readonly Dashboard[] = Object.entries(file).map(dashboard);
