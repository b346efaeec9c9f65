/**
 * The parent process of `understudy serve --workers N`. It serves no requests, but starts the workers and owns the memory that
 * they share.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { Ledger } from "../../app/workers/ledger.ts";
import { type Reservation, reservePort } from "../../app/workers/port.ts";
import { StartRefused, Supervisor } from "../../app/workers/supervisor.ts";
import { epochUsOf, WallClock, wallUs } from "../../base/clock.ts";
import { listenUrl } from "../../base/listen-url.ts";
import { PortError } from "../../base/start-errors.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { streamWritesOf } from "../../kernel/stream-writes.ts";
import { httpRoutes } from "../../metrics/rows/http-counts.ts";
import { setupOf } from "../../metrics/setup.ts";
import { countedBy } from "../../servers/openai/front/served.ts";
import { fileOfWorker } from "../../truth/worker-file.ts";
import { printText } from "../print.ts";
import { workerCommand } from "../single-file.ts";
import { describe } from "./banner.ts";
import { endedLine, refusalOf, SAME_SIGNAL_US, startedMs, unwritableTruth } from "./serve.ts";

/** Maximum number of attempts to find a free port. Another program may take a port before the first worker listens on it. */
const PORT_TRIES = 5;
/**
 * Path of a file system in memory. With files on a disk, the kernel would stall a process that touches a page while the page is
 * written back.
 */
const SHARED_MEMORY = "/dev/shm";
const ENTRY = fileURLToPath(new URL("./serve-worker.ts", import.meta.url));

interface CommandOutput {
  readonly refuse: (why: string) => void;
  readonly warn: (what: string) => void;
  /** Prints the warnings about the options. Called when all workers listen. */
  readonly printWarnings: () => void;
  /** Called when the server accepts requests. `urls`: the URLs of the server. */
  readonly ready: (urls: object) => void;
}

/**
 * Returns an error message if the platform does not distribute connections among the processes that share a port, else
 * undefined.
 */
export function unbalanced(platform: string): string | undefined {
  if (platform === "linux") return undefined;
  return `--workers: must be 1 on ${platform}; only Linux spreads the connections of a port over several processes`;
}

export async function serveWorkers(
  config: ServeConfig,
  platform: string,
  { refuse, warn, printWarnings, ready }: CommandOutput,
): Promise<void> {
  const configs = Array.from({ length: config.workers }, (_, index) => configOf(config, index));
  const why = unbalanced(platform) ?? configs.map(unwritableTruth).find(Boolean);
  if (why) return refuse(why);
  const ledger = openLedger(config);
  if ("refused" in ledger) return refuse(ledger.refused);
  // Remove the folder on "exit", so that it is removed after an uncaught error too.
  process.on("exit", () => rmSync(ledger.folder, { recursive: true, force: true }));
  const clock = new WallClock();
  const startedS = epochUsOf(0) / 1e6;
  const loadS = startedMs() / 1000;
  const { port, http2Port } = config.listen;
  let ports: Pick<ServeConfig["listen"], "port" | "http2Port"> = {
    port,
    ...(http2Port !== undefined && { http2Port }),
  };
  const newSupervisor = () =>
    new Supervisor({
      workers: config.workers,
      clock,
      command: workerCommand(ENTRY),
      say: warn,
      setup: (index, paused) => {
        const { workers, listen } = config;
        const own = { ...configs[index]!, listen: { ...listen, ...ports } };
        return { config: own, index, workers, startedS, loadS, pages: ledger.pages, paused };
      },
      retire: (index, death) => ledger.retire(index, death),
    });
  let supervisor = newSupervisor();
  const signals = endOnSignal(config, () => supervisor);

  for (let tries = 1; ; tries++) {
    try {
      const reserved = reservePorts(config);
      ports = { port: reserved[0]!.port, ...(http2Port !== undefined && { http2Port: reserved[1]!.port }) };
      const url = await supervisor.start().finally(() => {
        for (const { release } of reserved) release();
      });
      const pids = supervisor.pids.filter((pid) => pid !== null);
      // Every worker writes streams in the manner that `streamWritesOf` returns here, because all run on the same machine.
      const at = { url, tritonUrl: tritonUrl(config), http2Url: http2Url(url, ports.http2Port) };
      printWarnings();
      printText(describe(config, at, startedMs(), await streamWritesOf(config), pids));
      ready({ url, metricsUrl: at.tritonUrl, http2Url: at.http2Url });
      break;
    } catch (error) {
      if (signals.received !== null) break;
      const taken = (error as { code?: string }).code === "EADDRINUSE";
      if (error instanceof StartRefused && taken && port === 0 && tries < PORT_TRIES) {
        supervisor = newSupervisor();
        continue;
      }
      clock.close();
      const line = error instanceof StartRefused ? error.message : refusalOf(config, error);
      if (line === undefined) throw error;
      return refuse(line);
    }
  }
  // The workers can serve without this process, so an error in this process must not end them.
  for (const event of ["uncaughtException", "unhandledRejection"])
    process.on(event, (error: unknown) => logUnexpected("an error in the parent of the workers", error));
  const code = await supervisor.exited;
  signals.done(supervisor.open);
  process.exit(code);
}

