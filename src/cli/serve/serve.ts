/** `understudy serve`: builds the configuration, starts the server, prints the banner, and shuts the server down on a signal. */

import { resolve } from "node:path";
import { version } from "../../../package.json";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import type { App } from "../../app/create-app.ts";
import { WallClock, wallUs } from "../../base/clock.ts";
import { OWN_DESCRIPTORS, openFileLimit } from "../../base/descriptors.ts";
import { hostAndPort } from "../../base/listen-url.ts";
import { timedLine } from "../../base/log-time.ts";
import { takeOverOutput } from "../../base/output.ts";
import { whenOrphaned } from "../../base/parent.ts";
import { NAMED_FILE_BYTES_MOST, textAtMost } from "../../base/read-at-most.ts";
import { PortError, UserError } from "../../base/start-errors.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { CoreTooLarge } from "../../engine/wasm/core.ts";
import { isBroken } from "../../kernel/broken-engine.ts";
import type { Admin } from "../../kernel/live-settings.ts";
import type { Place } from "../../kernel/place.ts";
import { unwritable } from "../../truth/log.ts";
import { readTls } from "../../wire/tls/certificates.ts";
import { ownCommand } from "../checkout.ts";
import type { Latencies } from "../compat/llm-d-live.ts";
import type { ServeValues } from "../options/serve-options.ts";
import { printError, printText } from "../print.ts";
import { takeBackReady, writeReady } from "../ready-file.ts";
import { refuser } from "../refuse.ts";
import { shellWord } from "../shell-word.ts";
import { describe } from "./banner.ts";
import { writeCrash } from "./crash.ts";
import { LiveOptions } from "./live-options.ts";
import { printsConfig, resolveServeConfig } from "./resolve.ts";

const refuse = refuser("serve");
export const CORE_TRAPPED = 70;
const ENGINE_DEAD = 1;
const REQUESTS_CUT = 1;
/**
 * Microseconds within which a second signal counts as the same Ctrl-C, which reaches this process directly and also through
 * `bin/understudy`.
 */
export const SAME_SIGNAL_US = 200_000;

/** Runs the command. `platform`: the operating system, as `process.platform` names it. */
export async function runServe(argv: readonly string[], platform: string = process.platform): Promise<void> {
  const resolved = resolveServeConfig(argv, process.env, (path) => textAtMost(path, NAMED_FILE_BYTES_MOST));
  if ("help" in resolved) {
    printText(resolved.help);
    return;
  }
  if ("error" in resolved) return refuse(resolved.error);
  const { config, ignored, notices, options } = resolved;
  if (printsConfig(options)) {
    for (const notice of notices) warn(notice);
    const { printableConfig } = await import("./print-config.ts");
    return printText(printableConfig(resolved, process.env));
  }
  takeOverOutput("understudy serve");
  // Printed only once the server listens, because a refused start prints one line.
  const warnings = [...notices];
  if (ignored.length > 0) warnings.push(`ignored options without effect: ${ignored.join(" ")}`);
  warnings.push(...fileLimitWarnings(config));
  if (config.metrics.bugs.length > 0) {
    const { whyNotShown } = await import("../../metrics/shown-bugs.ts");
    const why = whyNotShown(config);
    if (why) return refuse(why);
    warnings.push(`wrong on purpose: --bug ${config.metrics.bugs.join(" ")} (docs/reference/bug-modes.md)`);
  }

  if (config.metrics.fakes) warnings.push("metrics named in --fake-metrics are fake (docs/how-to/bug-modes.md)");

  const tls = config.listen.tls && readTls(config.listen.tls);
  if (tls && "error" in tls) return refuse(tls.error);

  const readyFile = resolved.values["ready-file"];
  const unready = takeBackReady(readyFile);
  if (unready) return refuse(unready);
  const printWarnings = () => {
    for (const warning of warnings) warn(warning);
  };
  const ready = (urls: object) => {
    if (readyFile !== undefined) writeReady(readyFile, { ...urls, pid: process.pid });
  };
  if (resolved.values["exit-with-parent"]) whenOrphaned(new WallClock(), () => process.kill(process.pid, "SIGTERM"));
  if (config.workers > 1) {
    const { serveWorkers } = await import("./serve-workers.ts");
    return serveWorkers(config, platform, { refuse, warn, printWarnings, ready });
  }
  const why = unwritableTruth(config);
  if (why) return refuse(why);
  const ranks = config.deployment.isMultiPort ? await import("./serve-ranks.ts") : null;
  const startOne = (one: ServeConfig) => start(one, undefined, adminOf(resolved.values, resolved.latencies));
  const started = await (ranks ? ranks.startRanks(config, startOne) : startOne(config));
  if ("refused" in started) return refuse(started.refused);
  const apps = "apps" in started ? started.apps : [started.app];
  const [first] = apps as [App];
  const app: ServedApp = ranks ? ranks.joinedApps(apps) : first;
  // Listen for errors and signals before printing the banner, because a program that reads the banner may send a signal at
  // once.
  onTrap(config, app);
  endOnSignal(config, app);
  printWarnings();
  const urls = apps.map(({ url }) => url);
  printText(first.banner?.(startedMs()) ?? describe(config, first, startedMs(), first.streamWrites, [], urls));
  const others = { metricsUrl: first.tritonUrl, http2Url: first.http2Url, ...first.otherUrls };
  ready({ url: first.url || null, ...others, ...(ranks ? { urls } : {}) });
  app.workWhenIdle();
  void app.died.then(async () => {
    printError("understudy serve: the engine is dead, as its script wanted");
    await app.close(0);
    process.exit(ENGINE_DEAD);
  });
}

