/**
 * Runs the whole of a test that has two sizes: `npx bun run test NAME --seed N`. Adds the command, seed, figures and commit to
 * test/results/NAME.jsonl, which keeps the last three lines per machine. `--sample` runs the sample instead, as a run of all
 * tests does. `--no-save` adds nothing to the file. `--without-TOOL` leaves out tests that need that tool. The last line is "N
 * passed, N failed".
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { provenance } from "../bench/lib/bench.ts";
import { addLine } from "../bench/lib/kept-lines.ts";
import { filesOf, root, run, testFiles } from "./test-lanes.ts";
import { SIZED } from "./test-sizes.ts";

const SWITCHES = ["--sample", "--no-save"];

function refuse(why: string): never {
  console.error(why);
  process.exit(2);
}

/**
 * Runs the whole of the test `name`. Returns the exit code for this process. `words`: the command-line arguments after the
 * name.
 */
export async function runWhole(name: string, words: readonly string[]): Promise<number> {
  const sized = SIZED[name]!;
  const leaveOut = (sized.tools ?? []).map((tool) => `--without-${tool}`);
  const allSwitches = [...SWITCHES, ...leaveOut];
  const switches = allSwitches.filter((name) => words.includes(name));
  const optionWords = words.filter((word) => !switches.includes(word));
  const names = ["seed", ...sized.options];
  const numbers: Record<string, number> = { seed: 1 };
  for (let at = 0; at < optionWords.length; at += 2) {
    const [option, value = ""] = [optionWords[at]!.replace(/^--/, ""), optionWords[at + 1]];
    const accepted = [...names.map((name) => `--${name} N`), ...allSwitches].join(", ");
    if (!names.includes(option) || !/^\d+$/.test(value))
      refuse(`test ${name}: ${optionWords[at]} ${value}: ${accepted} are accepted, N a whole number`);
    numbers[option] = Number(value);
  }

  const isSample = switches.includes("--sample");
  const missing = Object.keys(sized.packages ?? {}).filter(
    (tool) => !isSample && !switches.includes(`--without-${tool}`) && Bun.which(tool) === null,
  );
  if (missing.length > 0) {
    for (const tool of missing) {
      const install = `install it (on Debian: apt-get install ${sized.packages![tool]})`;
      console.log(`${tool} is missing; ${install}, or leave it out with --without-${tool}`);
    }
    console.log(`0 passed, ${missing.length} failed`);
    return 1;
  }
  const figuresFile = `${root}build/figures-${name}-${process.pid}.jsonl`;
  const env: Record<string, string> = isSample ? {} : { TEST_WHOLE: name, TEST_FIGURES: figuresFile };
  const leftOut = switches.filter((name) => leaveOut.includes(name));
  if (leftOut.length > 0) env.TEST_WITHOUT = leftOut.map((name) => name.replace("--without-", "")).join();
  for (const [option, value] of Object.entries(numbers)) env[`TEST_${option.toUpperCase()}`] = String(value);

  const built = await run([process.execPath, "scripts/build.ts", "--library"]);
  if (!built.ok) {
    console.log(`${built.output}\n0 passed, 1 failed`);
    return 1;
  }
  const { passed, failed, wallS, cpuS, output } = await testFiles(filesOf(sized.paths), env);
  if (failed === 0) console.log(output);
  console.log(`${wallS.toFixed(1)} s, ${cpuS.toFixed(1)} s of CPU`);
  if (!isSample && !switches.includes("--no-save")) {
    const pairs = existsSync(figuresFile) ? readFileSync(figuresFile, "utf8").trimEnd().split("\n") : [];
    const figures = Object.fromEntries(pairs.map((line) => JSON.parse(line) as [string, unknown]));
    const command = ["npx bun run test", name, ...words].join(" ");
    const line = {
      test: name,
      command,
      ...numbers,
      ...provenance(),
      passed,
      failed,
      seconds: wallS,
      cpuSeconds: cpuS,
      figures,
    };
    addLine(`${root}test/results/${name}.jsonl`, JSON.stringify(line));
  }
  rmSync(figuresFile, { force: true });
  console.log(`${passed} passed, ${failed} failed`);
  return failed > 0 ? 1 : 0;
}