function tritonUrl({ metrics }: ServeConfig): string | null {
  const { listen } = metrics.triton;
  return listen && listenUrl({ hostname: listen.host, port: listen.port });
}

/** Returns the URL of the HTTP/2 port, with the host of the other URL. Returns null if HTTP/2 has no port of its own. */
const http2Url = (url: string, port: number | undefined): string | null =>
  port === undefined ? null : url.replace(/:\d+$/, `:${port}`);

/** Reserves the ports of HTTP/1.1, HTTP/2 and Triton's metrics if the configuration sets them. Throws `PortError`. */
function reservePorts(config: ServeConfig): Reservation[] {
  const { host, port, http2Port } = config.listen;
  const { listen } = config.metrics.triton;
  const reserved = [reservePort(host, port)];
  let of: PortError["of"] = "http2";
  try {
    if (http2Port !== undefined) reserved.push(reservePort(host, http2Port));
    of = "metrics";
    if (listen !== null) reserved.push(reservePort(listen.host, listen.port));
    return reserved;
  } catch (error) {
    for (const { release } of reserved) release();
    throw new PortError(error, of);
  }
}

/**
 * Returns the configuration of a worker. It differs from the server's in the path of the truth log, because each worker writes
 * its own.
 */
function configOf(config: ServeConfig, worker: number): ServeConfig {
  const truthLog = config.truth.log;
  return truthLog
    ? { ...config, truth: { ...config.truth, log: { ...truthLog, file: fileOfWorker(truthLog.file, worker) } } }
    : config;
}

function openLedger(config: ServeConfig): Ledger | { readonly refused: string } {
  const parent = statSync(SHARED_MEMORY, { throwIfNoEntry: false })?.isDirectory() ? SHARED_MEMORY : tmpdir();
  const routes = httpRoutes(countedBy(config));
  const { shape, refreshes } = setupOf(config, 0, routes, false);
  const truthOf = (index: number) => config.truth.log && fileOfWorker(config.truth.log.file, index);
  try {
    return new Ledger(mkdtempSync(join(parent, "understudy-")), config.workers, { shape, refreshes }, truthOf);
  } catch (error) {
    return { refused: `--workers: cannot write to ${parent} (${(error as { code?: string }).code ?? String(error)})` };
  }
}

/** Shuts down on the first signal. Kills the workers on the second signal. */
function endOnSignal(config: ServeConfig, supervisor: () => Supervisor) {
  const state = {
    received: null as NodeJS.Signals | null,
    sinceUs: 0,
    done(open: number) {
      if (open > 0) printText(endedLine(config, open, state.sinceUs));
    },
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (state.received !== null) {
        if (wallUs() - state.sinceUs <= SAME_SIGNAL_US) return;
        supervisor().kill();
        process.exit(signal === "SIGINT" ? 130 : 143);
      }
      state.received = signal;
      state.sinceUs = wallUs();
      supervisor().end(config.shutdownTimeoutS);
    });
  }
  return state;
}
