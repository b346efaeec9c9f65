/**
 * Lists the exit codes of all commands with their meanings. docs/reference/exit-codes.md has them as a table, and
 * test/docs/surface.json records them, because a version promises them (docs/reference/stability.md).
 */
import { readFileSync } from "node:fs";
import { markdownTable } from "./markdown.ts";

export interface ExitCode {
  readonly command: string;
  readonly code: number;
  readonly meaning: string;
  /** Source file that sets the code, and the line or part of it that does so. Absent for 0, the default of a process. */
  readonly source?: readonly [path: string, text: string];
}

const CRASH = "[crash.md](../how-to/crash.md)";
const REFUSED = ["src/cli/refuse.ts", "USAGE_ERROR = 2"] as const;
const SECOND = ["src/cli/interrupt.ts", "INTERRUPTED = 130"] as const;
const SERVE = "src/cli/serve/serve.ts";
const MAIN = "src/main.ts";

const code = (command: string, code: number, meaning: string, source?: readonly [string, string]): ExitCode => ({
  command,
  code,
  meaning,
  ...(source && { source }),
});

export const EXIT_CODES: readonly ExitCode[] = [
  code("serve", 0, "ended in order"),
  code("serve", 1, "the engine died by a script", [SERVE, "ENGINE_DEAD = 1"]),
  code("serve", 1, "requests were cut after `--shutdown-timeout`", [SERVE, "REQUESTS_CUT = 1"]),
  code("serve", 1, "a worker ended ten times at once", ["src/app/workers/supervisor.ts", "GAVE_UP = 1"]),
  code("serve", 2, "wrong option, file or port", REFUSED),
  code("serve", 2, "fixtures or dataset that cannot be read", REFUSED),
  code("serve", 70, `the core broke (${CRASH})`, [SERVE, "CORE_TRAPPED = 70"]),
  code("serve", 130, "a second SIGINT", [SERVE, 'signal === "SIGINT" ? 130']),
  code("serve", 143, "a second SIGTERM", [SERVE, "130 : 143"]),
  code("front", 0, "the front end ended with 0; other codes of it are passed on"),
  code("front", 1, "the engine died by a script", ["src/cli/front/front.ts", "ENGINE_DEAD = 1"]),
  code("front", 1, "the front end was not ready in time", ["src/cli/front/front-end.ts", "s`, 1);"]),
  code("front", 2, "wrong option, or the front end's program was not found", REFUSED),
  code("front", 128, "more than this: the front end was ended by this signal", [
    "src/cli/front/front-end.ts",
    "OF_SIGNAL = 128",
  ]),
  code("load", 0, "something was measured"),
  code("load", 1, "every request failed", ["src/cli/load/load.ts", "NOTHING_MEASURED = 1"]),
  code("load", 2, "the run could not begin: wrong option or file, server or model not found", REFUSED),
  code("load", 130, "a second Ctrl-C", SECOND),
  code("check", 0, "no law of severity E is violated"),
  code("check", 1, "a law of severity E is violated", ["src/tools/check/report.ts", "errors.length > 0)) return 1;"]),
  code("check", 2, "a page could not be checked", ["src/tools/check/report.ts", "isFailure(report)) ? 2 : 0"]),
  code("check", 2, "`--require-dialect` failed", [
    "src/tools/check/report.ts",
    "requireDialect && generalOnly !== null",
  ]),
  code("check", 2, "wrong option", REFUSED),
  code("check", 130, "a second Ctrl-C", SECOND),
  code("kv-check", 0, "no law of severity E is violated"),
  code("kv-check", 1, "a law of severity E is violated", [
    "src/tools/check/report.ts",
    "errors.length > 0)) return 1;",
  ]),
  code("kv-check", 2, "a publisher could not be checked", ["src/tools/check/report.ts", "isFailure(report)) ? 2 : 0"]),
  code("kv-check", 2, "wrong option", REFUSED),
  code("kv-check", 130, "a second Ctrl-C", SECOND),
  code("stress", 0, "no case is red"),
  code("stress", 1, "a case is red", ["src/cli/stress/stress.ts", "isRedRun ? 1 : 0"]),
  code("stress", 2, "it could not run, or the client never called", ["src/cli/stress/stress.ts", "neverRan ? 2"]),
  code("stress", 130, "a second Ctrl-C", SECOND),
  code("truth", 0, "there were requests"),
  code("truth", 1, "there were none, or none of them in `--compare`", [
    "src/cli/truth/truth.ts",
    "process.exitCode = 1",
  ]),
  code("truth", 2, "the truth could not be read", REFUSED),
  code("health", 0, "ready"),
  code("health", 1, "not ready", ["src/cli/health/health.ts", "process.exitCode = 1"]),
  code("health", 2, "wrong option", REFUSED),
  code("replay", 0, "ended"),
  code("replay", 2, "wrong option or trace", REFUSED),
  code("replay", 2, "nothing to replay", REFUSED),
  code("replay", 70, "the core broke, also with `--crash`", ["src/cli/replay/replay.ts", "CORE_TRAPPED = 70"]),
  code("proxy", 0, "ended in order", ["src/cli/proxy/proxy.ts", "process.exit(0)"]),
  code("proxy", 2, "wrong option", REFUSED),
  code("proxy", 2, "port in use", REFUSED),
  code("timing, fault", 0, "printed"),
  code("timing, fault", 2, "wrong option, file or plan", REFUSED),
  code("completion, man", 0, "printed"),
  code("completion, man", 2, "no such shell, or too many arguments", REFUSED),
  code("any", 1, "not built", [MAIN, "process.exitCode = 1"]),
  code("any", 1, "Bun is missing", ["bin/understudy", "process.exitCode = 1"]),
  code("any", 2, "no such command", [MAIN, "process.exitCode = 2"]),
];

const root = new URL("../../", import.meta.url).pathname;

/** Returns the codes whose source file still contains the text that sets them, so that a removed code is noticed. */
export function currentExitCodes(read = (path: string) => readFileSync(root + path, "utf8")): readonly ExitCode[] {
  return EXIT_CODES.filter(({ source }) => source === undefined || read(source[0]).includes(source[1]));
}

export function exitCodesTable(): string {
  const rows = [...Map.groupBy(EXIT_CODES, ({ command }) => command)].map(([command, codes]) => {
    const meanings = (wanted: number) =>
      codes.flatMap(({ code, meaning }) => (code === wanted ? [meaning] : [])).join("; ");
    const others = codes.filter(({ code }) => code > 2).map(({ code, meaning }) => `${code}: ${meaning}`);
    const names = command === "any" ? command : command.replace(/[\w-]+/g, "`$&`");
    return [names, meanings(0), meanings(1), meanings(2), others.join(". ")];
  });
  return markdownTable([["Command", "0", "1", "2", "Others"], ...rows]);
}
