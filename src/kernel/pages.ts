/** Makes pages of metrics from the numbers of a server. Numbers are copied on this thread and printed by a worker. With several processes a page shows them all. */

import type { Clock } from "../base/clock.ts";
import type { Fleet } from "../engine/fleet.ts";
import type { Snapshot } from "../engine/interface/types.ts";
import { Cause } from "../engine/lateness/causes.ts";
import { stuck } from "../metrics/bugs/stuck.ts";
import { bugs } from "../metrics/bugs/table.ts";
import type { Publisher } from "../metrics/publisher.ts";
import { Renderer } from "../metrics/renderer.ts";
import { SnapshotCopies, type Source } from "../metrics/rows/held.ts";
import type { HttpRoute } from "../metrics/rows/http-counts.ts";
import type { Identity } from "../metrics/rows/identity.ts";
import { setupOf } from "../metrics/setup.ts";
import type { TruthLog } from "../truth/log.ts";
import type { Accounts } from "./accounting.ts";
import type { EnginePartsOptions, FleetParts } from "./engines.ts";
import type { KernelConfig } from "./kernel-config.ts";
import type { Place } from "./place.ts";
import type { StreamWrites } from "./stream-writes.ts";

export interface PageParts {
  readonly renderer: Renderer;
  readonly identity: Identity;
  /** Publishes the numbers of this process to the others. null: there are no others. */
  readonly shown: Publisher | null;
  snapshot(): Snapshot;
  /** Keeps the numbers that an update changes. Call it before each update of an engine. */
  beforeUpdate(nowUs: number): void;
}

export interface PageOptions
  extends Pick<FleetParts, "engines" | "truth">,
    Pick<EnginePartsOptions, "marks" | "place" | "epochUs"> {
  readonly config: KernelConfig;
  readonly streamWrites: Pick<StreamWrites, "mode">;
  readonly routes: readonly HttpRoute[];
  readonly accounts: Accounts;
  readonly clock: Clock;
}

export async function pagePartsOf(options: PageOptions): Promise<PageParts> {
  const { config, streamWrites, routes, engines, accounts, truth, clock, marks, place, epochUs } = options;
  const loadS = place?.loadS ?? clock.now() / 1e6;
  const made = setupOf(config, epochUs / 1e6, routes, place === undefined, loadS);
  const setup = { ...made, identity: { ...made.identity, streamWrites: streamWrites.mode } };
  const source = viewsOf(engines, accounts, truth);
  const sticking = stuck(config.metrics.bugs, source);
  const held = new SnapshotCopies(setup.shape, setup.refreshes, sticking?.source ?? source, clock.now());
  const shown = place
    ? (await import("../metrics/publisher.ts")).publisherAt(place.pages, place.index, held, clock)
    : null;
  const own = () => new Renderer(() => held.refresh(clock.now()), setup, clock);
  const alone = config.metrics.bugs.some((name) => bugs[name].alone);
  const renderer = place && shown && !alone ? ofAll(setup, place, shown, clock) : own();
  renderer.marks = marks.of(Cause.Scrape);
  return {
    renderer,
    identity: setup.identity,
    shown,
    snapshot: () => ({
      engines: engines.snapshots(),
      loop: engines.lateness(),
      front: accounts.snapshot(),
      ...(truth ? { truth: truth.dropped() } : {}),
    }),
    beforeUpdate(nowUs) {
      sticking?.observe();
      held.before(nowUs);
    },
  };
}

/** Creates a renderer of pages of all processes, from the memory that they share. */
function ofAll(setup: ReturnType<typeof setupOf>, place: Place, shown: Publisher, clock: Clock): Renderer {
  const shape = { ...setup.shape, engines: place.workers * setup.shape.engines };
  const publish = () => {
    shown.now();
    return null;
  };
  return new Renderer(publish, { ...setup, shape, pages: place.pages }, clock);
}

/** Returns a function that returns live views of the numbers. The views are made once. */
function viewsOf(engines: Fleet, front: Accounts, truth: TruthLog | null): Source {
  const loop = engines.latenessView();
  const views = { now: engines.views("now"), step: engines.views("step") };
  return (fresh) => ({ engines: views[fresh], loop, front, ...(truth ? { truth: truth.dropped() } : {}) });
}
