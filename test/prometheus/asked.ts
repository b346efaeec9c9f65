/** Reads the queries that dashboards, rules and articles ask of such servers' metrics, and judges their results. */
import { readFileSync } from "node:fs";
import type { Sample } from "./prometheus.ts";

/** Expected result of a query. `either`: for an alert or an unusual configuration. `none`: the query is not run. */
export type Must = "filled" | "empty" | "either" | "none";

export interface MetricsQuery {
  /** The query's id, or the expression itself. */
  readonly id: string;
  readonly expr: string;
  readonly must: Must;
  /** The last version of vLLM whose page answers the query (`--metrics-profile`). Later versions must not answer it. */
  readonly profile?: string;
  /** Range of each value. Null means no limit on that side. */
  readonly range?: readonly [least: number | null, most: number | null];
}

interface NotYet {
  readonly reason: string;
  /** Ids from queries.json and expressions from expressions.json. */
  readonly waiting: readonly string[];
}

const read = (name: string) => JSON.parse(readFileSync(new URL(`../metrics/${name}`, import.meta.url), "utf8"));

export const queries: readonly MetricsQuery[] = read("queries.json");
export const expressions: readonly MetricsQuery[] = (read("expressions.json") as Omit<MetricsQuery, "id">[]).map(
  (query) => ({
    ...query,
    id: query.expr,
  }),
);
export const notYet: readonly NotYet[] = read("not-yet.json");

/** Reports whether only a Triton server can answer the query: its response cache, and vLLM's families on its port. */
export const ofTriton = ({ expr, must }: MetricsQuery): boolean =>
  must === "filled" && /\bnv_cache_|job="triton"|^vllm:time_per_output_token_seconds_count$/.test(expr);

/**
 * Matches metrics that a replay lacks, because it has no server process, machine or event loop. They are queried on a live
 * server.
 */
export const LIVE_ONLY = /\b(process|nv_cpu|understudy_event_loop)_/;

/** Grafana's values for an hour on the screen and a scrape every 15 s. $__interval is the smallest step of the panels. */
const VARIABLES: Readonly<Record<string, string>> = {
  $__rate_interval: "1m",
  $__interval: "1m",
  $__range: "1h",
  $model_name: "meta-llama/Llama-3.1-8B-Instruct",
  $Deployment_id: "meta-llama/.*",
  $model: "tensorrt_llm",
  $llm: "tensorrt_llm",
  $version: "1",
  $ensemble: "ensemble",
};

/** Translates an expression of Grafana to PromQL: replaces variables, and label_values by an equal query. */
export function promql(expression: string): string {
  const [, of, label] = /^label_values\((?:(.*), *)?(\w+)\)$/.exec(expression) ?? [];
  if (label !== undefined) return `group by (${label}) (${of ?? `{${label}!=""}`})`;
  return expression.replace(/\$\w+/g, (name) => {
    const value = VARIABLES[name];
    if (value === undefined) throw new Error(`${expression}: ${name} is not known`);
    return value;
  });
}

/**
 * Describes the error of a result, or returns undefined. Between two scrapes of an idle server 0/0 is NaN, so one number is
 * enough.
 */
export function wrong({ must, range }: MetricsQuery, waiting: boolean, answer: readonly Sample[]): string | undefined {
  const shown = () => JSON.stringify(answer.slice(0, 3));
  if (waiting) return answer.length === 0 ? undefined : `it works now: take it out of not-yet.json; ${shown()}`;
  if (must === "empty") return answer.length === 0 ? undefined : `must be empty: ${shown()}`;
  const numbers = answer.map(({ value }) => value).filter((value) => !Number.isNaN(value));
  if (must === "filled" && answer.length === 0) return "must not be empty";
  if (must === "filled" && numbers.length === 0) return "must not be NaN";
  const [least, most] = range ?? [null, null];
  // A sum of floats may exceed the limit slightly.
  const out = numbers.find((value) => value < (least ?? -Infinity) - 1e-9 || value > (most ?? Infinity) + 1e-9);
  return out === undefined ? undefined : `${out} is outside ${JSON.stringify(range)}`;
}
