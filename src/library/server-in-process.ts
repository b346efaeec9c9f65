/** A server in this process: Bun only. */
import { refusalOf } from "../cli/serve/serve.ts";
import { whyNotShown } from "../metrics/bugs/shown.ts";
import { createApp } from "../roles/create-app.ts";
import { unwritable } from "../truth/log.ts";
import type { ServerOptions } from "./option-types.ts";
import { deferred, type Running, type Server, StartingServer } from "./server.ts";
import { type ServerSetup, serverSetup, withOption } from "./server-options.ts";

/** `understudy serve` on a free port, without a log. Throws a TypeError for a wrong option. */
export function createServer(options: ServerOptions = {}): Server {
  return new StartingServer(start(setupOf(options)));
}

/** A server of options that somebody else has checked. */
export const startServer = (options: ServerOptions): Promise<Running> => start(setupOf(options));

function setupOf(options: ServerOptions): ServerSetup {
  const setup = serverSetup(options);
  const why = whyNotShown(setup.config);
  if (why !== undefined) throw new TypeError(why);
  return setup;
}

async function start({ config, admin }: ServerSetup): Promise<Running> {
  const { truthLog } = config;
  const why = truthLog && unwritable(truthLog.file);
  if (why) throw new Error(`truthLog ${truthLog.file}: ${why}`);
  const app = await createApp(config, { log: () => {}, admin }).catch((error) => {
    // As the command says it, which names the option.
    const refused = refusalOf(config, error);
    if (refused === undefined) throw error;
    throw Object.assign(new Error(withOption(refused), { cause: error }), codeOf(error));
  });
  const ended = deferred<Error | null>();
  void app.died.then(async () => {
    await app.close(0);
    ended.resolve(new Error("the server has ended: the engine is dead, as its script wanted"));
  });
  return {
    url: app.url,
    metricsUrl: app.tritonUrl,
    ended: ended.promise,
    async close() {
      await app.close(config.shutdownTimeoutS);
      ended.resolve(null);
    },
  };
}

const codeOf = ({ code }: { readonly code?: string }) => (code === undefined ? {} : { code });
