/** Which command is meant? Each has its file in `cli/`, loaded only when it runs. */
import { version } from "../package.json";

const LATER = ["load"];

const USAGE = `understudy ${version}: stands in for an LLM inference server

  understudy serve [MODEL] [options]   the server; understudy serve --help lists the options
  understudy replay TRACE [options]    a trace through the same engine in simulated time; understudy replay --help
  understudy check URL-or-FILE...      do anybody's metrics keep their laws? understudy check --help
  understudy --version                 the version`;

const [command, ...rest] = process.argv.slice(2);

if (command === "serve") await (await import("./cli/serve.ts")).run(rest);
else if (command === "replay") await (await import("./cli/replay.ts")).run(rest);
else if (command === "check") await (await import("./cli/check.ts")).run(rest);
else if (command === "--version" || command === "-V") console.log(version);
else if (command === undefined || command === "--help" || command === "-h") console.log(USAGE);
else {
  const why = LATER.includes(command) ? "is not in this version yet" : "is no command";
  console.error(`understudy: "${command}" ${why}; there are serve, replay and check (understudy --help)`);
  process.exitCode = 2;
}
