/**
 * Runs the three roles next to each other under moderate load for minutes or hours: aborts, faults, scrapes and `check` every
 * second, reloads and admin changes. Returns the outcome of each server; the caller judges it.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { main as program } from "../program.ts";
import type { Sample } from "./level.ts";
import { makeFolders, type RoleName, type SoakFolders, type SoakServer, startAll } from "./servers.ts";
import { Traffic, type TrafficResult } from "./traffic.ts";

export interface SoakPlan {
  readonly seed: number;
  readonly minutes: number;
  /** Seconds of traffic before descriptors are counted the first time. In this time threads start and tables load. */
  readonly warmUpS: number;
  /** Requests per second to each role. */
  readonly perSecond: number;
  readonly sampleEveryS: number;
  /**
   * True if HTTP/1 connections are reused. If false, each connection closes after its answer, so that a server is idle at
   * once.
   */
  readonly keepsConnections: boolean;
  /** Receives one line a minute. */
  readonly say?: (line: string) => void;
}

export interface RoleOutcome {
  readonly role: RoleName;
  /** Exit code or signal of a server that exited by itself. Null if it did not. */
  readonly ended: string | null;
  /** Exit code after SIGTERM at the end. */
  readonly exitCode: number;
  readonly samples: readonly Sample[];
  /**
   * Number of descriptors of the idle server, without connections that the client keeps open: after the warm-up, and at the
   * end.
   */
  readonly descriptors: readonly [start: number, end: number];
  /** Share of one core that the server used. */
  readonly cores: number;
  readonly traffic: TrafficResult;
  readonly check: { readonly code: number; readonly output: string };
  /** The last lines that the server printed, if it ended early. */
  readonly output: string;
}

export async function soak(plan: SoakPlan): Promise<RoleOutcome[]> {
  const base = mkdtempSync(join(tmpdir(), "soak-"));
  const folders = makeFolders(base);
  const servers = await startAll(folders);
  try {
    return await Promise.all(servers.map((server, index) => runServer(server, folders, plan, index)));
  } finally {
    for (const server of servers) await server.stop();
    rmSync(base, { recursive: true, force: true });
  }
}

async function runServer(
  server: SoakServer,
  folders: SoakFolders,
  plan: SoakPlan,
  index: number,
): Promise<RoleOutcome> {
  const traffic = (part: number) =>
    new Traffic(server, folders, plan.seed * 1000 + index * 10 + part, plan.keepsConnections);
  const warmUp = traffic(0);
  warmUp.each();
  await fetch(server.metricsUrl, { keepalive: false });
  warmUp.start(plan.perSecond);
  await Bun.sleep(plan.warmUpS * 1000);
  await warmUp.stop();
  const start = await descriptorsAtRest(server, plan.keepsConnections ? IDLE_ENDS_S : 1);

  const checking = check(server, plan.minutes);
  const samples: Sample[] = [];
  const cpuBeforeS = cpuSeconds(server.pid);
  const startMs = performance.now();
  const main = traffic(1);
  main.start(plan.perSecond);
  const minute = () => (performance.now() - startMs) / 60_000;
  for (let number = 1; minute() < plan.minutes && server.ended() === null; number++) {
    await Bun.sleep(Math.max(0, startMs + number * plan.sampleEveryS * 1000 - performance.now()));
    if (server.ended() !== null) break;
    samples.push({ minute: minute(), ...holdings(server.pid) });
    if ((number * plan.sampleEveryS) % 60 < plan.sampleEveryS) plan.say?.(lineOf(server, samples.at(-1)!));
  }
  const lived = server.ended() === null;
  const cores = lived ? (cpuSeconds(server.pid) - cpuBeforeS) / (minute() * 60) : Number.NaN;
  const result = await main.stop();
  const checked = await checking;
  const end = lived ? await descriptorsAtRest(server, IDLE_ENDS_S, start) : Number.NaN;
  const ended = server.ended();
  return {
    role: server.role,
    ended,
    output: ended === null ? "" : server.output().slice(-2000),
    exitCode: await server.stop(),
    samples,
    descriptors: [start, end],
    cores,
    traffic: result,
    check: checked,
  };
}

const lineOf = ({ role }: SoakServer, { minute, residentMb, descriptors }: Sample) =>
  `minute ${minute.toFixed(1)}: ${role} ${residentMb.toFixed(1)} MB, ${descriptors} descriptors`;

/** Runs `understudy check` with a scrape every second, as long as the traffic lasts. */
async function check(server: SoakServer, minutes: number): Promise<RoleOutcome["check"]> {
  const statistics = server.role === "triton" ? ["--triton", server.url] : [];
  const length = `${Math.round(minutes * 60)}s`;
  const flags = [...statistics, "--every", "1s", "--for", length];
  const child = Bun.spawn([process.execPath, program, "check", server.metricsUrl, ...flags], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, output: `${errors}${output}` };
}

function holdings(pid: number): Omit<Sample, "minute"> {
  const residentKb = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { residentMb: Number(residentKb) / 1024, descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

/** Clock ticks of the kernel per second, on every Linux that Bun runs on. */
const TICKS_PER_SECOND = 100;

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** Seconds after which idle connections (5 to 9 s) and an idle reading thread (5 s) have ended. */
const IDLE_ENDS_S = 12;

/**
 * State of an established connection in /proc/net/tcp (Linux, include/net/tcp_states.h). A server that leaks a connection has
 * CLOSE_WAIT.
 */
const ESTABLISHED = "01";

/**
 * Counts the server's connections that both ends keep open. Triton has no time limit for idle connections, and `fetch` keeps
 * them.
 */
function openConnections({ url, metricsUrl, grpcPort }: SoakServer): number {
  const ports = [...[url, metricsUrl].map((address) => Number(new URL(address).port)), grpcPort];
  const lines = ["tcp", "tcp6"].flatMap((file) =>
    readFileSync(`/proc/net/${file}`, "utf8").trim().split("\n").slice(1),
  );
  return lines.filter((line) => {
    const [, local = "", , state] = line.trim().split(/\s+/);
    return state === ESTABLISHED && ports.includes(Number.parseInt(local.split(":")[1]!, 16));
  }).length;
}

/**
 * Waits for `seconds`, in which idle connections and threads end. Returns the lowest number of descriptors, without
 * connections that the client keeps open. Returns earlier if the number is at most `enough`.
 */
async function descriptorsAtRest(server: SoakServer, seconds: number, enough = 0): Promise<number> {
  let lowest = Number.POSITIVE_INFINITY;
  for (let tenth = 0; tenth < seconds * 10 && lowest > enough && server.ended() === null; tenth++) {
    await Bun.sleep(100);
    lowest = Math.min(lowest, holdings(server.pid).descriptors - openConnections(server));
  }
  return lowest;
}
