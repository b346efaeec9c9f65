/**
 * Tests that a start only loads the modules and threads that the first requests need, and loads the others while the server is
 * idle. The test counts modules and threads, not time.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../server.ts";

setDefaultTimeout(60_000);

const root = new URL("../../../", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-start-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Preloaded program that records all loaded modules of ours and of packages, modules of Node by name, and threads. */
const RECORDER = `
import { readFileSync, writeSync } from "node:fs";
import { plugin } from "bun";
const say = (line) => writeSync(3, line + "\\n");
globalThis.say = say;
plugin({
  name: "recorder",
  setup(build) {
    build.onLoad({ filter: /\\/src\\/.*\\.ts$|\\/elysia\\/dist\\/.*\\.mjs$|\\/re2js\\/build\\/.*\\.js$/ }, ({ path }) => {
      say("module " + path);
      const loader = path.endsWith(".ts") ? "ts" : "js";
      const contents = readFileSync(path, "utf8");
      for (const { path: name } of new Bun.Transpiler({ loader }).scanImports(contents))
        if (name.startsWith("node:")) say(name);
      // CommonJS modules would lose their exports here, so the filter matches none.
      return { contents, loader };
    });
  },
});
const { getBuiltinModule } = process;
process.getBuiltinModule = (name) => (say(name), getBuiltinModule(name));
const { Worker } = globalThis;
globalThis.Worker = class extends Worker {
  constructor(url, options) {
    say("thread " + url);
    super(url, options);
  }
};`;

/** Program that starts a server like the command, requests a first answer, and only then allows work in idle time. */
const PROGRAM = `
import { takeOverOutput } from "${root}src/base/output.ts";
import { resolveServeConfig } from "${root}src/cli/serve/resolve.ts";
import { start } from "${root}src/cli/serve/serve.ts";
takeOverOutput("test");
const { config } = resolveServeConfig(process.argv.slice(2), {}, () => "");
const { app } = await start(config);
console.log("listening");
const ask = async (path, init) => (await fetch(app.url + path, init)).text();
await ask("/health");
await ask("/v1/models");
const body = JSON.stringify({ model: config.models.servedModelNames[0], prompt: "Say it.", max_tokens: 8, stream: true });
const events = await ask("/v1/completions", { method: "POST", headers: { "content-type": "application/json" }, body });
say(events.includes("[DONE]") ? "idle" : "no answer: " + events);
app.workWhenIdle();
await Bun.stdin.text();
await app.close(0);
process.exit(0);`;

writeFileSync(join(folder, "recorder.ts"), RECORDER);
writeFileSync(join(folder, "program.ts"), PROGRAM);

/** Returns the modules and threads that were loaded up to the first answer, and afterwards until `isDone`. */
async function loadedBy(flags: readonly string[], isDone: (after: readonly string[]) => boolean) {
  const record = join(folder, `record-${flags.at(-1)}.txt`);
  const command = [process.execPath, "--preload", join(folder, "recorder.ts"), join(folder, "program.ts")];
  const child = Bun.spawn([...command, "--port", "0", "--timing", "none", ...flags], {
    stdio: ["pipe", "ignore", "inherit", Bun.file(record)],
  });
  const parts = () => {
    const lines = readFileSync(record, "utf8").trim().split("\n");
    const at = lines.indexOf("idle");
    return at < 0 ? null : { before: lines.slice(0, at), after: lines.slice(at + 1) };
  };
  try {
    await eventually(() => child.exitCode !== null || isDone(parts()?.after ?? []), 2000);
    return parts()!;
  } finally {
    child.stdin.end();
    await child.exited;
  }
}

const isLibrary = (line: string) => /^module .*\/node_modules\//.test(line);
const NODE = ["http", "https", "crypto", "zlib", "stream", "console", "tty", "child_process", "util"];
const isOfNode = (line: string) => NODE.some((name) => line === `node:${name}`);
/** Limit of the modules that a start loads. A vLLM server loads 405. Rare features must not be loaded at the start. */
const MODULES_MOST = 430;

test.each([
  ["vllm", "metrics/worker.ts"],
  ["trtllm-serve", null],
])("%s loads only modules that the first token needs, and the others while idle", async (role, thread) => {
  const has = (after: readonly string[], part: string) => after.some((line) => line.includes(part));
  const { before, after } = await loadedBy(
    ["--role", role],
    (later) => has(later, "/elysia/") && has(later, thread ?? ""),
  );
  expect(before.filter(isLibrary)).toEqual([]);
  expect(before.filter(isOfNode)).toEqual([]);
  expect(before.filter((line) => line.startsWith("module ")).length).toBeLessThan(MODULES_MOST);
  expect(before.filter((line) => line.startsWith("thread ") && !/clock-worker|encoder-worker/.test(line))).toEqual([]);
  expect(has(after, "metrics/worker.ts")).toBe(thread !== null);
});
