/** The metrics pages of a replay, as a scrape of the server would show them at the replay's time. */
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
  /** Returns the records that the truth log has lost; null without a truth log. */
  readonly dropped: (() => TruthDropped) | null;
}

export class ReplayPages {
  /** Must be called before each update, as `beforeUpdate` of the replay. */
  readonly before: (nowUs: number) => void;
  /** Returns the page at the replay's current time. */
  readonly text: (view: View) => Promise<string>;

  constructor(replay: Replay, { config, startS, dropped }: PagesOptions) {
    const { fleet, accounts } = replay;
    const ranks = { ...config, dataParallelSize: fleet.engines.length };
    const views = { now: fleet.views("now"), step: fleet.views("step") };
    // Triton's page needs meters on all engines. CPU metrics are off, because this machine is not simulated.
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
