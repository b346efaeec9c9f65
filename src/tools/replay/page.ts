/** The pages of metrics that a scrape would get at an instant of a replay: the server's pages over the server's held copies. */
import type { TruthDropped } from "../../engine/interface/types.ts";
import { stuck } from "../../metrics/bugs/stuck.ts";
import type { MetricsSource } from "../../metrics/config/metrics-source.ts";
import type { View } from "../../metrics/dialects.ts";
import { pages } from "../../metrics/page.ts";
import { copiesReader, SnapshotCopies, type Source } from "../../metrics/rows/held.ts";
import { setupOf } from "../../metrics/setup.ts";
import { HTTP_ROUTES, type Replay } from "./replay.ts";

export interface PagesOptions {
  readonly config: MetricsSource;
  /** Seconds since 1970 at which the simulation begins. */
  readonly startS: number;
  /** What a truth log lost so far; null where none is written. */
  readonly dropped: (() => TruthDropped) | null;
}

export class ReplayPages {
  /** For the replay's `beforeUpdate`. */
  readonly before: (nowUs: number) => void;
  /** The page as it stands at the replay's time. */
  readonly text: (view: View) => Promise<string>;

  constructor(replay: Replay, { config, startS, dropped }: PagesOptions) {
    const { fleet, accounts } = replay;
    const ranks = { ...config, dataParallelSize: fleet.engines.length };
    const views = { now: fleet.views("now"), step: fleet.views("step") };
    // Without what counts for Triton it has no page, and this machine has no place in simulated time.
    const counted = config.metrics.triton.metrics && views.now.every(({ meters }) => meters.length > 0);
    const triton = { ...config.metrics.triton, metrics: counted, cpu: false };
    const { identity, shape, refreshes } = setupOf(
      { ...ranks, metrics: { ...config.metrics, triton } },
      startS,
      HTTP_ROUTES,
      false,
    );
    const loop = fleet.lateness();
    const source: Source = (fresh) => ({
      engines: views[fresh],
      loop,
      front: accounts.snapshot(),
      ...(dropped ? { truth: dropped() } : {}),
    });
    const sticking = stuck(config.metrics.bugs, source);
    const held = new SnapshotCopies(shape, refreshes, sticking?.source ?? source, replay.nowUs);
    const read = copiesReader(shape, refreshes);
    const print = pages(identity);
    this.before = (nowUs) => {
      sticking?.observe();
      held.before(nowUs);
    };
    this.text = (view) => print(view, read(held.refresh(replay.nowUs)), "text", replay.nowUs);
  }
}
