/** Who is asked when there are several engines? One server's data-parallel ranks on one clock; with one rank, that one. */
import type { Clock } from "../base/clock.ts";
import { Balance } from "./balance.ts";
import { Engine } from "./engine.ts";
import type { RequestMeters } from "./interface/request-meter.ts";
import {
  type EngineSnapshot,
  type EngineView,
  Finish,
  type Generation,
  type LoopSnapshot,
  type LoopView,
  type Receiver,
  type Refusal,
  type Submission,
} from "./interface/types.ts";
import type { Journal } from "./journal.ts";
import { Lateness } from "./lateness/lateness.ts";
import type { LoopObserver } from "./lateness/loop-observer.ts";
import type { Observer } from "./observer.ts";
import type { EngineOptions, PauseMode } from "./options.ts";
import type { StepPacing } from "./setup.ts";
import type { Fresh } from "./snapshot.ts";

export interface FleetOptions extends Omit<EngineOptions, "observer" | "meters" | "journal" | "lateness" | "sleep"> {
  /** Number of engines, at least 1; an engine's place is its rank. */
  readonly engines: number;
  /** Observer of the engine with this rank. */
  readonly observer?: (rank: number) => Observer;
  readonly meters?: (rank: number) => RequestMeters;
  readonly journal?: (rank: number) => Journal;
}

export class Fleet {
  readonly engines: readonly Engine[];
  readonly #clock: Clock;
  readonly #lateness = new Lateness();
  readonly #sleep = { sleep: 0 };
  readonly #loopObservers: readonly LoopObserver[];
  /** What sleeps, by vLLM's tags. */
  asleep: readonly string[] = [];
  /** null: there is nothing to choose. */
  readonly #balance: Balance | null;

  constructor({ engines, observer, meters, journal, loopObservers = [], ...options }: FleetOptions) {
    const { clock } = options;
    const balance = engines > 1 ? new Balance(engines, clock.now()) : null;
    this.#clock = clock;
    this.#balance = balance;
    this.#loopObservers = loopObservers;
    this.engines = Array.from(
      { length: engines },
      (_, rank) =>
        new Engine({
          ...options,
          rank: (options.rank ?? 0) + rank,
          lateness: this.#lateness,
          sleep: this.#sleep,
          ...(observer ? { observer: observer(rank) } : {}),
          ...(meters ? { meters: meters(rank) } : {}),
          ...(journal ? { journal: journal(rank) } : {}),
          loopObservers: balance ? [...loopObservers, this.#publishing(rank, balance)] : loopObservers,
        }),
    );
  }

  /** Goes to the rank that the generation names, else to the one that vLLM's balancing picks; see `Engine.submit`. */
  submit(generation: Generation, receiver: Receiver): Submission | Refusal {
    const rank = generation.rank ?? this.#balance?.choose(this.#inFlight, this.#clock.now()) ?? 0;
    return this.engines[rank]!.submit(generation, receiver);
  }

  /** Each at its next boundary. */
  retime(pace: StepPacing): void {
    for (const engine of this.engines) engine.between(() => engine.retime(pace));
  }

  snapshots(): EngineSnapshot[] {
    return this.engines.map((engine) => engine.snapshot());
  }

  /** Live numbers of each engine, not copied. */
  views(fresh: Fresh): EngineView[] {
    return this.engines.map((engine) => engine.view(fresh));
  }

  /** Lateness of all loops together, copied. */
  lateness(): LoopSnapshot {
    return this.#lateness.snapshot();
  }

  /** The event loop got to something so late. */
  delayed(us: number): void {
    this.#lateness.delayed(us);
  }

  /** Lateness of all loops together, live and not copied. */
  latenessView(): LoopView {
    return this.#lateness;
  }

  /** Generations that the engines have and that have not ended. */
  get live(): number {
    return this.engines.reduce((sum, engine) => sum + engine.live, 0);
  }

  get paused(): boolean {
    return this.engines.every((engine) => engine.paused);
  }

  /**
   * vLLM's `/pause` (`v1/engine/core.py`, `pause_generation`): done when no engine has anything left to do. Only then the
   * caches are emptied; what a `keep` froze loses its blocks by that, too.
   */
  async pause(mode: PauseMode, clearCache: boolean): Promise<void> {
    await this.#all((engine, done) => {
      engine.pause(mode);
      engine.between(() =>
        engine.atRest(() => {
          if (clearCache) engine.resetPrefixCache(true);
          done();
        }),
      );
    });
  }

  /** Notes what sleeps, and what snapshots say of it (`EngineSnapshot.sleep`): in vLLM both are set apart from the pause. */
  sleeps(sleep: number, asleep: readonly string[]): void {
    this.#sleep.sleep = sleep;
    this.asleep = asleep;
    for (const one of this.#loopObservers) one.moved?.(false);
  }

  resume(): void {
    for (const engine of this.engines) engine.resume();
  }

  /** Between two steps everything stops, or goes on: nobody is told, and a pause stays one. */
  standStill(still: boolean): void {
    for (const engine of this.engines) {
      if (still) engine.pause("still");
      else if (!engine.paused) engine.resume();
    }
  }

  /** What runs ends with an error, and no step is planned any more. */
  die(): void {
    for (const engine of this.engines) {
      engine.abortAll(Finish.Error);
      engine.stop();
    }
  }

  /** Between two steps of each engine; false while blocks are in use anywhere. */
  async resetPrefixCache(running: boolean): Promise<boolean> {
    const emptied = await this.#all<boolean>((engine, done) =>
      engine.between(() => done(engine.resetPrefixCache(running))),
    );
    return emptied.every(Boolean);
  }

  /** Ends everything with reason abort, and tells the receivers. */
  abortAll(): void {
    for (const engine of this.engines) engine.abortAll();
  }

  /** No step is planned any more. */
  stop(): void {
    for (const engine of this.engines) engine.stop();
  }

  /** Tells the balance how loaded an engine is wherever vLLM's engine publishes it: before each plan and after each update. */
  #publishing(rank: number, balance: Balance): LoopObserver {
    const publish = () => {
      const { waiting, deferred, running, kvUsage } = this.engines[rank]!.view("now");
      balance.publish(rank, waiting + deferred, running, kvUsage, this.#clock.now());
    };
    return { planning: publish, started: publish };
  }

  readonly #inFlight = (rank: number): number => this.engines[rank]!.inFlight;

  #all<T = void>(ask: (engine: Engine, done: (answer: T) => void) => void): Promise<T[]> {
    return Promise.all(this.engines.map((engine) => new Promise<T>((done) => ask(engine, done))));
  }
}
