/** What would a scrape show at an instant of a replay? The server's pages over the server's held copies. */
import { histogramBounds, LOOP_BOUNDS } from "../config/buckets.ts";
import type { ServeConfig } from "../config/types.ts";
import type { TruthDropped } from "../engine/types.ts";
import { cacheConfigLabels } from "../metrics/cache-config.ts";
import { refreshesOf, type View } from "../metrics/dialects.ts";
import { Held, heldReader, type Source } from "../metrics/held.ts";
import type { Identity } from "../metrics/identity.ts";
import { pages } from "../metrics/page.ts";
import type { Replay } from "./replay.ts";

export interface PagesOptions {
  readonly config: ServeConfig;
  /** Seconds since 1970 at which the simulation begins. */
  readonly startS: number;
  /** What a truth log lost so far; null where none is written. */
  readonly dropped: (() => TruthDropped) | null;
}

export class Pages {
  /** Of the replay's `beforeUpdate`. */
  readonly before: (nowUs: number) => void;
  /** The page as it stands at the replay's time. */
  readonly text: (view: View) => Promise<string>;

  constructor(replay: Replay, { config, startS, dropped }: PagesOptions) {
    const identity: Identity = {
      role: "vllm",
      modelName: config.servedModelNames[0]!,
      engineFirst: 0,
      startedS: startS,
      cacheConfig: cacheConfigLabels(config),
      http: [],
      ownProcess: false,
      fixes: config.engine.fixes ?? [],
      disableLogStats: config.disableLogStats,
    };
    const { fleet, accounts } = replay;
    const views = { now: fleet.views("now"), step: fleet.views("step") };
    const loop = fleet.lateness();
    const source: Source = (fresh) => ({
      engines: views[fresh],
      loop,
      front: accounts.snapshot(),
      ...(dropped ? { truth: dropped() } : {}),
    });
    const shape = {
      engines: fleet.engines.length,
      bounds: histogramBounds(config.engine.maxModelLen),
      loopBounds: LOOP_BOUNDS,
      adapters: 0,
      httpRoutes: 0,
      passages: 0,
      truth: dropped !== null,
    };
    const refreshes = refreshesOf(identity);
    const held = new Held(shape, refreshes, source, replay.nowUs);
    const read = heldReader(shape, refreshes);
    const print = pages(identity);
    this.before = (nowUs) => held.before(nowUs);
    this.text = (view) => print(view, read(held.refresh(replay.nowUs)));
  }
}
