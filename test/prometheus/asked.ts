/** What do people ask of such servers' metrics, and what must they get? Expressions of dashboards, rules and articles. */
import { readFileSync } from "node:fs";
import type { Sample } from "./prometheus.ts";

/** `either`: an alert or an odd configuration; `none`: no query at all. */
export type Must = "filled" | "empty" | "either" | "none";

export interface Asked {
  /** The query's id, or the expression itself. */
  readonly id: string;
  readonly expr: string;
  readonly must: Must;
  /** The last version of vLLM whose page answers it (`--metrics-profile`); later ones must not. */
  readonly profile?: string;
  /** Each value must lie in it; null is open. */
  readonly range?: readonly [least: number | null, most: number | null];
}

interface NotYet {
  readonly reason: string;
  /** Ids of queries.json and expressions of expressions.json. */
  readonly waiting: readonly string[];
}

const read = (name: string) => JSON.parse(readFileSync(new URL(`../metrics/${name}`, import.meta.url), "utf8"));

export const queries: readonly Asked[] = read("queries.json");
export const expressions: readonly Asked[] = (read("expressions.json") as Omit<Asked, "id">[]).map((one) => ({
  ...one,
  id: one.expr,
}));
export const notYet: readonly NotYet[] = read("not-yet.json");

/** A Triton server alone has these: its response cache, and vLLM's families on its port. */
export const ofTriton = ({ expr, must }: Asked): boolean =>
  must === "filled" && /\bnv_cache_|job="triton"|^vllm:time_per_output_token_seconds_count$/.test(expr);

/** A replay has no server process, no machine of its own and no event loop, so these are asked of a live server. */
export const LIVE_ONLY = /\b(process|nv_cpu|understudy_event_loop)_/;

/** What Grafana puts in for an hour on a screen and a scrape every 15 s; $__interval is the panels' smallest step. */
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

/** As Prometheus can be asked: variables filled in, Grafana's label_values as what it means. */
export function promql(expression: string): string {
  const [, of, label] = /^label_values\((?:(.*), *)?(\w+)\)$/.exec(expression) ?? [];
  if (label !== undefined) return `group by (${label}) (${of ?? `{${label}!=""}`})`;
  return expression.replace(/\$\w+/g, (name) => {
    const value = VARIABLES[name];
    if (value === undefined) throw new Error(`${expression}: ${name} is not known`);
    return value;
  });
}

/** What is wrong with an answer; undefined: nothing. Between two scrapes of an idle server 0/0 is NaN, so one number will do. */
export function wrong({ must, range }: Asked, waiting: boolean, answer: readonly Sample[]): string | undefined {
  const shown = () => JSON.stringify(answer.slice(0, 3));
  if (waiting) return answer.length === 0 ? undefined : `it works now: take it out of not-yet.json; ${shown()}`;
  if (must === "empty") return answer.length === 0 ? undefined : `must be empty: ${shown()}`;
  const numbers = answer.map(({ value }) => value).filter((value) => !Number.isNaN(value));
  if (must === "filled" && answer.length === 0) return "must not be empty";
  if (must === "filled" && numbers.length === 0) return "must not be NaN";
  const [least, most] = range ?? [null, null];
  // Where a range begins or ends a sum of floats may miss it by a hair.
  const out = numbers.find((value) => value < (least ?? -Infinity) - 1e-9 || value > (most ?? Infinity) + 1e-9);
  return out === undefined ? undefined : `${out} is outside ${JSON.stringify(range)}`;
}
