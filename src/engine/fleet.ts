/** The data-parallel ranks of one server on one clock. With one rank, just that engine. */
import type { Clock } from "../base/clock.ts";
import { Balance } from "./balance.ts";
import type { CacheFeed } from "./cache-feed.ts";
import type { StepPacing } from "./config/engine-config.ts";
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
import type { Fresh } from "./snapshot.ts";

export interface FleetOptions
  extends Omit<EngineOptions, "observer" | "meters" | "journal" | "lateness" | "sleep" | "cacheFeed"> {
  /** Number of engines, at least 1. An engine's index is its rank. */
  readonly engines: number;
  /** Returns the observer of the engine with this rank. */
  readonly observer?: (rank: number) => Observer;
  readonly meters?: (rank: number) => RequestMeters;
  readonly journal?: (rank: number) => Journal;
  readonly cacheFeed?: (rank: number) => CacheFeed;
}

export class Fleet {
  readonly engines: readonly Engine[];
  readonly #clock: Clock;
  readonly #lateness = new Lateness();
  readonly #sleep = { sleep: 0 };
  /** Factors by which steps take longer than the pace says, by rank. */
  readonly #slowness = new Map<number, number>();
  readonly #loopObservers: readonly LoopObserver[];
  /** Called after each step of an engine. A server that reports the state of its engines replaces the function. */
  moved: () => void = () => {};
  /** Sleeping parts, by vLLM's tags. */
  asleep: readonly string[] = [];
  /** null if there is only one engine. */
  readonly #balance: Balance | null;

  constructor({ engines, observer, meters, journal, cacheFeed, loopObservers = [], ...options }: FleetOptions) {
    const { clock } = options;
    const balance = engines > 1 ? new Balance(engines, clock.now()) : null;
    this.#clock = clock;
    this.#balance = balance;
    this.#loopObservers = loopObservers;
    const moved: LoopObserver = { moved: () => this.moved(), coasted() {} };
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
          ...(cacheFeed ? { cacheFeed: cacheFeed(rank) } : {}),
          loopObservers: [...loopObservers, moved, ...(balance ? [this.#publisher(rank, balance)] : [])],
        }),
    );
  }

  /** Submits to the rank that the generation names, or to the rank that vLLM's balancing chooses; see `Engine.submit`. */
  submit(generation: Generation, receiver: Receiver): Submission | Refusal {
    const rank = generation.rank ?? this.#balance?.choose(this.#inFlight, this.#clock.now()) ?? 0;
    return this.engines[rank]!.submit(generation, receiver);
  }

  /** Applies a pace to each engine at its next boundary. */
  retime(pace: StepPacing): void {
    for (const [rank, engine] of this.engines.entries()) {
      const slowness = this.#slowness.get(rank) ?? 1;
      const own = slowness === 1 ? pace : { ...pace, speed: (pace.speed ?? 1) / slowness };
      engine.between(() => engine.retime(own));
    }
  }

  /** Makes the steps of an engine take `slowness` times as long as any pace says. Takes effect with the next `retime`. */
  slow(rank: number, slowness: number): void {
    this.#slowness.set(rank, slowness);
  }

  snapshots(): EngineSnapshot[] {
    return this.engines.map((engine) => engine.snapshot());
  }

  /** Returns live numbers of each engine, without copying. */
  views(fresh: Fresh): EngineView[] {
    return this.engines.map((engine) => engine.view(fresh));
  }

  /** Returns a copy of the lateness of all loops together. */
  lateness(): LoopSnapshot {
    return this.#lateness.snapshot();
  }

  /** Records one event-loop delay, in microseconds. */
  delayed(us: number): void {
    this.#lateness.delayed(us);
  }

  /** Returns the live lateness of all loops together, without copying. */
  latenessView(): LoopView {
    return this.#lateness;
  }

  /** Number of generations that have not ended. */
  get live(): number {
    return this.engines.reduce((sum, engine) => sum + engine.live, 0);
  }

  get paused(): boolean {
    return this.engines.every((engine) => engine.paused);
  }

  /**
   * Pauses like vLLM's `/pause` (`v1/engine/core.py`, `pause_generation`). Resolves when all engines are idle. Only
   * then the caches are emptied, so requests that `keep` froze lose their blocks.
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

  /** Sets the state of sleep that snapshots show (`EngineSnapshot.sleep`). In vLLM it is independent of the pause. */
  sleeps(sleep: number, asleep: readonly string[]): void {
    this.#sleep.sleep = sleep;
    this.asleep = asleep;
    for (const observer of this.#loopObservers) observer.moved?.(false);
  }

  resume(): void {
    for (const engine of this.engines) engine.resume();
  }

  /** Freezes or continues everything between two steps. Receivers are not called, and a pause by the client stays. */
  standStill(still: boolean): void {
    for (const engine of this.engines) {
      if (still) engine.pause("still");
      else if (!engine.paused) engine.resume();
    }
  }

  /** Ends running generations with an error and stops planning steps. */
  die(): void {
    for (const engine of this.engines) {
      engine.abortAll(Finish.Error);
      engine.stop();
    }
  }

  /** Empties the caches between two steps of each engine. Resolves to false if blocks are in use in any engine. */
  async resetPrefixCache(running: boolean): Promise<boolean> {
    const emptied = await this.#all<boolean>((engine, done) =>
      engine.between(() => done(engine.resetPrefixCache(running))),
    );
    return emptied.every(Boolean);
  }

  /** Ends everything with reason abort, and calls the receivers. */
  abortAll(): void {
    for (const engine of this.engines) engine.abortAll();
  }

  /** Stops planning steps. */
  stop(): void {
    for (const engine of this.engines) engine.stop();
  }

  /** Returns an observer that publishes an engine's load at the same times as vLLM: before each plan and after each update. */
  #publisher(rank: number, balance: Balance): LoopObserver {
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
