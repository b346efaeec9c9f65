/** Routes that every server can have: its metrics, and the truth about its last requests. */

import { Cause } from "../engine/lateness/causes.ts";
import { metrics } from "../metrics/route.ts";
import { Peers } from "../truth/peers.ts";
import { truthRoutes } from "../truth/routes.ts";
import type { RouteEntry } from "../wire/http/routes.ts";
import { aboutOf } from "./engines.ts";
import type { Kernel } from "./kernel.ts";

/** `paths`: those of METRICS_METHODS that the server has. Absent: all of them. */
export function metricsRoutes({ metrics: { renderer, identity } }: Kernel, paths?: readonly string[]): RouteEntry[] {
  return metrics(renderer, identity, paths);
}

/** `GET /understudy/requests`. */
export function truthRoutesOf({ config, live, truth, time, pressure, lifecycle: { place } }: Kernel): RouteEntry[] {
  const { recent, history } = truth;
  const { marks, gaps } = pressure;
  return truthRoutes({
    recent,
    get about() {
      const engine = { ...config.engine, ...live.values.pace.get() };
      return aboutOf({ ...config, engine }, place, time.epochUs);
    },
    spare: () => gaps.pieces.pass(),
    worked: (work) => marks.timed(Cause.Truth, work),
    sent: (config.truth.keepBodies && history) || null,
    peers: place ? new Peers(place.pages.files[0]!, place.index, place.workers, time.clock) : null,
  });
}
