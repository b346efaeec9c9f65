/** Returns the tables of docs/reference/metrics.md, from the definitions of the dialects. */
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { metricsDialects } from "../../src/metrics/dialects.ts";
import { dialectNames } from "../../src/metrics/rows/dialect-names.ts";
import { refreshKey } from "../../src/metrics/rows/held.ts";
import { httpRoutes } from "../../src/metrics/rows/http-counts.ts";
import { setupOf } from "../../src/metrics/setup.ts";
import { METHODS } from "../../src/servers/openai/front/served.ts";
import { markdownTable } from "./markdown.ts";
import { textsOf } from "./rows.ts";

/** Metric families of vLLM 0.33 that Understudy does not show, with the condition under which vLLM shows them. */
export const LEFT_OUT = textsOf("left-out.yaml");

/** Options with which a server's metrics page has all families, also those that options switch on. */
const EVERY_FAMILY = [
  ...["--enable-lora", "--tool-call-parser", "hermes"],
  ...["--metrics-config", "histogram_latencies=true", "summary_latencies=true"],
];

/** Returns all tables, by the name of the marker at which each stands in the page. */
export function metricsTables(): Readonly<Record<string, string>> {
  const resolved = resolveServeConfig([...EVERY_FAMILY, "--served-model-name", "m"], {}, () => "");
  if (!("config" in resolved)) throw new Error("the defaults are refused");
  const { identity } = setupOf(resolved.config, 0, httpRoutes(METHODS), true);
  const families = dialectNames.map((name) => {
    const rows = metricsDialects[name].rows(identity).map(({ name: family, type, refresh, proof }) => {
      const why =
        "moves" in proof ? `[${proof.moves.split("/").at(-1)}](../../${proof.moves})` : `still: ${proof.still}`;
      return [`\`${family}\``, type, refreshKey(refresh), why];
    });
    return `### ${name}\n\n${markdownTable([["Family", "Type", "Refresh", "Moved by, or why not"], ...rows])}`;
  });
  const leftOut = Object.entries(LEFT_OUT).map(([names, reason]) => [`\`${names.replaceAll(" ", "`, `")}\``, reason]);
  return {
    families: families.join("\n\n"),
    "left-out": markdownTable([["Family", "Why it is left out"], ...leftOut]),
  };
}
