/** `understudy front`: starts a front end of vLLM with our engine behind it, waits until it is ready, and ends both together. */
import type { ServeConfig } from "../../app/config/serve-config.ts";
import type { App } from "../../app/create-app.ts";
import { WallClock, wallUs } from "../../base/clock.ts";
import { takeOverOutput } from "../../base/output.ts";
import { whenOrphaned } from "../../base/parent.ts";
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { takeOptions } from "../options/take-options.ts";
import { printError, printText } from "../print.ts";
import { takeBackReady, writeReady } from "../ready-file.ts";
import { refuser } from "../refuse.ts";
import { printsConfig, resolveServeConfig } from "../serve/resolve.ts";
import { onTrap, SAME_SIGNAL_US, start, unwritableTruth } from "../serve/serve.ts";
import { freePort } from "./free-port.ts";
import { type FrontCommand, flagsIn, frontCommand } from "./front-command.ts";
import { FrontEnd, NotReady, readyWithin, whyNotStartable } from "./front-end.ts";
import { type FrontValues, frontHelp, frontOptions, READY_TIMEOUT_S } from "./front-options.ts";

const refuse = refuser("front");
const ENGINE_DEAD = 1;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export async function runFront(argv: readonly string[]): Promise<void> {
  const split = argv.indexOf("--");
  const given = split === -1 ? [] : argv.slice(split + 1);
  const taken = takeOptions(frontOptions, split === -1 ? argv : argv.slice(0, split));
  if ("error" in taken) return refuse(taken.error);
  const { values, rest } = taken;
  if (rest.some((word) => word === "--help" || word === "-h")) return printText(frontHelp());
  if (given.length === 0) return refuse("needs a front end after --, as in understudy front -- vllm-rs serve MODEL");
  const ofEngine = flagsIn(rest);
  if (ofEngine.has("role")) return refuse("--role: is always vllm-engine here");
  const front = frontCommand(given, ofEngine, {
    rpc: await freePort(),
    http: values["free-port"] ? await freePort() : null,
  });
  if ("error" in front) return refuse(front.error);
  const why = whyNotStartable(given[0]!);
  if (why !== null) return refuse(why);
  const engine = engineConfig(rest, ofEngine, front);
  if ("error" in engine) return refuse(engine.error);
  takeOverOutput("understudy front");
  const unready = takeBackReady(values["ready-file"]);
  if (unready) return refuse(unready);
  const unwritable = unwritableTruth(engine.config);
  if (unwritable) return refuse(unwritable);
  const started = await start(engine.config);
  if ("refused" in started) return refuse(started.refused);
  for (const notice of engine.notices) warn(notice);
  process.exit(await runBoth(front, values, engine.config, started.app));
}

interface EngineSetup {
  readonly config: ServeConfig;
  readonly notices: readonly string[];
}

/** Resolves the options of the engine like `understudy serve`. Its own port is free unless the user sets it. */
function engineConfig(
  rest: readonly string[],
  ofEngine: ReadonlyMap<string, string>,
  { engine }: FrontCommand,
): EngineSetup | { readonly error: string } {
  const hasPort = ["port", "config"].some((name) => ofEngine.has(name)) || process.env.UNDERSTUDY_PORT !== undefined;
  const derived = Object.entries(engine).map(([name, value]) => `--${name}=${value}`);
  const argv = ["--role=vllm-engine", ...rest, ...derived, ...(hasPort ? [] : ["--port=0"])];
  const resolved = resolveServeConfig(argv, process.env, (path) => textAtMost(path, NAMED_FILE_BYTES_MOST));
  if ("help" in resolved) return { error: "--help: understudy front --help" };
  if ("error" in resolved) return resolved;
  if (printsConfig(resolved.options)) return { error: "--print-config: belongs to understudy serve" };
  if (resolved.config.workers > 1) return { error: `--workers ${resolved.config.workers}: must be 1 here` };
  return resolved;
}

/** Runs front end and engine until one of them ends, and returns the exit code. */
async function runBoth(
  { command, url }: FrontCommand,
  values: FrontValues,
  config: ServeConfig,
  app: App,
): Promise<number> {
  const front = new FrontEnd(command, {
    heard: (chunk, stream) => void process[stream].write(chunk),
  });
  onTrap(config, app);
  forwardSignals(front);
  if (values["exit-with-parent"]) whenOrphaned(new WallClock(), () => process.kill(process.pid, "SIGTERM"));
  const engineDied = app.died.then(async () => {
    warn("the engine is dead, as its script wanted; ending the front end");
    await front.stop();
    return ENGINE_DEAD;
  });
  try {
    await readyWithin(front, values["ready-timeout"] ?? READY_TIMEOUT_S);
    printText(`understudy front: ready at ${url}; metrics of the engine at ${app.url}/metrics`);
    if (values["ready-file"] !== undefined)
      writeReady(values["ready-file"], { url, engineUrl: app.url, pid: process.pid, frontPid: front.pid });
    return await Promise.race([front.ended, engineDied]);
  } catch (error) {
    if (!(error instanceof NotReady)) throw error;
    warn(error.message);
    return error.exitCode;
  } finally {
    await app.close(0);
  }
}

/** Forwards signals to the front end, whose end then ends this process. A second signal kills the front end. */
function forwardSignals(front: FrontEnd): void {
  let sinceUs: number | null = null;
  const forward = (signal: NodeJS.Signals) => {
    if (sinceUs === null) front.signal(signal);
    else if (wallUs() - sinceUs > SAME_SIGNAL_US) front.signal("SIGKILL");
    sinceUs ??= wallUs();
  };
  for (const signal of SIGNALS) process.on(signal, forward);
}

function warn(what: string): void {
  printError(`understudy front: ${what}`);
}
