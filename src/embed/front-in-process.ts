/** Starts a front end of vLLM as a child of this process, with an engine in this process. Only in Bun. */
import { freePort } from "../cli/front/free-port.ts";
import { frontCommand } from "../cli/front/front-command.ts";
import { FrontEnd, NotReady, readyWithin, whyNotStartable } from "../cli/front/front-end.ts";
import { type Front, type FrontOptions, frontOf, type RunningFront } from "./front.ts";
import { camelCase, dashed } from "./options.ts";
import { deferred } from "./server.ts";
import { startServer } from "./server-in-process.ts";

const TIMEOUT_MS = 60_000;
/** Characters of the output that the error about a failed start quotes. */
const LAST_WORDS = 2000;

/** Starts a front end with our engine behind it. Rejects with a TypeError for wrong options, and if it does not become ready. */
export const startFront = async (options: FrontOptions): Promise<Front> => frontOf(await startRunningFront(options));

export async function startRunningFront(options: FrontOptions): Promise<RunningFront> {
  const { command, engine = {}, env, timeoutMs = TIMEOUT_MS } = options;
  if (!Array.isArray(command) || typeof command[0] !== "string")
    throw new TypeError('command: takes the program and its arguments, as in ["vllm-rs", "serve", "MODEL"]');
  const given = Object.entries(engine).filter(([, value]) => value !== undefined);
  const ofEngine = new Map(given.map(([key, value]) => [dashed(key), String(value)]));
  if (ofEngine.has("role")) throw new TypeError("engine.role: is always vllm-engine here");
  const front = frontCommand(command, ofEngine, { rpc: await freePort(), http: await freePort() });
  if ("error" in front) throw new TypeError(front.error);
  const why = whyNotStartable(command[0]);
  if (why !== null) throw new TypeError(`command: ${why}`);
  const derived = Object.fromEntries(Object.entries(front.engine).map(([name, value]) => [camelCase(name), value]));
  const running = await startServer({ ...derived, ...engine, role: "vllm-engine" });
  const child = new FrontEnd(front.command, env ? { env } : {});
  try {
    await readyWithin(child, timeoutMs / 1000);
  } catch (error) {
    await running.close();
    if (!(error instanceof NotReady)) throw error;
    throw new Error(`${error.message}\n${child.output.slice(-LAST_WORDS)}`.trimEnd(), { cause: error });
  }
  const ended = deferred<Error | null>();
  let closing = false;
  void running.ended.then(async (reason) => {
    await child.stop();
    ended.resolve(reason);
  });
  void child.ended.then((code) => {
    if (closing) return;
    ended.resolve(new Error(`the front end has ended with code ${code}`));
    void running.close();
  });
  return {
    url: running.url,
    metricsUrl: running.metricsUrl,
    ended: ended.promise,
    call: (name, ...args) => running.call(name, ...args),
    async close() {
      closing = true;
      await child.stop();
      await running.close();
      ended.resolve(null);
    },
    frontUrl: front.url,
    frontOutput: async () => child.output,
  };
}
