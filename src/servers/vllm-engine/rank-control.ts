/** Pauses one engine of a process, puts it to sleep and empties its cache: a front end calls the functions of each rank. */
import type { Fleet } from "../../engine/fleet.ts";
import type { EngineControl } from "../../kernel/engine-control.ts";

export class RankControl implements EngineControl {
  asleep: readonly string[] = [];

  /** `index`: of the engine in this process. */
  constructor(
    private readonly fleet: Fleet,
    private readonly index: number,
  ) {}

  get paused(): boolean {
    return this.#engine.paused;
  }

  pause(mode: "abort" | "wait" | "keep", clearCache: boolean): Promise<void> {
    const engine = this.#engine;
    return new Promise((done) => {
      engine.pause(mode);
      engine.between(() =>
        engine.atRest(() => {
          if (clearCache) engine.resetPrefixCache(true);
          done();
        }),
      );
    });
  }

  resume(): void {
    this.#engine.resume();
  }

  /** The page of metrics shows the last call, whichever the rank. */
  sleeps(sleep: number, asleep: readonly string[]): void {
    this.asleep = asleep;
    this.fleet.sleeps(sleep, asleep);
  }

  resetPrefixCache(running: boolean): Promise<boolean> {
    const engine = this.#engine;
    return new Promise((done) => engine.between(() => done(engine.resetPrefixCache(running))));
  }

  get #engine() {
    return this.fleet.engines[this.index]!;
  }
}
