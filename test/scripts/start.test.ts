/** What does somebody meet who has just checked it out: before the build, at the build, and when they end what they started? */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { version } from "../../package.json";
import { eventually } from "../server.ts";

setDefaultTimeout(120_000);

const root = new URL("../../", import.meta.url).pathname;
/** A checkout without `build/`. */
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
  // What the optimizer makes of a core is not looked at here.
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

test("before the packages are installed: one line with the command", async () => {
  const bare = mkdtempSync(join(tmpdir(), "understudy-bare-"));
  for (const name of ["bin", "package.json"]) cpSync(root + name, join(bare, name), { recursive: true });
  const line = "understudy: its packages are not installed; cure: npx -y bun@1.4.5 install --frozen-lockfile\n";
  expect(await run(["node", "bin/understudy", "serve"], bare)).toEqual([1, "", line]);
  rmSync(bare, { recursive: true });
});

test("before the build: one line with the command; the first start says that it builds, once", async () => {
  const line =
    "understudy: not built yet; build it with: npx bun scripts/build.ts (or npx bun run start, which does)\n";
  for (const command of ["serve", "replay"]) {
    expect(await run(["node", "bin/understudy", command])).toEqual([1, "", line]);
  }
  // The other files take as long, and say nothing: they are copied.
  cpSync(`${root}build`, join(fresh, "build"), { recursive: true });
  rmSync(join(fresh, "build/core.wasm"));
  const start = [process.execPath, "scripts/start.ts", "--help"];
  const [code, help, said] = await run(start);
  expect([code, said]).toEqual([0, "first start: building, which takes from 15 s to a minute\n"]);
  expect(await run(start)).toEqual([0, help, ""]);
  expect((await run(["node", "bin/understudy", "timing", "list"]))[0]).toBe(0);
});

test("help and version are commands", async () => {
  const main = [process.execPath, `${root}src/main.ts`];
  expect(await run([...main, "version"])).toEqual([0, `${version}\n`, ""]);
  expect(await run([...main, "help"])).toEqual(await run([...main, "--help"]));
  expect(await run([...main, "help", "load"])).toEqual(await run([...main, "load", "--help"]));
});

/** Without /proc only the parent itself is seen. */
const linux = process.platform === "linux";

/** As npm does it: a shell in between, which ends with a signal and passes it on to nobody. */
async function endsWithItsShell(command: string, env: Record<string, string>): Promise<void> {
  const shell = Bun.spawn(["sh", "-c", `${command}; true`], {
    cwd: root,
    // A process group of its own, so that nothing stays where the test fails.
    detached: true,
    stdout: "pipe",
    stderr: "ignore",
    env: { ...process.env, PATH: `${root}node_modules/.bin:${process.env.PATH}`, ...env },
  });
  let said = "";
  const decoder = new TextDecoder();
  const read = (async () => {
    for await (const piece of shell.stdout) said += decoder.decode(piece);
  })();
  try {
    await eventually(() => said.includes(" listening "));
    const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(said) ?? [];
    expect((await fetch(`${url}/health`)).status).toBe(200);
    shell.kill("SIGTERM");
    await shell.exited;
    // The output ends with the last process that holds it.
    const ended = await Promise.race([read.then(() => "ended"), Bun.sleep(10_000).then(() => "goes on")]);
    expect(ended).toBe("ended");
  } finally {
    try {
      process.kill(-shell.pid, "SIGKILL");
    } catch {
      // All have ended.
    }
  }
}

test.skipIf(!linux)("npx bun run start, and its shell is killed: the server ends", () =>
  endsWithItsShell("bun run start --port 0 --timing none", { npm_command: "exec", npm_lifecycle_event: "npx" }),
);

test.skipIf(!linux)("npx understudy serve, and its shell is killed: the server ends", () =>
  endsWithItsShell("node bin/understudy serve --port 0 --timing none", { npm_lifecycle_event: "npx" }),
);
