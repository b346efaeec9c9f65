/**
 * Makes the files of a release: `npx bun run release VERSION [--dry-run] [--repository URL] [--out FOLDER]`. Publishes nothing,
 * and prints the commands that do. The default of FOLDER is `build/release/VERSION`.
 *
 * All files are built from a copy of the commit, with packages that are installed for it. So neither results of earlier builds
 * nor ignored files can be in a release, and the same commit always gives the same bytes. `--dry-run` does the same without
 * `--repository`, which otherwise must confirm the address in package.json.
 */
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { BUN_VERSION, CompileError, packagedRuntime, TARGETS } from "./bun-runtimes.ts";
import { PARTS, type PackedPart } from "./packed-notice.ts";
import { archiveOf, compressedAgain } from "./release/archive.ts";
import {
  checkRelease,
  codeOf,
  makeFolder,
  ReleaseError,
  type ReleaseFacts,
  type ReleaseRequest,
} from "./release/checks.ts";
import { provenanceOf } from "./release/provenance.ts";
import { publishCommands } from "./release/publish.ts";
import { purl, sbomOf } from "./release/sbom.ts";
import { CHART } from "./release/versions.ts";

const root = new URL("../", import.meta.url).pathname;
/** Shells whose completion scripts are in a release. */
const SHELLS = ["bash", "zsh", "fish"];
const REFUSED = 2;
const INTERRUPTED = 130;

function commandLine(): ReleaseRequest {
  const options = { "dry-run": { type: "boolean" }, repository: { type: "string" }, out: { type: "string" } } as const;
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    if (positionals.length !== 1) throw new Error("needs one VERSION, such as 0.2.0");
    const { "dry-run": isDry = false, repository = null, out = null } = values;
    return { version: positionals[0]!, isDry, repository, out: out === null ? null : resolve(out) };
  } catch (error) {
    throw new ReleaseError((error as Error).message.split("\n")[0]!);
  }
}

/** The environment without variables that change how the tools of the build work. */
const ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|bun_|node_|git_|understudy_|test_)/i.test(name)),
);
/** Matches the error that a program prints if the system does not let it write. */
const UNWRITABLE = /\b(ENOSPC|EROFS|EDQUOT|EACCES|EPERM)\b|No space left on device|Read-only file system/;

/** A failure of a program that the build runs. The message has the output of the program. */
class FailedStep extends Error {}

/** Runs a part of the build. Throws a `ReleaseError` if the system does not let it write, and a `FailedStep` otherwise. */
async function step(name: string, words: readonly string[], cwd: string): Promise<string> {
  console.error(`release: ${name}`);
  const child = Bun.spawn([...words], { cwd, env: ENV, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code === 0) return out;
  const [unwritable] = UNWRITABLE.exec(complaint + out) ?? [];
  if (unwritable !== undefined) throw new ReleaseError(`cannot write ${cwd}: ${unwritable} (${name})`);
  throw new FailedStep(`${out}${complaint}release: ${name} failed`);
}

/**
 * Builds all files from the commit, into `folder`. Returns the SHA-256 of each input that is not part of the commit, by name.
 */
async function build({ commit, commitS }: ReleaseFacts, version: string, folder: string): Promise<Map<string, string>> {
  const source = join(folder, "source");
  mkdirSync(source);
  const archive = join(folder, "source.tar");
  await step("copying the commit", ["git", "archive", "--output", archive, commit], root);
  await step("copying the commit", ["tar", "-xf", archive, "-C", source], source);
  const bun = process.execPath;
  await step("installing packages", [bun, "install", "--frozen-lockfile", "--ignore-scripts"], source);
  await step("packing both packages", [bun, "scripts/pack.ts", folder], source);
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".tgz")))
    writeFileSync(join(folder, name), compressedAgain(readFileSync(join(folder, name))));
  const inputs = new Map([["bun.lock", sha256(join(source, "bun.lock"))]]);
  for (const target of Object.keys(TARGETS)) {
    const runtime = await packagedRuntime(target);
    inputs.set(purl(TARGETS[target]!.package, BUN_VERSION), sha256(runtime));
    const words = ["scripts/compile.ts", "--target", target, "--runtime", runtime, "--out", folder];
    await step(`compiling for ${target}`, [bun, ...words], source);
  }
  copyFileSync(join(source, "LICENSE"), join(folder, "LICENSE"));
  copyFileSync(join(source, "docs/understudy.1"), join(folder, "understudy.1"));
  for (const shell of SHELLS)
    writeFileSync(
      join(folder, `understudy.${shell}`),
      await step(`printing the completion of ${shell}`, [bun, "src/main.ts", "completion", shell], source),
    );
  packChart(source, `${folder}/understudy-${version}.tgz`, commitS);
  return inputs;
}

