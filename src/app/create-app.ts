/** How does a server start and end? Its parts, then its role's listeners over them. */

import type { JournalText } from "../engine/journal.ts";
import { type AppOptions, createParts, type Lasting, lastingOf, type Parts, pause } from "../kernel/parts.ts";
import type { Listeners } from "../kernel/role.ts";
import { httpRoutes } from "../metrics/rows/http-counts.ts";
import { countedBy } from "../servers/openai/front/served.ts";
import type { ServeConfig } from "./config/serve-config.ts";
import { roles } from "./table.ts";

/** After an orderly end the last bytes get this long to leave. */
const FLUSH_US = 100_000;

export interface App
  extends Pick<Parts, "engines" | "snapshot" | "died" | "streamWrites">,
    Pick<Listeners, "url" | "tritonUrl" | "http2Url" | "otherUrls" | "handle" | "banner"> {
  /** The end-of-sequence id, and by engine what its core was told last: with the configuration, all that repeating it takes. */
  readonly eosId: number;
  journals(): JournalText[];
  /** Ends in order: waits up to `graceS` for those that run, then ends them with reason abort. Gives why the process is to end with an error, if so. */
  close(graceS: number): Promise<string | undefined>;
}

/** An app that can begin anew behind its listeners. */
export interface RenewableApp extends App {
  /** The parts at the moment. */
  readonly parts: Parts;
  /** Everything as after the start, but for the listeners: what runs ends with reason abort. `turned` is called when new requests go to the new parts. One after the other. */
  renew(options: AppOptions, turned: () => void): Promise<void>;
}

/** Rejects as `createParts` and the role's `listen` do. */
export const createApp = (config: ServeConfig, options: AppOptions): Promise<App> => appOf(config, options, undefined);

export async function createRenewableApp(config: ServeConfig, options: AppOptions): Promise<RenewableApp> {
  const lasting = await lastingOf(config, options);
  return appOf(config, options, lasting).catch((why) => {
    lasting.close();
    throw why;
  });
}

async function appOf(config: ServeConfig, options: AppOptions, lasting: Lasting | undefined): Promise<RenewableApp> {
  const routes = httpRoutes(countedBy(config));
  const [role, first] = await Promise.all([roles[config.role](config), createParts(config, routes, options, lasting)]);
  let parts = first;
  const {
    url,
    tritonUrl,
    http2Url,
    otherUrls = {},
    handle,
    banner,
    drain,
    turnTo,
    stop,
  } = await role.listen(first).catch(async (why) => {
    await first.close();
    throw why;
  });
  return {
    url,
    tritonUrl,
    http2Url,
    otherUrls,
    handle,
    ...(banner ? { banner } : {}),
    get parts() {
      return parts;
    },
    get engines() {
      return parts.engines;
    },
    get died() {
      return parts.died;
    },
    streamWrites: first.streamWrites,
    snapshot: () => parts.snapshot(),
    eosId: first.text.vocabulary.eosId,
    journals: () => parts.journals.map((journal) => journal.text()),
    async renew(anew, turned) {
      const before = parts;
      parts = await createParts(config, routes, anew, lasting);
      const turning = turnTo(parts);
      turned();
      before.engines.abortAll();
      await turning;
      before.renderer.stop();
      await before.close();
    },
    async close(graceS) {
      const { clock } = parts;
      const stopped = stop();
      const untilUs = clock.now() + graceS * 1e6;
      // The role looks first: when the time is over, the parts abort what still runs, and the role would see nothing left.
      const why = await drain?.(untilUs);
      await parts.drain(untilUs);
      await Promise.race([stopped, pause(clock, FLUSH_US)]);
      await stop(true);
      await parts.close();
      lasting?.close();
      return why;
    },
  };
}
