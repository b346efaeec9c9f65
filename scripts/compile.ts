/**
 * Makes a single file with every command and every server, which needs neither Node nor Bun: `npx bun run compile -- --target
 * NAME` writes `build/bin/understudy-NAME`. The targets are in bun-runtimes.ts; the default is this platform. `--out FOLDER`
 * writes into another folder. `--runtime FILE` names Bun's program for the target, which is downloaded otherwise.
 *
 * The file gets its final name only when it is complete. NOTICE, with the licences of all its parts, is written next to it.
 */
import { chmodSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { BUN_VERSION, CompileError, checkRuntime, checkWhole, runtimeOf, TARGETS } from "./bun-runtimes.ts";
import { bundled, executable } from "./bundles.ts";
import { putInterpreterLast } from "./executable-size.ts";
import { writeNotice } from "./packed-notice.ts";

const root = new URL("../", import.meta.url).pathname;
const OPTIONS = { target: { type: "string" }, out: { type: "string" }, runtime: { type: "string" } } as const;

function commandLine() {
  const fallback = `${process.platform}-${process.arch}`;
  try {
    const { values } = parseArgs({ options: OPTIONS });
    const { target = fallback, out = `${root}build/bin`, runtime } = values;
    if (!Object.hasOwn(TARGETS, target))
      throw new Error(`--target ${target}: must be ${Object.keys(TARGETS).join(" or ")}`);
    return { target, out: resolve(out), runtime };
  } catch (error) {
    throw new CompileError((error as Error).message);
  }
}

async function compile(): Promise<void> {
  const { target, out, runtime } = commandLine();
  if (Bun.version !== BUN_VERSION)
    throw new CompileError(`needs Bun ${BUN_VERSION}, not ${Bun.version}; start it with: npx bun run compile`);
  const program = runtime ?? (await runtimeOf(target));
  checkRuntime(target, program);
  const file = `${out}/understudy-${target}`;
  // Bun embeds the name of the file. So the name is the same in each run, and only the folder differs.
  const folder = `${file}.${process.pid}`;
  const partial = `${folder}/understudy`;
  try {
    mkdirSync(folder, { recursive: true });
    await executable("src/main.ts", { target: TARGETS[target]!.compile, runtime: program, outfile: partial });
    if (TARGETS[target]!.platform === "linux") putInterpreterLast(partial);
    checkWhole(partial);
    chmodSync(partial, 0o755);
    writeNotice(folder, "understudy", { bundled: [...bundled], hasVocabulary: true, hasRuntime: true });
    renameSync(`${folder}/NOTICE`, `${out}/NOTICE`);
    renameSync(partial, file);
  } catch (error) {
    throw error instanceof CompileError ? error : new CompileError(`cannot write ${file}: ${reasonOf(error)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(`${file}: ${statSync(file).size} bytes`);
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join("; ");
  const { code, message = String(error) } = error as { code?: string; message?: string };
  // Errors of Bun's builder have no `code`. Their message contains the system's error code, such as ENOSPC.
  return code ?? /\bE[A-Z]{3,}\b/.exec(message)?.[0] ?? message.split("\n")[0]!;
}

try {
  await compile();
} catch (error) {
  const isOfSystem = (error as { code?: string }).code !== undefined;
  if (!(error instanceof CompileError || isOfSystem)) throw error;
  console.error(`compile: ${(error as Error).message}`);
  process.exitCode = 1;
}
