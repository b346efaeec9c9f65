/** Our own routes on the port of an OpenAI-shaped API: metrics, truth, and changes of the running server. */

import { metricsRoutes, truthRoutesOf } from "../../../kernel/shared-routes.ts";
import { METRICS_METHODS } from "../../../metrics/route.ts";
import { TRUTH_METHODS } from "../../../truth/routes.ts";
import type { RouteEntry } from "../../../wire/http/routes.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { ADMIN_METHODS, adminRoutes } from "./admin-routes.ts";

type Methods = Readonly<Record<string, readonly string[]>>;

/** Returns the routes. `metrics`: methods of the pages of metrics, by path. */
export function ourRoutes(kernel: OpenAiKernel, metrics: Methods = METRICS_METHODS): RouteEntry[] {
  const { live, engines, text, lifecycle } = kernel;
  const { admin } = lifecycle;
  const changes = admin && live.changing(admin, (pace) => engines.fleet.retime(pace), text.openCanned);
  return [
    ...metricsRoutes(kernel, Object.keys(metrics)),
    ...truthRoutesOf(kernel),
    ...(changes ? adminRoutes(kernel, changes) : []),
  ];
}

/** Returns the methods of `ourRoutes` by path. Other methods on these paths get 405. */
export function ourMethods({ lifecycle: { admin } }: OpenAiKernel, metrics: Methods = METRICS_METHODS): Methods {
  return { ...metrics, ...TRUTH_METHODS, ...(admin ? ADMIN_METHODS : {}) };
}