/** Returns an error message if the truth log cannot be written, else undefined. */
export function unwritableTruth({ truth: { log: truthLog } }: ServeConfig): string | undefined {
  const why = truthLog && unwritable(truthLog.file);
  return why ? `--truth-log ${truthLog.file}: ${why}` : undefined;
}

function adminOf(values: ServeValues, latencies: Latencies | undefined): Admin | undefined {
  const key = values["admin-key"];
  return key === undefined ? undefined : { key, options: new LiveOptions(values, latencies) };
}

/** The parts of an app that its process uses after the start. */
export interface ServedApp extends Pick<App, "close" | "died" | "eosId" | "journals" | "workWhenIdle"> {
  readonly engines: Pick<App["engines"], "live" | "snapshots">;
}

export interface StartRefusal {
  /** Line that the command prints on stderr before it exits with code 2. */
  readonly refused: string;
  /** Code of the operating system's error, such as EADDRINUSE. Undefined if the error has no code. */
  readonly code: string | undefined;
}

/** Starts the server. Returns a refusal for an error that the user can correct, and throws every other error. */
export async function start(
  config: ServeConfig,
  place?: Place,
  admin?: Admin,
): Promise<{ readonly app: App } | StartRefusal> {
  const { createApp } = await import("../../app/create-app.ts");
  const { shortenSlices } = await import("../../base/time/short-slices.ts");
  shortenSlices();
  const stepLog = process.env.UNDERSTUDY_STEP_LOG;
  try {
    const app = await createApp(config, {
      log: (line) => console.log(timedLine(line, config.role)),
      stepLog: stepLog && place ? `${stepLog}.w${place.index}` : stepLog,
      place,
      admin,
    });
    return { app };
  } catch (error) {
    const refused = refusalOf(config, error);
    if (refused === undefined) throw error;
    return { refused, code: (error as { code?: string }).code };
  }
}

/**
 * Matches the messages of errors that mean the server cannot listen at the address. Bun reports an unknown host name as EINVAL
 * if the system has no name server.
 */
const UNLISTENABLE =
  /getaddrinfo|ENOTFOUND|EADDRNOTAVAIL|EAFNOSUPPORT|EINVAL: invalid argument, listen|Failed to listen|invalid host/i;

