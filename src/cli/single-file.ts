/**
 * Differences between a single file (scripts/compile.ts) and the package: how a worker process is started, and how the runtime
 * gets its settings.
 *
 * Bun reads these settings from the environment before any of our code runs. The package's launcher `bin/understudy` sets them
 * and explains them. A single file has no launcher, so it replaces its own process.
 */
import { availableParallelism } from "node:os";
import loadOptions from "../../bin/load-options.json";
import oneProcessorOptions from "../../bin/one-processor-options.json";
import replayOptions from "../../bin/replay-options.json";

/**
 * Command with which a single file starts its worker processes, because it contains no other program to start. Users do not
 * give this command.
 */
export const WORKER_COMMAND = "serve-worker";

/** Returns the command line of a worker process. `entry`: path of the worker's program, which a single file does not use. */
export function workerCommand(entry: string): readonly string[] {
  if (Bun.isStandaloneExecutable) return [process.execPath, WORKER_COMMAND];
  return [process.execPath, ...process.execArgv, entry];
}

/** Returns the environment variables that the launcher sets for a command. */
export function runtimeSettingsOf(command: string | undefined, processors: number): Readonly<Record<string, string>> {
  if (command === "replay") return replayOptions;
  if (command === "load") return loadOptions;
  return command === "serve" && processors === 1 ? oneProcessorOptions : {};
}

/**
 * In a single file, replaces the process by the same program with the settings of `command`, unless the environment has them
 * all. The process id, the parent and the open files stay. A variable that the user has set keeps its value. Returns if no
 * setting is missing, or if the system refuses; the command then runs with default settings.
 */
export function restartWithSettings(command: string | undefined): void {
  if (!Bun.isStandaloneExecutable) return;
  const settings = runtimeSettingsOf(command, availableParallelism());
  if (Object.keys(settings).every((name) => process.env[name] !== undefined)) return;
  try {
    process.execve?.(process.execPath, [process.argv0, ...process.argv.slice(2)], { ...settings, ...process.env });
  } catch {}
}
