/** A server in this process: Bun only. */

import type { ServeConfig } from "../config/types.ts";
import { whyNotShown } from "../metrics/bugs/shown.ts";
import { createApp } from "../roles/create-app.ts";
import { unwritable } from "../truth/log.ts";
import { type ServerOptions, serverConfig } from "./options.ts";
import { type Running, type Server, StartingServer } from "./server.ts";

/** `understudy serve` on a free port, without a log. Throws a TypeError for a wrong option. */
export function createServer(options: ServerOptions = {}): Server {
  const config = serverConfig(options);
  const why = whyNotShown(config);
  if (why !== undefined) throw new TypeError(why);
  return new StartingServer(start(config));
}

async function start(config: ServeConfig): Promise<Running> {
  const { truthLog } = config;
  const why = truthLog && unwritable(truthLog.file);
  if (why) throw new Error(`truthLog ${truthLog.file}: ${why}`);
  const app = await createApp(config, { log: () => {} });
  return { url: app.url, close: () => app.close(config.shutdownTimeoutS) };
}
