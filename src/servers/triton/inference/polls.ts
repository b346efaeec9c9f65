/**
 * What does a server do that polls its repository? What is new or has changed is loaded, what has gone is unloaded; the next
 * look comes so long after the end of the one before: `main.cc` (2026).
 */
import { Stops } from "../../../base/pieces.ts";
import type { TritonOptions } from "./options.ts";

/** Who is told of what a look finds. */
export interface PolledModels {
  /** Models in the repository. */
  names(): readonly string[];
  /** Those that have been loaded. */
  known(): Iterable<string>;
  /** Does nothing where the folder is as it was; rejects where it cannot be read. */
  bring(name: string): Promise<unknown>;
  unload(name: string): void;
  /** Behind loads and unloads that are under way. */
  next(act: () => Promise<void>): Promise<void>;
}

/** `--repository-poll-secs` of 0: never. */
export function pollEvery(
  options: Pick<TritonOptions, "clock" | "config" | "turns" | "log">,
  polled: PolledModels,
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
