/**
 * Polls the model repository: loads new and changed models, and unloads removed ones. The interval runs from the end of one
 * poll to the start of the next. Source: `main.cc` (2026).
 */
import { Stops } from "../../../base/pieces.ts";
import type { TritonOptions } from "./options.ts";

/** The actions of a poll. */
export interface ModelPoller {
  /** Names of the models in the repository. */
  names(): readonly string[];
  /** Names of the models that have been loaded. */
  known(): Iterable<string>;
  /** Loads a model if its folder has changed. Rejects if the folder cannot be read. */
  bring(name: string): Promise<unknown>;
  unload(name: string): void;
  /** Runs an action after the loads and unloads that are in progress. */
  next(act: () => Promise<void>): Promise<void>;
}

/** Starts to poll. Does nothing if `--repository-poll-secs` is 0. */
export function pollEvery(
  options: Pick<TritonOptions, "clock" | "config" | "turns" | "log">,
  polled: ModelPoller,
): void {
  const { clock, config, turns, log } = options;
  if (config.repository.pollS === 0) return;
  const look = async () => {
    const names = new Set(polled.names());
    for (const name of polled.known()) if (!names.has(name)) polled.unload(name);
    const stops = new Stops(turns);
    for (const name of names) {
      await stops.look();
      await polled.bring(name).catch((error: Error) => {
        log(`poll failed for model directory '${name}': ${error.message}`);
      });
    }
  };
  const begin = async () => {
    await polled.next(look).catch((error: Error) => log(`failed to poll: ${error.message}`));
    pollEvery(options, polled);
  };
  clock.at(clock.now() + config.repository.pollS * 1e6, () => void begin());
}
