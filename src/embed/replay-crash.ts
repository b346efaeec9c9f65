/**
 * `node replay-crash.cjs FILE`: runs `understudy replay --crash FILE` in Node. Unlike Bun's, its stack traces name the functions
 * of the core. Exit codes: 70 the core trapped again, 0 it did not, 2 the file cannot be read.
 */
import { readFileSync } from "node:fs";
import { version } from "../../package.json";
import { readCrash, repeatCrash } from "../cli/serve/crash.ts";
import { coreName } from "../engine/trtllm-setup.ts";
import { loadAnswers } from "../text/answers/answers.ts";

const [path] = process.argv.slice(2);
const crash = path === undefined ? { wrong: "which file? node replay-crash.cjs FILE" } : readCrash(path);
if ("wrong" in crash) {
  console.error(crash.wrong);
  process.exitCode = 2;
} else {
  const core = new URL(`../../build/${coreName(crash.engine)}.debug.wasm`, import.meta.url);
  const module = new WebAssembly.Module(readFileSync(core));
  const answers = loadAnswers(readFileSync(new URL("../../build/answers.bin", import.meta.url)));
  const { lines, trapped } = repeatCrash(crash, version, module, answers);
  console.log(lines.join("\n"));
  process.exitCode = trapped ? 70 : 0;
}
