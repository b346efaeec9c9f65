/**
 * Tests a fresh checkout: the commands before the install and before the build, the build at the first start, and the end of
 * a server when its shell is killed.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { version } from "../../package.json";
import { eventually } from "../server.ts";

setDefaultTimeout(120_000);

const root = new URL("../../", import.meta.url).pathname;
/** A folder with a checkout without `build/`. */
const fresh = mkdtempSync(join(tmpdir(), "understudy-fresh-"));
beforeAll(() => {
  for (const name of [
    "assembly",
    "bin",
    "scripts",
    "src",
    "asconfig.json",
    "asconfig.trtllm.json",
    "package.json",
    "tsconfig.json",
  ])
    cpSync(root + name, join(fresh, name), { recursive: true });
  symlinkSync(`${root}node_modules`, join(fresh, "node_modules"));
  // The tests do not depend on the core's speed, so skip the optimizer.
  const config = readFileSync(join(fresh, "asconfig.json"), "utf8");
  const quick = config
    .replace('"optimizeLevel": 3', '"optimizeLevel": 0')
    .replace('"converge": true', '"converge": false');
  expect(quick).not.toBe(config);
  writeFileSync(join(fresh, "asconfig.json"), quick);
});
afterAll(() => rmSync(fresh, { recursive: true }));

async function run(command: readonly string[], cwd = fresh): Promise<[code: number, out: string, err: string]> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return [code, out, err];
}

test("before the install, the command prints one line with the install command", async () => {
  const bare = mkdtempSync(join(tmpdir(), "understudy-bare-"));
  for (const name of ["bin", "package.json"]) cpSync(root + name, join(bare, name), { recursive: true });
  const line = "understudy: its packages are not installed; cure: npx -y bun@1.4.5 install --frozen-lockfile\n";
  expect(await run(["node", "bin/understudy", "serve"], bare)).toEqual([1, "", line]);
  rmSync(bare, { recursive: true });
});

test("before the build, the command prints one line with the build command, and the first start announces the build once", async () => {
  const line =
    "understudy: not built yet; build it with: npx bun scripts/build.ts (or npx bun run start, which does)\n";
  for (const command of ["serve", "replay"]) {
    expect(await run(["node", "bin/understudy", command])).toEqual([1, "", line]);
  }
  // Copy the other files. Building them takes as long and prints nothing.
  cpSync(`${root}build`, join(fresh, "build"), { recursive: true });
  rmSync(join(fresh, "build/core.wasm"));
  const start = [process.execPath, "scripts/start.ts", "--help"];
  const [code, help, output] = await run(start);
  expect([code, output]).toEqual([0, "first start: building, which takes from 15 s to a minute\n"]);
  expect(await run(start)).toEqual([0, help, ""]);
  expect((await run(["node", "bin/understudy", "timing", "list"]))[0]).toBe(0);
});

test("help and version are commands", async () => {
  const main = [process.execPath, `${root}src/main.ts`];
  expect(await run([...main, "version"])).toEqual([0, `${version}\n`, ""]);
  expect(await run([...main, "help"])).toEqual(await run([...main, "--help"]));
  expect(await run([...main, "help", "load"])).toEqual(await run([...main, "load", "--help"]));
});

/** Without /proc the server can only watch its direct parent. */
const linux = process.platform === "linux";

/**
 * Runs the command in a shell, like npm. The shell exits at a signal and does not pass it on. Checks that the server exits,
 * too.
 */
async function endsWithItsShell(command: string, env: Record<string, string>): Promise<void> {
  const shell = Bun.spawn(["sh", "-c", `${command}; true`], {
    cwd: root,
    // A separate process group, so that the test can kill all processes if it fails.
    detached: true,
    stdout: "pipe",
    stderr: "ignore",
    env: { ...process.env, PATH: `${root}node_modules/.bin:${process.env.PATH}`, ...env },
  });
  let output = "";
  const decoder = new TextDecoder();
  const read = (async () => {
    for await (const piece of shell.stdout) output += decoder.decode(piece);
  })();
  try {
    await eventually(() => output.includes(" listening "));
    const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(output) ?? [];
    expect((await fetch(`${url}/health`)).status).toBe(200);
    shell.kill("SIGTERM");
    await shell.exited;
    // The output closes when the last process that holds it exits.
    const ended = await Promise.race([read.then(() => "ended"), Bun.sleep(10_000).then(() => "goes on")]);
    expect(ended).toBe("ended");
  } finally {
    try {
      process.kill(-shell.pid, "SIGKILL");
    } catch {
      // All processes have exited.
    }
  }
}

test.skipIf(!linux)(
  "the server of npx bun run start exits when its shell is killed",
  () => endsWithItsShell("bun run start --port 0 --timing none", { npm_command: "exec", npm_lifecycle_event: "npx" }),
  60_000,
);

test.skipIf(!linux)(
  "the server of npx understudy serve exits when its shell is killed",
  () => endsWithItsShell("node bin/understudy serve --port 0 --timing none", { npm_lifecycle_event: "npx" }),
  60_000,
);
