/** Creates the engines of a process, with their observers: the truth log, the last requests, journals, the step log. */

import { logUnexpected } from "../base/unexpected.ts";
import { flatEngineConfig } from "../engine/config/engine-config.ts";
import { Fleet } from "../engine/fleet.ts";
import type { AdapterName } from "../engine/interface/cache-records.ts";
import type { Lanes } from "../engine/interface/lanes.ts";
import type { Iterations } from "../engine/iterations.ts";
import { Journal } from "../engine/journal.ts";
import { Cause } from "../engine/lateness/causes.ts";
import type { LoopObserver } from "../engine/lateness/loop-observer.ts";
import type { Punctuality } from "../engine/lateness/punctuality.ts";
import type { KvEvents } from "../kv-events/kv-events.ts";
import { adapterPlaces } from "../metrics/adapter-places.ts";
import { Ensemble } from "../metrics/ensemble/ensemble.ts";
import type { TextModel } from "../text/text-model.ts";
import { createTruthLog, type TruthLog } from "../truth/log.ts";
import { observersOf, RecentRows } from "../truth/recent.ts";
import { RING } from "../truth/ring.ts";
import type { LogHeader } from "../truth/schema.ts";
import { EngineBroken, EngineClock, isBroken } from "./broken-engine.ts";
import type { StartConfig } from "./kernel-config.ts";
import type { Marks } from "./marks.ts";
import type { Place } from "./place.ts";
import { StepLog } from "./step-log.ts";

/** Options of the truth log of one of several processes. It writes often, because such a process may be killed and replaced. */
const HASTY = { ...RING, lingerUs: 50_000 };

export interface FleetParts {
  readonly engines: Fleet;
  /** The last calls of each core, by engine. */
  readonly journals: readonly Journal[];
  readonly truth: TruthLog | null;
  readonly recent: RecentRows | null;
  readonly steps: StepLog | null;
  /** Number of this process's first engine among the engines of all processes. */
  readonly engineFirst: number;
}

export interface EnginePartsOptions {
  readonly config: StartConfig;
  readonly core: ArrayBuffer;
  readonly text: TextModel;
  readonly punctual: Punctuality;
  readonly marks: Marks;
  readonly log: (line: string) => void;
  /** Path of the file that gets the times of steps. undefined: none is written. */
  readonly stepLog: string | undefined;
  readonly place: Place | undefined;
  /** Microseconds since 1970 at the clock's 0. */
  readonly epochUs: number;
  /** Creates the lanes of an engine, which write plain tokens to streams natively. null: receivers write all tokens. */
  readonly lanes: (() => Lanes) | null;
  /** Called when an engine cannot continue. */
  readonly broke: (error: Error) => void;
  /** Further observers of steps. */
  readonly loopObservers: readonly LoopObserver[];
  /** Records iterations and requests. null: nothing records them. */
  readonly iterations: Iterations | null;
  /** Gets what changes in the prefix caches. null: nothing is published. */
  readonly kvEvents: KvEvents | null;
  /** Adapters of requests by number, for KV events. */
  readonly adapter: (number: number) => AdapterName | null;
}

/** Compiled cores by their bytes. Servers of the same process share them. */
const modules = new WeakMap<ArrayBuffer, WebAssembly.Module>();

function compiled(core: ArrayBuffer): WebAssembly.Module {
  const module = modules.get(core) ?? new WebAssembly.Module(core);
  modules.set(core, module);
  return module;
}

/** Returns the number of a process's first engine among the engines of all processes and ports. */
export const engineFirstOf = (
  { deployment, dataParallelSize }: Pick<StartConfig, "deployment" | "dataParallelSize">,
  place: Place | undefined,
): number => (deployment.firstRank ?? 0) + (place?.index ?? 0) * dataParallelSize;

export function enginePartsOf(options: EnginePartsOptions): FleetParts {
  const { config, text, marks, place, epochUs, iterations } = options;
  const { clock } = marks;
  const broke = (error: unknown) => options.broke(isBroken(error) ? error : new EngineBroken(error));
  const { dataParallelSize } = config;
  const { requests: truthRequests, log: truthLog } = config.truth;
  const { triton } = config.metrics;
  const engineFirst = engineFirstOf(config, place);
  const truth = truthLog
    ? createTruthLog(
        truthLog,
        aboutOf(config, place, epochUs),
        options.log,
        place ? HASTY : RING,
        marks.aside(Cause.Truth),
      )
    : null;
  const recent = truthRequests ? new RecentRows(truthRequests, dataParallelSize, engineFirst, clock.now()) : null;
  const steps = options.stepLog ? new StepLog(options.stepLog) : null;
  const journals = Array.from({ length: dataParallelSize }, () => new Journal());
  const hasReader = iterations !== null && iterations.events !== null;
  const feeds = options.kvEvents?.attach({
    epochUs,
    ...{ blockSize: config.engine.blockSize, numGpuBlocks: config.engine.numGpuBlocks },
    ...{ adapter: options.adapter, drains: !hasReader },
  });
  const engines = new Fleet({
    engines: dataParallelSize,
    rank: engineFirst,
    journal: (rank) => journals[rank]!,
    config: config.engine,
    clock: new EngineClock(clock, broke),
    faults: {
      broke,
      receiverFailed: (error) => (isBroken(error) ? broke(error) : logUnexpected("an answer failed", error)),
    },
    module: compiled(options.core),
    eosId: text.vocabulary.eosId,
    stopIdsMost: text.vocabulary.size,
    answers: text.answers,
    adapters: adapterPlaces(config),
    ...(options.lanes ? { lanes: options.lanes } : {}),
    loopObservers: [options.punctual, ...(steps ? [steps] : []), ...options.loopObservers],
    ...observersOf(engineFirst, truth, recent, iterations && { observer: () => iterations }),
    ...(iterations ? { watcher: (core) => iterations.on(core) } : {}),
    ...(feeds ? { cacheFeed: (rank: number) => feeds[rank]! } : {}),
    kvEvents: hasReader || feeds !== undefined,
    ...(triton.metrics ? { meters: () => new Ensemble(triton.quantiles, () => clock.now(), epochUs) } : {}),
  });
  return { engines, journals, truth, recent, steps, engineFirst };
}

/** Returns the header of this process's truth: its engines and its clock. */
export function aboutOf(
  { engine, dataParallelSize }: Pick<StartConfig, "engine" | "dataParallelSize">,
  place: Place | undefined,
  epochUs: number,
): LogHeader {
  const about = { engine: flatEngineConfig(engine), engines: dataParallelSize * (place?.workers ?? 1), epochUs };
  return place ? { ...about, worker: place.index } : about;
}
