/** Runs the command that the arguments name. Each command has a file in `cli/`, which is only loaded when it runs. */
import { existsSync } from "node:fs";
import { version } from "../package.json";
import { ignoreClosedOutput } from "./base/output.ts";
import { bypassProxies } from "./cli/proxies.ts";
import { restartWithSettings, WORKER_COMMAND } from "./cli/single-file.ts";

const USAGE = `understudy ${version}: stands in for an LLM inference server

  understudy serve [MODEL] [options]   the server; understudy serve --help lists the options
  understudy front -- COMMAND          a front end of vLLM with our engine behind it; understudy front --help
  understudy replay TRACE [options]    a trace through the same engine in simulated time; understudy replay --help
  understudy load [options]            load on a server, and what came back; understudy load --help
  understudy check URL-or-FILE...      do anybody's metrics keep their laws? understudy check --help
  understudy kv-check ENDPOINT...      do anybody's KV events keep their laws? understudy kv-check --help
  understudy stress -- COMMAND         which faults of a stream does a client not bear? understudy stress --help
  understudy proxy --to URL [options]  faults before a real server, and a record of what passes; understudy proxy --help
  understudy truth URL-or-FILE         what each request really experienced, for any load tool; understudy truth --help
  understudy health [URL]              is a server ready? For HEALTHCHECK and scripts; understudy health --help
  understudy fault list                the faults that answers can have
  understudy fault explain PLAN        what a plan of faults does, in words and bytes
  understudy timing list|show|fit      how long steps take: presets, their curves, a fit of one's own; understudy timing --help
  understudy completion bash|zsh|fish  the completion script of a shell
  understudy man                       the manual, for man
  understudy help [COMMAND]            this, or the options of a command; also --help
  understudy version                   the version; also --version`;

/** Made by `scripts/build.ts`; a published package has them. */
const BUILT = ["core.wasm", "core.debug.wasm", "trtllm.wasm", "trtllm.debug.wasm", "vocabulary.bin", "answers.bin"];
const NEEDS_BUILT = ["serve", "front", "replay", "timing"];

const isBuilt = (): boolean => BUILT.every((name) => existsSync(new URL(`../build/${name}`, import.meta.url)));

/** `help serve` is `serve --help`. */
function asked(): readonly string[] {
  const [first, second, ...others] = process.argv.slice(2);
  if (first === "help" && second !== undefined) return [second, "--help", ...others];
  return process.argv.slice(2);
}

const [command, ...rest] = asked();
restartWithSettings(command);
bypassProxies(command);
const isWorker = Bun.isStandaloneExecutable && command === WORKER_COMMAND;
// Servers take their output over themselves.
if (command !== "serve" && command !== "front" && !isWorker) ignoreClosedOutput();

if (NEEDS_BUILT.includes(command ?? "") && !isBuilt()) {
  console.error(
    "understudy: not built yet; build it with: npx bun scripts/build.ts (or npx bun run start, which does)",
  );
  process.exitCode = 1;
} else if (isWorker) await import("./cli/serve/serve-worker.ts");
else if (command === "serve") await (await import("./cli/serve/serve.ts")).runServe(rest);
else if (command === "front") await (await import("./cli/front/front.ts")).runFront(rest);
else if (command === "replay") await (await import("./cli/replay/replay.ts")).runReplay(rest);
else if (command === "load") await (await import("./cli/load/load.ts")).runLoad(rest);
else if (command === "check") await (await import("./cli/check/check.ts")).runCheck(rest);
else if (command === "kv-check") await (await import("./cli/kv-check/kv-check.ts")).runKvCheck(rest);
else if (command === "stress") await (await import("./cli/stress/stress.ts")).runStress(rest);
else if (command === "proxy") await (await import("./cli/proxy/proxy.ts")).runProxy(rest);
else if (command === "truth") await (await import("./cli/truth/truth.ts")).runTruth(rest);
else if (command === "health") await (await import("./cli/health/health.ts")).runHealth(rest);
else if (command === "fault") (await import("./cli/fault/fault.ts")).runFault(rest);
else if (command === "timing") await (await import("./cli/timing/timing.ts")).runTiming(rest);
else if (command === "completion") (await import("./cli/manual/manual.ts")).runCompletion(rest);
else if (command === "man") (await import("./cli/manual/manual.ts")).runMan(rest);
else if (command === "version" || command === "--version" || command === "-V") console.log(version);
else if (command === undefined || command === "help" || command === "--help" || command === "-h") console.log(USAGE);
else {
  const { printable } = await import("./base/printable.ts");
  console.error(
    `understudy: "${printable(command)}" is no command; there are serve, front, replay, load, check, kv-check, stress, proxy, truth, health, fault, timing, completion and man (understudy --help)`,
  );
  process.exitCode = 2;
}
