/** Builds, starts, watches and ends the measured processes, each on its core. Works only on Linux, because it reads /proc. */

import { dlopen, FFIType, ptr } from "bun:ffi";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import oneProcessor from "../../bin/one-processor-options.json";
import { has, text } from "./options.ts";
import { root } from "./results.ts";

export const SERVER_CORE = 0;
export const CLIENT_CORE = 1;

/** User and system time of a process with all its threads, in microseconds. The resolution is 10 ms. */
export interface Cpu {
  readonly userUs: number;
  readonly systemUs: number;
}

export function cpuOf(pid: number): Cpu {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return { userUs: Number(fields[11]) * 10_000, systemUs: Number(fields[12]) * 10_000 };
}

const { clock_gettime } = dlopen("libc.so.6", {
  clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
}).symbols;

/**
 * Returns the CPU time of a process with all its threads, ended ones included, in microseconds. The resolution is a nanosecond,
 * for work that is shorter than the ticks of `cpuOf`. Throws if the process has ended. Reads the clock of
 * `clock_getcpuclockid` (Linux, include/linux/posix-timers.h).
 */
export function finelyOf(pid: number): number {
  const time = new BigInt64Array(2);
  if (clock_gettime((~pid << 3) | 2, ptr(time)) !== 0) throw new Error(`process ${pid}: has ended`);
  return Number(time[0]) * 1e6 + Number(time[1]) / 1e3;
}

/** Returns the resident memory of a process, in bytes. */
export function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))![1]) * 1024;
}

/** Compiles a program of `bench/stream/` if its source is newer, and returns its path. */
export function program(name: "anchor" | "reader" | "control"): string {
  const folder = `${root}build/bench`;
  const [binary, source] = [`${folder}/${name}`, `${root}bench/stream/${name}.c`];
  const newest = Math.max(statSync(source).mtimeMs, statSync(`${root}bench/stream/shared.h`).mtimeMs);
  if (existsSync(binary) && statSync(binary).mtimeMs > newest) return binary;
  mkdirSync(folder, { recursive: true });
  const { exitCode, stderr } = Bun.spawnSync(["gcc", "-O2", "-Wall", "-Wextra", "-o", binary, source]);
  if (exitCode !== 0) throw new Error(`gcc ${name}.c:\n${stderr}`);
  return binary;
}

/**
 * Adds a real-time class to a command, for `--realtime` (needs root). On a busy machine only this gives repeatable results. With
 * autogroup scheduling, `nice` has an effect only within a session.
 */
export function scheduled(command: readonly string[]): string[] {
  return has("--realtime") ? ["chrt", "--rr", "5", ...command] : [...command];
}

/** Returns the environment in which the installed command starts a server that has one core. */
export const onOneProcessor = () => ({ ...oneProcessor, ...process.env });

/** Returns a command that runs on one core. Each prefix execs the next word, so the pid is the program's. */
export function pinned(core: number, command: readonly string[]): string[] {
  return scheduled(["taskset", "-c", String(core), ...command]);
}

/** Pins this process with all its threads, and the processes that it starts later, to a core. */
export function pinSelf(core: number): void {
  const words = ["taskset", "--all-tasks", "--pid", "--cpu-list", String(core), String(process.pid)];
  if (Bun.spawnSync(words).exitCode !== 0) throw new Error(words.join(" "));
}

export function freePort(): number {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = listener;
  listener.stop(true);
  return port;
}

export interface RunningServer {
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

interface StartOptions {
  readonly core?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Words before the command, such as those of strace. */
  readonly under?: readonly string[];
  /** Path of a file for the program's standard error. */
  readonly complaints?: string;
}

/** Starts a program that takes `--port` and waits until it accepts connections. */
export async function start(
  command: readonly string[],
  { core, env, under = [], complaints }: StartOptions = {},
): Promise<RunningServer> {
  const port = freePort();
  const words = [...under, ...command, "--port", String(port)];
  const child = Bun.spawn(core === undefined ? words : pinned(core, words), {
    cwd: root,
    env: { ...(core === undefined ? process.env : onOneProcessor()), ...env },
    stdin: "ignore",
    stdout: "ignore",
    stderr: complaints === undefined ? "pipe" : Bun.file(complaints),
  });
  const complaint = typeof child.stderr === "object" ? new Response(child.stderr).text() : complaints;
  let ended = false;
  void child.exited.then(() => (ended = true));
  while (!(await healthy(port))) {
    if (ended) throw new Error(`${command.join(" ")}: exited with code ${child.exitCode}:\n${await complaint}`);
    await Bun.sleep(5);
  }
  return {
    pid: child.pid,
    port,
    stop: async () => {
      // A tracer does not forward SIGTERM, so the traced program gets it directly.
      const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "latin1").trim().split(" ");
      process.kill(under.length > 0 && children[0] ? Number(children[0]) : child.pid, "SIGTERM");
      await child.exited;
    },
  };
}

export async function healthy(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/health`, { keepalive: false })).ok;
  } catch {
    return false;
  }
}

/** Returns the command of the server under test with `flags`. `--server "command"` replaces our server. */
export function serverCommand(flags: readonly string[]): string[] {
  const other = text("--server", "");
  return [...(other ? other.split(" ") : [process.execPath, "src/main.ts", "serve"]), ...flags];
}

/** Runs the bare timer process for some seconds on a core that is otherwise idle. */
export async function control(core: number, periodUs: number, seconds: number): Promise<ControlResult> {
  const words = [program("control"), "--period-us", String(periodUs), "--seconds", String(seconds)];
  return Bun.spawn(pinned(core, words), { stdout: "pipe" }).stdout.json() as Promise<ControlResult>;
}

/** Number and lateness of the timer process's wake-ups. */
export interface ControlResult {
  readonly wakes: number;
  readonly p50Us: number;
  readonly p90Us: number;
  readonly p99Us: number;
  readonly maxUs: number;
}
