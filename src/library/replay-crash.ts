/**
 * `node replay-crash.js FILE`: does a crash repeat, and where in the core? `understudy replay --crash FILE` in Node, whose
 * stacks name the core's functions; Bun's do not. Exit codes: 70 it broke again, 0 it did not, 2 no such file.
 */
import { readFileSync } from "node:fs";
import { readCrash, repeatCrash } from "../cli/serve/crash.ts";
import { loadAnswers } from "../content/answers.ts";
import { packageFile } from "./package-files.ts";

const [path] = process.argv.slice(2);
const crash = path === undefined ? { wrong: "which file? node replay-crash.js FILE" } : readCrash(path);
if ("wrong" in crash) {
  console.error(crash.wrong);
  process.exitCode = 2;
} else {
  const module = new WebAssembly.Module(readFileSync(packageFile("build/core.debug.wasm")));
  const answers = loadAnswers(readFileSync(packageFile("build/answers.bin")));
  const { version } = JSON.parse(readFileSync(packageFile("package.json"), "utf8"));
  const { lines, trapped } = repeatCrash(crash, version, module, answers);
  console.log(lines.join("\n"));
  process.exitCode = trapped ? 70 : 0;
}