/** Returns one line about an error that the user can correct. Returns undefined for every other error. */
export function refusalOf(config: ServeConfig, error: unknown): string | undefined {
  const { role, metrics, triton } = config;
  const { host, port, http2Port } = config.listen;
  const { code } = error as { code?: string };
  const of = error instanceof PortError ? error.of : null;
  const own = of === "grpc" ? triton?.grpc : of === "metrics" ? metrics.triton.listen : null;
  const prefix = role === "triton" ? "--http-" : "--";
  const [flag, hostFlag, at] = own
    ? [`--${of}-port`, `--${of}-address`, own]
    : of === "http2"
      ? ["--http2-port", "--host", { host, port: http2Port }]
      : [`${prefix}port`, role === "triton" ? "--http-address" : "--host", { host, port }];
  if (code === "EADDRINUSE")
    return `${flag} ${at.port}: ${hostAndPort({ hostname: at.host, port: at.port })} is in use; choose another port`;
  if (code === "EACCES") return `${flag} ${at.port}: no permission to listen; choose a port above 1023`;
  if (error instanceof UserError) return error.fullMessage;
  if (error instanceof CoreTooLarge) return `${error.message}; lower --max-num-seqs or --num-gpu-blocks-override`;
  if (!UNLISTENABLE.test(String(error))) return undefined;
  return `${hostFlag} ${at.host}: cannot listen there (${code ?? String(error)}); give an address of this machine`;
}

/** Returns the milliseconds since the start of the process. */
export function startedMs(): number {
  return process.uptime() * 1000;
}

function warn(what: string): void {
  printError(`understudy serve: ${what}`);
}

/** Returns a warning if fewer files may be open than streams, because each stream needs a file descriptor. */
function fileLimitWarnings({ engine }: ServeConfig): string[] {
  const limit = openFileLimit();
  if (limit === null || limit >= engine.maxNumSeqs + OWN_DESCRIPTORS) return [];
  return [
    `ulimit -n is ${limit}: too low for --max-num-seqs ${engine.maxNumSeqs}; raise it to ${engine.maxNumSeqs + OWN_DESCRIPTORS} or more`,
  ];
}

/**
 * Handles uncaught errors. An error that broke an engine ends the process with exit code 70: open streams are cut, and a crash
 * file is written with the data that reproduces the error. Any other error is logged, and the process continues
 * (docs/how-to/crash.md).
 */
export function onTrap(config: ServeConfig, app: ServedApp): void {
  const end = (error: Error) => {
    const file = writeCrash(version, error, config.engine, app.eosId, app.engines.snapshots(), app.journals());
    printError(`understudy serve: the engine broke: ${error.message}; written to ${file}`);
    printError(`understudy serve: to repeat it: ${ownCommand()} replay --crash ${shellWord(file)}`);
    process.exit(CORE_TRAPPED);
  };
  const decide = (error: unknown) => {
    if (isBroken(error)) end(error);
    else if (!isOfModel(config, error)) logUnexpected("an error that nothing waited for", error);
  };
  process.on("uncaughtException", decide);
  process.on("unhandledRejection", decide);
}

/**
 * Returns true and prints a warning if a user's `model.ts` threw the error while it was not answering; the process then
 * continues. A thrown value that is not an `Error` counts as the model's, because our own code throws only errors.
 */
function isOfModel({ triton: tritonServer }: ServeConfig, error: unknown): boolean {
  if (tritonServer === undefined) return false;
  const { stack = "", message = String(error) } = error instanceof Error ? error : {};
  const theirs = tritonServer.repository.folders.some((path) => stack.includes(`${resolve(path)}/`));
  if (error instanceof Error && !(theirs && stack.includes("model.ts"))) return false;
  warn(`a model.ts threw after its answer: ${message}`);
  return true;
}

/**
 * Returns the line that the log gets at a shutdown. `open`: number of requests in progress when the signal came. `sinceUs`:
 * time of the signal.
 */
export function endedLine({ role }: Pick<ServeConfig, "role">, open: number, sinceUs: number): string {
  const requests = open === 1 ? "1 request" : `${open} requests`;
  return timedLine(
    `ended with ${requests} open at the signal, after ${((wallUs() - sinceUs) / 1e6).toFixed(1)} s`,
    role,
  );
}

function endOnSignal(config: ServeConfig, app: ServedApp): void {
  let sinceUs: number | null = null;
  const end = async (signal: NodeJS.Signals) => {
    if (sinceUs !== null) {
      if (wallUs() - sinceUs > SAME_SIGNAL_US) process.exit(signal === "SIGINT" ? 130 : 143);
      return;
    }
    sinceUs = wallUs();
    const open = app.engines.live;
    const why = await app.close(config.shutdownTimeoutS);
    if (open > 0) printText(endedLine(config, open, sinceUs));
    if (why !== undefined) warn(why);
    process.exit(why === undefined ? 0 : REQUESTS_CUT);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void end(signal));
}
