/** A start loads what the first requests need, and the rest when nothing runs. Modules and threads are counted, not time. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../server.ts";

setDefaultTimeout(60_000);

const root = new URL("../../../", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-start-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Prints what the process loads: modules of ours and of packages, modules of Node by name, threads. */
const RECORDER = `
import { readFileSync, writeSync } from "node:fs";
import { plugin } from "bun";
const say = (what) => writeSync(3, what + "\\n");
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
      // Modules of CommonJS would lose their exports here: none is in the filter.
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

/** Starts a server as the command does, asks for the first token, and only then lets the server work in idle time. */
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

/** Resolves with what was loaded up to the first token, and after it until `isDone`. */
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

const isLibrary = (one: string) => /^module .*\/node_modules\//.test(one);
const NODE = ["http", "https", "crypto", "zlib", "stream", "console", "tty", "child_process", "util"];
const isOfNode = (one: string) => NODE.some((name) => one === `node:${name}`);
/** Sources of a vLLM server: 405. Rare features must not come back into its start. */
const MODULES_MOST = 430;

test.each([
  ["vllm", "metrics/worker.ts"],
  ["trtllm-serve", null],
])("%s loads what the first token needs, and the rest when nothing runs", async (role, thread) => {
  const has = (after: readonly string[], part: string) => after.some((one) => one.includes(part));
  const { before, after } = await loadedBy(
    ["--role", role],
    (later) => has(later, "/elysia/") && has(later, thread ?? ""),
  );
  expect(before.filter(isLibrary)).toEqual([]);
  expect(before.filter(isOfNode)).toEqual([]);
  expect(before.filter((one) => one.startsWith("module ")).length).toBeLessThan(MODULES_MOST);
  expect(before.filter((one) => one.startsWith("thread ") && !/clock-worker|encoder-worker/.test(one))).toEqual([]);
  expect(has(after, "metrics/worker.ts")).toBe(thread !== null);
});
