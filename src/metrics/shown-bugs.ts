/** Checks that the configured bug modes can show. */

import { bugs } from "./bugs/table.ts";
import type { MetricsSource } from "./config/metrics-source.ts";
import { metricsDialects } from "./dialects.ts";
import { dialectNames } from "./rows/dialect-names.ts";
import { setupOf } from "./setup.ts";

/** Returns one line about the first bug that cannot show, or undefined. */
export function whyNotShown(config: MetricsSource): string | undefined {
  if (config.metrics.bugs.length === 0) return undefined;
  const { identity } = setupOf(config, 0, [], true);
  const shown = new Set(dialectNames.flatMap((name) => metricsDialects[name].rows(identity).map((row) => row.name)));
  for (const name of config.metrics.bugs) {
    const { families, lacks } = bugs[name];
    const missing = families.find((family) => !shown.has(family));
    if (missing !== undefined) return `--bug ${name}: no effect, because these options leave out ${missing}`;
    const needed = lacks?.(config);
    if (needed !== undefined) return `--bug ${name}: no effect, because it needs ${needed}`;
  }
  return undefined;
}