/** Packs the chart as Helm does: all files in a folder with the chart's name. */
function packChart(source: string, to: string, timeS: number): void {
  const chart = join(source, CHART);
  const paths = [...new Bun.Glob("**").scanSync({ cwd: chart, dot: true })];
  const entries = paths.map((path) => ({ path: `understudy/${path}`, bytes: readFileSync(join(chart, path)) }));
  writeFileSync(to, archiveOf(entries, timeS));
}

const sha256 = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");
const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** Writes the notes, the SBOM, the provenance and the checksums next to the built files. */
function describe(facts: ReleaseFacts, version: string, folder: string, inputs: ReadonlyMap<string, string>): void {
  const { commit, commitS, repository, notes } = facts;
  const source = join(folder, "source");
  const lists = readdirSync(join(source, PARTS)).sort();
  const parts: Record<string, PackedPart[]> = Object.fromEntries(
    lists.map((name) => [name.replace(".json", ""), JSON.parse(readFileSync(join(source, PARTS, name), "utf8"))]),
  );
  const lock = readFileSync(join(source, "bun.lock"), "utf8");
  // The notes are copied from the changelog, whose links are relative paths. A release page needs whole addresses.
  const linked = notes.replace(/\]\((?!https?:)/g, `](${repository}/blob/v${version}/`);
  writeFileSync(join(folder, "NOTES.md"), `${linked}\n`);
  writeFileSync(
    join(folder, `understudy-${version}.cdx.json`),
    jsonText(sbomOf({ version, commit, commitS, repository, parts, lock })),
  );
  rmSync(source, { recursive: true });
  rmSync(join(folder, "source.tar"));
  const files = new Map(
    readdirSync(folder)
      .sort()
      .map((name) => [name, sha256(join(folder, name))] as const),
  );
  const [npm] = /\d[\w.-]*/.exec(Bun.spawnSync(["npm", "--version"]).stdout.toString()) ?? ["unknown"];
  const tools = { bun: Bun.version, npm };
  const name = `understudy-${version}.provenance.json`;
  writeFileSync(join(folder, name), jsonText(provenanceOf({ version, commit, repository, files, inputs, tools })));
  const sums = [...files, [name, sha256(join(folder, name))] as const].sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(join(folder, "SHA256SUMS"), sums.map(([file, sum]) => `${sum}  ${file}\n`).join(""));
}

async function release(): Promise<void> {
  const request = commandLine();
  const { version, out } = request;
  if (Bun.version !== BUN_VERSION)
    throw new ReleaseError(`needs Bun ${BUN_VERSION}, not ${Bun.version}; start it with: npx bun run release`);
  const facts = checkRelease(root, request);
  const folder = out ?? `${root}build/release/${version}`;
  // Archives contain the rights of files, which must not depend on the user's settings.
  process.umask(0o022);
  const partial = makeFolder(folder, out === null);
  process.once("SIGINT", () => {
    rmSync(partial, { recursive: true, force: true });
    process.exit(INTERRUPTED);
  });
  try {
    const inputs = await build(facts, version, partial);
    describe(facts, version, partial, inputs);
    rmSync(folder, { recursive: true, force: true });
    renameSync(partial, folder);
  } catch (error) {
    if (error instanceof CompileError) throw new ReleaseError(error.message);
    throw UNWRITABLE.test(codeOf(error)) ? new ReleaseError(`cannot write ${folder}: ${codeOf(error)}`) : error;
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  console.log(readFileSync(join(folder, "SHA256SUMS"), "utf8").trimEnd());
  console.log(`\n${folder} has the files of ${version}, from commit ${facts.commit}. Nothing was published.`);
  if (request.repository === null)
    console.log(`The repository ${facts.repository} is a guess until --repository confirms it.`);
  console.log("\nTo publish:");
  const files = readdirSync(folder).sort();
  const hasImage = existsSync(`${root}Dockerfile`);
  const { commit, repository } = facts;
  for (const line of publishCommands({ version, commit, repository, folder, files, hasImage }))
    console.log(`  ${line}`);
}

try {
  await release();
} catch (error) {
  if (!(error instanceof ReleaseError || error instanceof FailedStep)) throw error;
  console.error(error instanceof FailedStep ? error.message : `release: ${error.message}`);
  process.exitCode = error instanceof FailedStep ? 1 : REFUSED;
}
