/** Which engines does a server have, and who is told what they do? The truth log, the last requests, journals, the step log. */

import { logUnexpected } from "../base/unexpected.ts";
import { flatEngineConfig } from "../engine/config/engine-config.ts";
import { Fleet } from "../engine/fleet.ts";
import type { Lanes } from "../engine/interface/lanes.ts";
import type { Iterations } from "../engine/iterations.ts";
import { Journal } from "../engine/journal.ts";
import { Cause } from "../engine/lateness/causes.ts";
import type { LoopObserver } from "../engine/lateness/loop-observer.ts";
import type { Punctuality } from "../engine/lateness/punctuality.ts";
import { adapterPlaces } from "../metrics/adapter-places.ts";
import { Ensemble } from "../metrics/ensemble/ensemble.ts";
import type { TextModel } from "../text/text-model.ts";
import { createTruthLog, type TruthLog } from "../truth/log.ts";
import { observersOf, Recent } from "../truth/recent.ts";
import { RING } from "../truth/ring.ts";
import type { About } from "../truth/schema.ts";
import { EngineBroken, EngineClock, isBroken } from "./broken-engine.ts";
import type { KernelConfig } from "./kernel-config.ts";
import type { Marks } from "./marks.ts";
import type { Place } from "./place.ts";
import { StepLog } from "./step-log.ts";

/** One of several processes may be killed, and goes on as another: of its truth little is to be lost. */
const HASTY = { ...RING, lingerUs: 50_000 };

export interface FleetParts {
  readonly engines: Fleet;
  /** By engine, what its core was told last. */
  readonly journals: readonly Journal[];
  readonly truth: TruthLog | null;
  readonly recent: Recent | null;
  readonly steps: StepLog | null;
  /** Number of this process's first engine among those of all processes. */
  readonly engineFirst: number;
}

export interface EnginePartsOptions {
  readonly config: KernelConfig;
  readonly core: ArrayBuffer;
  readonly text: TextModel;
  readonly punctual: Punctuality;
  readonly marks: Marks;
  readonly log: (line: string) => void;
  /** File of the step log. */
  readonly stepLog: string | undefined;
  readonly place: Place | undefined;
  /** Microseconds since 1970 at the clock's 0. */
  readonly epochUs: number;
  /** Makes what plain tokens take to their streams; null: their receivers write them. */
  readonly lanes: (() => Lanes) | null;
  /** Called when an engine cannot go on. */
  readonly broke: (error: Error) => void;
  /** Who else is told of the steps. */
  readonly loopObservers: readonly LoopObserver[];
  /** Records iterations and requests. null: nothing records them. */
  readonly iterations: Iterations | null;
}

/** Servers of a process share the compiled code. */
const modules = new WeakMap<ArrayBuffer, WebAssembly.Module>();

function compiled(core: ArrayBuffer): WebAssembly.Module {
  const module = modules.get(core) ?? new WebAssembly.Module(core);
  modules.set(core, module);
  return module;
}

export function enginePartsOf(options: EnginePartsOptions): FleetParts {
  const { config, text, marks, place, epochUs, iterations } = options;
  const { clock } = marks;
  const broke = (error: unknown) => options.broke(isBroken(error) ? error : new EngineBroken(error));
  const {
    dataParallelSize,
    truth: { requests: truthRequests, log: truthLog },
    metrics: { triton },
  } = config;
  const engineFirst = (place?.index ?? 0) * dataParallelSize;
  const truth = truthLog
    ? createTruthLog(
        truthLog,
        aboutOf(config, place, epochUs),
        options.log,
        place ? HASTY : RING,
        marks.aside(Cause.Truth),
      )
    : null;
  const recent = truthRequests ? new Recent(truthRequests, dataParallelSize, engineFirst, clock.now()) : null;
  const steps = options.stepLog ? new StepLog(options.stepLog) : null;
  const journals = Array.from({ length: dataParallelSize }, () => new Journal());
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
    answers: text.answers,
    adapters: adapterPlaces(config),
    ...(options.lanes ? { lanes: options.lanes } : {}),
    loopObservers: [options.punctual, ...(steps ? [steps] : []), ...options.loopObservers],
    ...observersOf(engineFirst, truth, recent, iterations && { observer: () => iterations }),
    ...(iterations ? { watcher: (core) => iterations.on(core), kvEvents: iterations.events !== null } : {}),
    ...(triton.metrics ? { meters: () => new Ensemble(triton.quantiles, () => clock.now(), epochUs) } : {}),
  });
  return { engines, journals, truth, recent, steps, engineFirst };
}

/** What the truth log of this process says of itself. */
export function aboutOf({ engine, dataParallelSize }: KernelConfig, place: Place | undefined, epochUs: number): About {
  const about = { engine: flatEngineConfig(engine), engines: dataParallelSize * (place?.workers ?? 1), epochUs };
  return place ? { ...about, worker: place.index } : about;
}
