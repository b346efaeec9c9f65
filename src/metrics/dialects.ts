/** The dialects of metrics: the table of each, how its server prints, and its content type. */
import { RUST } from "./config/metrics-profiles.ts";
import { dialectNames, type MetricsDialectName } from "./rows/dialect-names.ts";
import { refreshKey } from "./rows/held.ts";
import type { Identity } from "./rows/identity.ts";
import type { Refresh, Row } from "./rows/table.ts";
import { python, type Style } from "./rows/text.ts";
import { prometheusCpp } from "./triton/style.ts";
import { tritonRows } from "./triton/table.ts";
import { trtllmRows } from "./triton/trtllm.ts";
import { http } from "./vllm/http.ts";
import { ownProcess } from "./vllm/process.ts";
import { toolParsers } from "./vllm/tool-parsers.ts";
import { understudy } from "./vllm/understudy.ts";
import { vllmAt } from "./vllm/vllm-history.ts";
import { vllmRs } from "./vllm/vllm-rs.ts";
import { rustStyle } from "./vllm/vllm-rs-style.ts";

interface MetricsDialect {
  readonly rows: (identity: Identity) => readonly Row[];
  readonly style: Style;
  readonly contentType: string;
}

const TRITON_TEXT = "text/plain; charset=utf-8";
const TEXT = "text/plain; version=0.0.4; charset=utf-8";

export const metricsDialects = {
  vllm: {
    rows: vllmPage,
    style: python,
    // Recorded from vLLM 0.33 with prometheus_client 0.26.
    contentType: "text/plain; version=1.0.0; charset=utf-8",
  },
  triton: { rows: tritonRows, style: prometheusCpp, contentType: TRITON_TEXT },
  trtllm: { rows: trtllmRows, style: prometheusCpp, contentType: TRITON_TEXT },
  understudy: { rows: () => understudy, style: python, contentType: TEXT },
} as const satisfies Readonly<Record<MetricsDialectName, MetricsDialect>>;

/**
 * Returns vLLM's page: its process, its own families, and those of its HTTP middleware. The process families are only
 * shown if the process that prints is the one that serves.
 */
function vllmPage({
  ownProcess: showsProcess,
  disableLogStats,
  profile,
  showHidden,
  maxLoras,
  parsesTools,
}: Identity): readonly Row[] {
  if (profile === RUST) return vllmRs;
  const engine = disableLogStats ? [] : vllmAt(profile, showHidden);
  const shown = engine.filter(({ name }) => maxLoras > 0 || name !== "vllm:lora_requests_info");
  return [...(showsProcess ? ownProcess : []), ...shown, ...http, ...(parsesTools ? toolParsers : [])];
}

/** Returns how the server of a dialect prints. */
export const styleOf = (name: MetricsDialectName, { profile }: Identity): Style =>
  name === "vllm" && profile === RUST ? rustStyle : metricsDialects[name].style;

/** Returns true for the page of vLLM's front end in Rust, which is always OpenMetrics, whatever the scrape accepts. */
export const isOnlyOpenMetrics = (view: View, { role, profile }: Identity): boolean =>
  profile === RUST && (view === "role" ? role : view) === "vllm";

/**
 * Pages. `role` is `/metrics`: the dialect of the role, then our own families. `all` has every dialect. `tritonserver`
 * is the page of Triton's own metrics port.
 */
export type View = MetricsDialectName | "role" | "all" | "tritonserver";
export const views: readonly View[] = ["role", "all", "tritonserver", ...dialectNames];

export function dialectsOf(view: View, { role }: Identity): readonly MetricsDialectName[] {
  if (view === "all") return dialectNames;
  if (view === "tritonserver") return ["triton", "trtllm"];
  return view === "role" ? [...new Set<MetricsDialectName>([role, "understudy"])] : [view];
}

/** A page with several dialects imitates no server, so it has the plain content type. */
export function contentTypeOf(view: View, { role }: Identity): string {
  if (view === "tritonserver") return TRITON_TEXT;
  return view === "all" ? TEXT : metricsDialects[view === "role" ? role : view].contentType;
}

/** Returns every refresh class that any row has. */
export function refreshesOf(identity: Identity): Refresh[] {
  const rows = dialectNames.flatMap((name) => [...metricsDialects[name].rows(identity)]);
  return [...new Map(rows.map(({ refresh }) => [refreshKey(refresh), refresh])).values()];
}
