/** The interface that pauses the engines of a server, puts them to sleep and empties their caches. Types only. */

/** All engines of a server, in one process or in several. */
export interface EngineControl {
  /** Settles when nothing is left to do, and the caches are emptied if that was asked. */
  pause(mode: "abort" | "wait" | "keep", clearCache: boolean): Promise<unknown>;
  /** A promise where it takes a while. */
  resume(): unknown;
  readonly paused: boolean;
  /** Notes the tags that sleep; `sleep`: 0 where metrics say awake, else one more than the level. */
  sleeps(sleep: number, asleep: readonly string[]): unknown;
  readonly asleep: readonly string[];
  /** With `running`, requests that run lose their blocks first. False: blocks are in use. */
  resetPrefixCache(running: boolean): Promise<boolean>;
}
