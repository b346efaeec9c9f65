/**
 * Starts and watches the measured servers, each on its core, and lets contenders take turns. Works only on Linux, because it
 * reads /proc.
 */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import oneProcessor from "../../bin/one-processor-options.json";
import replayOptions from "../../bin/replay-options.json";
import { has, note, progress, root, text } from "./bench.ts";

export const SERVER_CORE = 0;
export const CLIENT_CORE = 1;

const { clock_gettime } = dlopen("libc.so.6", {
  clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
}).symbols;

/**
 * Returns the CPU time of a process with all its threads, ended ones included, in microseconds. The resolution is a nanosecond.
 * Throws if the process has ended. Reads the clock of `clock_getcpuclockid` (Linux, include/linux/posix-timers.h).
 */
export function cpuUs(pid: number): number {
  const time = new BigInt64Array(2);
  if (clock_gettime((~pid << 3) | 2, ptr(time)) !== 0) throw new Error(`process ${pid}: has ended`);
  return Number(time[0]) * 1e6 + Number(time[1]) / 1e3;
}

/** Returns the resident memory of a process, in megabytes. */
export function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))![1]) * 0.001024;
}

/** Watches the resident memory of a process. The result ends it and returns the largest value, in megabytes. */
export function watchedMb(pid: number): () => number {
  let most = residentMb(pid);
  const look = () => (most = Math.max(most, residentMb(pid)));
  const timer = setInterval(look, 20);
  return () => {
    clearInterval(timer);
    return look();
  };
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

/** Returns options as words of a command: `everyMs: 2` becomes `--every-ms 2`. Omits those that are undefined or false. */
export const flagsOf = (options: object): string[] =>
  Object.entries(options)
    .filter(([, value]) => value !== undefined && value !== false)
    .flatMap(([name, value]) => [
      `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      value === true ? "1" : String(value),
    ]);

/** Returns the environment in which the installed command starts a server that has one core. */
const onOneProcessor = () => ({ ...oneProcessor, ...process.env });

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

export interface RunningServer extends AsyncDisposable {
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

interface StartOptions {
  /** Null: the server may use all cores. Default: the server's core. */
  readonly core?: number | null;
  /** Option of the program that sets its port. Default: `--port`. */
  readonly portFlag?: string;
  /** Path that answers 200 once the server is up. Default: `/health`. Null: the server is up when it accepts connections. */
  readonly health?: string | null;
  readonly env?: Readonly<Record<string, string>>;
  /** Words before the command, such as those of strace. */
  readonly under?: readonly string[];
  /** Path of a file for the program's standard error. */
  readonly complaints?: string;
}

/** Starts a program on a free port and waits until it is up. `await using` or `stop` ends it. */
export async function start(
  command: readonly string[],
  { core = SERVER_CORE, portFlag = "--port", health, env, under = [], complaints }: StartOptions = {},
): Promise<RunningServer> {
  const port = freePort();
  const words = [...under, ...command, portFlag, String(port)];
  const child = Bun.spawn(core === null ? words : pinned(core, words), {
    cwd: root,
    env: { ...(core === null ? process.env : onOneProcessor()), ...env },
    stdin: "ignore",
    stdout: "ignore",
    stderr: complaints === undefined ? "pipe" : Bun.file(complaints),
  });
  const complaint = typeof child.stderr === "object" ? new Response(child.stderr).text() : complaints;
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  while (!(await healthy(port, health))) {
    if (hasEnded()) throw new Error(`${words.join(" ")}: exited with code ${child.exitCode}:\n${await complaint}`);
    await Bun.sleep(5);
  }
  const stop = async () => {
    if (hasEnded()) return;
    // A tracer does not forward SIGTERM, so the traced program gets it directly.
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "latin1").trim().split(" ");
    process.kill(under.length > 0 && children[0] ? Number(children[0]) : child.pid, "SIGTERM");
    await child.exited;
  };
  return { pid: child.pid, port, stop, [Symbol.asyncDispose]: stop };
}

/** Reports whether a port of this machine accepts connections. */
export const accepts = (port: number): Promise<boolean> =>
  Bun.connect({ hostname: "127.0.0.1", port, socket: { open: (socket) => void socket.end(), data() {} } }).then(
    () => true,
    () => false,
  );

const healthy = (port: number, path: string | null = "/health"): Promise<boolean> =>
  path === null
    ? accepts(port)
    : fetch(`http://127.0.0.1:${port}${path}`, { keepalive: false }).then(
        ({ ok }) => ok,
        () => false,
      );

/** Starts the server under test with `flags`. `--server "command"` replaces our server. */
export function serve(flags: readonly string[], options: StartOptions = {}): Promise<RunningServer> {
  const other = text("--server", "");
  const command = other ? other.split(" ") : [process.execPath, "src/main.ts", "serve"];
  return start([...command, ...flags], options);
}

/** Starts the bare `Bun.serve` of bare-server.ts. */
export const bareServer = (...flags: string[]): Promise<RunningServer> =>
  start([process.execPath, "bench/lib/bare-server.ts", ...flags]);

/**
 * Runs each contender once per round, and returns the results of its rounds in order. Each round begins with the next
 * contender, so that leftovers of a run and a busy machine affect all alike. Results of `warmUps` rounds before do not count.
 */
export async function inTurns<Name extends string, Result>(
  bench: string,
  rounds: number,
  contenders: Readonly<Record<Name, () => Result | Promise<Result>>>,
  warmUps = 0,
): Promise<Record<Name, Result[]>> {
  const names = Object.keys(contenders) as Name[];
  const results = Object.fromEntries(names.map((name) => [name, [] as Result[]])) as Record<Name, Result[]>;
  for (let round = -warmUps; round < rounds; round++) {
    const turn = (round + warmUps) % names.length;
    for (const name of [...names.slice(turn), ...names.slice(0, turn)]) {
      progress(`${bench}: round ${round + 1} of ${rounds}, ${name}`);
      const result = await contenders[name]();
      if (round >= 0) results[name].push(result);
    }
  }
  return results;
}

/** Runs `act`. Returns its result, and the CPU time that the server used meanwhile, in microseconds. */
export async function withCpu<T>({ pid }: RunningServer, act: () => Promise<T>): Promise<{ result: T; us: number }> {
  const beforeUs = cpuUs(pid);
  const result = await act();
  return { result, us: cpuUs(pid) - beforeUs };
}

/** Number and lateness of the bare timer process's wake-ups. */
export interface ControlResult {
  readonly wakes: number;
  readonly p50Us: number;
  readonly p90Us: number;
  readonly p99Us: number;
  readonly maxUs: number;
}

/** Lateness of the bare timer process above which the machine is too busy. */
const CONTROL_P99_US = 1000;

/** Runs the bare timer process for some seconds on the server's core. */
async function control(bench: string, periodUs: number, seconds: number): Promise<ControlResult> {
  progress(`${bench}: control`);
  const words = [program("control"), "--period-us", String(periodUs), "--seconds", String(seconds)];
  return Bun.spawn(pinned(SERVER_CORE, words), { stdout: "pipe" }).stdout.json() as Promise<ControlResult>;
}

/** Runs `act` between two runs of the bare timer process. `isVoid`: true if it was late, so that the result does not count. */
export async function betweenControls<T>(bench: string, periodUs: number, seconds: number, act: () => Promise<T>) {
  const before = await control(bench, periodUs, seconds);
  const result = await act();
  const after = await control(bench, periodUs, seconds);
  return { result, before, after, isVoid: [before, after].some(({ p99Us }) => p99Us > CONTROL_P99_US) };
}

export function noteVoid(isVoid: boolean): void {
  if (isVoid) note("VOID: the bare timer process was late, so the machine is too busy");
}

/** Several replays in one process: wall seconds of each, its work, and the process's peak memory. */
export interface ReplayResult {
  readonly rounds: readonly number[];
  readonly requests: number;
  readonly outputTokens: number;
  readonly tokens: number;
  readonly peakBytes: number;
}

/** Runs `understudy replay` with these flags several times in a process on the server's core. */
export async function replayRounds(times: number, flags: readonly string[]): Promise<ReplayResult> {
  const command = pinned(SERVER_CORE, [process.execPath, "bench/lib/replay-rounds.ts", String(times), ...flags]);
  // The installed command starts with the same options of the runtime.
  const env = { ...replayOptions, ...process.env };
  const child = Bun.spawn(command, { cwd: root, stdout: "pipe", stderr: "inherit", env });
  const out = await child.stdout.text();
  if ((await child.exited) !== 0) throw new Error(`the replay with ${flags.join(" ")} failed`);
  return { ...JSON.parse(out), peakBytes: child.resourceUsage()!.maxRSS };
}
