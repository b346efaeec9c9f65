/** How does a server start and end? Its parts, then its role's listeners over them. */
import { type AppOptions, createParts, type Parts, pause } from "../app/parts.ts";
import type { ServeConfig } from "../config/types.ts";
import type { JournalText } from "../engine/journal.ts";
import type { Listeners } from "./role.ts";
import { roles } from "./table.ts";

/** After an orderly end the last bytes get this long to leave. */
const FLUSH_US = 100_000;

export interface App
  extends Pick<Parts, "engines" | "snapshot" | "died" | "streamWrites">,
    Pick<Listeners, "url" | "tritonUrl" | "handle" | "banner"> {
  /** The end-of-sequence id, and by engine what its core was told last: with the configuration, all that repeating it takes. */
  readonly eosId: number;
  journals(): JournalText[];
  /** Ends in order: waits up to `graceS` for those that run, then ends them with reason abort. */
  close(graceS: number): Promise<void>;
}

/** Rejects as `createParts` and the role's `listen` do. */
export async function createApp(config: ServeConfig, options: AppOptions): Promise<App> {
  const [role, parts] = await Promise.all([roles[config.role](), createParts(config, options)]);
  const { clock, engines, text, journals, snapshot, died, streamWrites } = parts;
  const { url, tritonUrl, handle, banner, drain, stop } = await role.listen(parts).catch(async (why) => {
    await parts.close();
    throw why;
  });
  return {
    url,
    tritonUrl,
    handle,
    ...(banner ? { banner } : {}),
    engines,
    snapshot,
    died,
    streamWrites,
    eosId: text.vocabulary.eosId,
    journals: () => journals.map((journal) => journal.text()),
    async close(graceS) {
      const stopped = stop();
      const untilUs = clock.now() + graceS * 1e6;
      await Promise.all([parts.drain(untilUs), drain?.(untilUs)]);
      await Promise.race([stopped, pause(clock, FLUSH_US)]);
      await stop(true);
      await parts.close();
    },
  };
}
