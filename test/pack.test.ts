/**
 * Tests the packed tarballs, installed in an empty folder outside the repository with only Node and npm. The folder's name has
 * a space, which URLs encode.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { done, PLAIN, packed, run } from "./packed.ts";
// @ts-expect-error a program without types
import { bareNames, complaints } from "./published-types.js";
import { sampled } from "./size.ts";

const root = new URL("../", import.meta.url).pathname;
const packages = await packed();
const folder = mkdtempSync(join(tmpdir(), "understudy pack-"));
const env = PLAIN;
const files = (name: string) => [
  ...new Bun.Glob("**").scanSync({ cwd: join(folder, "node_modules", name), dot: true }),
];

beforeAll(async () => {
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  const install = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--omit=dev"];
  const judges = [
    "ts50@npm:typescript@5.0.4",
    "ts59@npm:typescript@5.9.3",
    "publint@0.3.25",
    "@arethetypeswrong/core@0.18.5",
  ];
  await done([...install, packages.server, packages.engine, "fast-check@4.10.2", ...judges], folder);
}, 300_000);

afterAll(() => {
  packages.remove();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Runs the command until it exits; `code` is its exit code. Servers are started through npx below, which takes as long as all
 * other tests of this file.
 */
const understudy = (...args: string[]) => run(["node_modules/.bin/understudy", ...args], folder);

function collect(stream: NodeJS.ReadableStream): () => string {
  let text = "";
  stream.on("data", (chunk) => {
    text += chunk;
  });
  return () => text;
}

/**
 * Starts a server through npx. npx, Node and Bun are one process group, so that a signal reaches all of them, like Ctrl-C.
 */
function serve(...args: string[]): { child: ChildProcess; url: Promise<string> } {
  const child = spawn("npx", ["understudy", "serve", ...args], {
    cwd: folder,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, err] = [collect(child.stdout!), collect(child.stderr!)];
  const url = new Promise<string>((resolve, reject) => {
    const look = () => {
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(out() + err());
      if (address) resolve(address[0]);
    };
    child.stdout!.on("data", look);
    child.stderr!.on("data", look);
    child.on("close", (code) => reject(new Error(`ended with ${code}: ${out()}${err()}`)));
  });
  return { child, url };
}

test("the tarballs contain only the files that are needed at run time", () => {
  const [server, engine] = [files("llm-understudy"), files("llm-understudy-engine")];
  for (const path of [
    "bin/understudy",
    "server/main.js",
    "build/core.wasm",
    "build/vocabulary.bin",
    "build/report.js",
    "dist/index.js",
    "dist/index.cjs",
    "dist/testing.js",
    "dist/replay-crash.cjs",
    "types/src/embed/index.d.ts",
    "types/src/embed/index.d.cts",
    "docs/understudy.1",
    "LICENSE",
    "NOTICE",
  ])
    expect(server).toContain(path);
  expect(engine).toContain("build/core.wasm");
  const strangers = [...server, ...engine].filter(
    (path) => !/^(bin|build|dist|docs|server|testing|types|vitest)\/|^[A-Z]+(\.md)?$|^package\.json$/.test(path),
  );
  expect(strangers).toEqual([]);
  const sources = server.filter((path) => /^server\/.*\.ts$/.test(path) && !path.startsWith("server/triton-shipped/"));
  expect(sources).toEqual([]);
  // Four tenths of it are bytecode of the server, which halves the time of a start.
  expect(statSync(packages.server).size).toBeLessThan(9_000_000);
  const bytes = engine.map((path) => statSync(join(folder, "node_modules/llm-understudy-engine", path)).size);
  // The engine's options include the whole option table of `serve`, twice (ESM and CommonJS), so each parser name of vLLM
  // counts four times.
  expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(525_000);
});

test.each(["llm-understudy", "llm-understudy-engine"])(
  "%s: the manifest has repository, license and engines, and relative links in its Markdown files exist",
  (name) => {
    const at = (path: string) => join(folder, "node_modules", name, path);
    const manifest = JSON.parse(readFileSync(at("package.json"), "utf8"));
    for (const key of ["repository", "homepage", "bugs", "keywords", "license", "engines"])
      expect(manifest[key]).toBeDefined();
    expect(manifest).toMatchObject({ name, sideEffects: false });
    expect(manifest.dependencies).toBeUndefined();
    const lost = files(name)
      .filter((path) => path.endsWith(".md"))
      .flatMap((path) =>
        [...readFileSync(at(path), "utf8").matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
          .filter(([, file]) => !existsSync(new URL(file!, `file://${at(path)}`)))
          .map(([link]) => `${path}: ${link}`),
      );
    expect(lost).toEqual([]);
  },
);

test("the package contains each file that a bundle loads by path: threads, programs, cores, models", () => {
  const at = (path: string) => join(folder, "node_modules/llm-understudy", path);
  const loads = files("llm-understudy")
    .filter((path) => /^(server|dist)\/.*\.c?js$/.test(path))
    .flatMap((path) =>
      [...readFileSync(at(path), "utf8").matchAll(/new URL\("(\.[^"]+)",\s*(?:import\.meta\.url|HERE)\)/g)].map(
        ([, to]) => [path, to!] as const,
      ),
    );
  expect(loads.length).toBeGreaterThan(10);
  expect(loads.filter(([path, to]) => !existsSync(new URL(to, `file://${at(path)}`)))).toEqual([]);
});

test("NOTICE names each bundled project with its license terms", () => {
  const notice = readFileSync(join(folder, "node_modules/llm-understudy/NOTICE"), "utf8");
  for (const name of [
    "elysia",
    "@sinclair/typebox",
    "undici",
    "prom-client",
    "re2js",
    "yaml",
    "gpt-tokenizer",
    "tiktoken",
    "uplot",
  ])
    expect(notice).toMatch(new RegExp(`^${name}[ :]`, "m"));
  expect(notice).toContain("Copyright (c) 2022 OpenAI, Shantanu Jain");
  expect(notice).toStartWith(readFileSync(join(root, "NOTICE"), "utf8"));
});

test("a printed command starts the program of the project", async () => {
  const { out } = await run(["npx", "understudy", "timing", "list"], folder);
  expect(out).toContain("To plot a preset: npx understudy timing show PRESET");
});

test("npx understudy serve answers, and exits on SIGTERM", async () => {
  const { child, url } = serve("--port", "0", "--timing", "none", "packed/model");
  const ended = new Promise((resolve) => child.on("close", resolve));
  try {
    const base = await url;
    expect((await fetch(`${base}/health`)).status).toBe(200);
    const models = (await (await fetch(`${base}/v1/models`)).json()) as { data: { id: string }[] };
    expect(models.data.map(({ id }) => id)).toEqual(["packed/model"]);
    const answer = await fetch(`${base}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "packed/model", prompt: "Hello", max_tokens: 5, ignore_eos: true }),
    });
    expect(await answer.json()).toMatchObject({ usage: { completion_tokens: 5 } });
  } finally {
    if (child.exitCode === null) process.kill(-child.pid!, "SIGTERM");
    await ended;
  }
}, 30_000);

test("several workers start and stop through npx", async () => {
  const { child, url } = serve("--port", "0", "--timing", "none", "--workers", "2", "packed/model");
  const ended = new Promise((resolve) => child.on("close", resolve));
  try {
    const page = await (await fetch(`${await url}/metrics`)).text();
    expect(page.match(/^vllm:num_requests_running\{/gm)).toHaveLength(2);
  } finally {
    if (child.exitCode === null) process.kill(-child.pid!, "SIGTERM");
    await ended;
  }
}, 30_000);

test("Triton's server loads the models of the package", async () => {
  const ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"];
  const { child, url } = serve("--role", "triton", ...ports);
  const ended = new Promise((resolve) => child.on("close", resolve));
  try {
    expect((await fetch(`${await url}/v2/models/add_sub/ready`)).status).toBe(200);
  } finally {
    if (child.exitCode === null) process.kill(-child.pid!, "SIGTERM");
    await ended;
  }
}, 30_000);

test("--version prints the version, and load without a server exits with code 2", async () => {
  const { version } = JSON.parse(readFileSync(`${root}package.json`, "utf8"));
  expect(await understudy("--version")).toMatchObject({ code: 0, out: `${version}\n` });
  const load = await understudy("load", "--url", "http://127.0.0.1:1");
  expect(load.code).toBe(2);
  expect(load.err).toContain("cannot reach http://127.0.0.1:1/v1/models: ");
}, 30_000);

test("replay --html writes a report with the script from the package", async () => {
  const format = "synthetic:isl=10,osl=3,concurrency=1,requests=2";
  expect(await understudy("replay", format, "--html", "report.html")).toMatchObject({ code: 0 });
  const page = readFileSync(join(folder, "report.html"), "utf8");
  expect(page).toContain("uPlot");
  expect(page).toContain('data-plot="waterfall"');
}, 30_000);

test("the tests of the engine pass on its package", async () => {
  const TEST_ENGINE = join(folder, "node_modules/llm-understudy-engine/dist/index.js");
  const { code, err } = await run([process.execPath, "test", "test/embed/engine.test.ts"], root, {
    TEST_ENGINE,
  });
  expect({ code, failed: /\d+ fail/.exec(err)?.[0] }).toEqual({ code: 0, failed: "0 fail" });
}, 60_000);

test("Node can import the library, run an engine and start a server in a child process", () => {
  const program = `
    import { createEngine, createServer } from "llm-understudy";
    const engine = await createEngine({ timing: "none" });
    const run = engine.submit({ promptTokens: 10, maxTokens: 3, ignoreEos: true });
    while (engine.step());
    const server = await createServer().ready;
    const { status } = await fetch(server.url + "/health");
    await server.close();
    console.log(run.tokens.length, status);`;
  const command = ["--input-type=module", "--eval", program];
  expect(execFileSync("node", command, { cwd: folder, env, encoding: "utf8" })).toBe("3 200\n");
}, 30_000);

test.each([
  ["llm-understudy", ["index", "browser", "testing", "vitest"]],
  ["llm-understudy-engine", ["engine-index", "engine-browser"]],
] as const)("%s: every public name has a doc comment", async (name, entries) => {
  const { default: compiler } = await import(join(folder, "node_modules/ts59/lib/typescript.js"));
  const types = join(folder, "node_modules", name, "types/");
  const bare = bareNames(
    compiler,
    entries.map((entry) => `${types}src/embed/${entry}.d.ts`),
    types,
  );
  expect(bare).toEqual([]);
});

/** A program that uses the public names, and two wrong uses. */
const USE = `
import { createEngine, createServer, Finish, latencies, withServer, type Engine, type EngineOptions, type Server, VirtualClock } from "llm-understudy";
import { checkScrapes, equal, law, sseStreams, term } from "llm-understudy/testing";
import { serverFixture } from "llm-understudy/vitest";
const options: EngineOptions = { maxNumSeqs: 4, timing: "none", maxModelLen: "8k" };
declare const engine: Engine;
export const made: Promise<Engine> = createEngine(options, { clock: new VirtualClock() });
export const server: Server = createServer({ model: "m", overloadStatus: 429 });
export const ruled: Promise<void> = server.on(({ body }) => body !== null, { text: "x" });
export const p99: number | null = latencies([engine.submit({ promptTokens: 3 })]).ttftUs.p99;
const own = law({ id: "A", sentence: "s", means: "m", check: (c) => equal(c.now.get("a"), term("1", 1)) });
export const errors: number = checkScrapes(["a 1"], { laws: [own] }).errors.length;
export const streams = sseStreams();
export const stopped: number = engine.snapshot().finished[Finish.Stop];
export const shared: (given: number) => Promise<void> = withServer({ timing: "none" })((one, given: number) => one.next({ tokens: [given], times_ms: [5], fault: "B8" }));
export const fixture: (context: { task: {} }, use: (server: Server) => Promise<void>) => Promise<void> = serverFixture();
// @ts-expect-error
export const wrong: EngineOptions = { maxNumSeq: 4 };
// @ts-expect-error
export const none: Engine = 5;`;
const WAYS = [
  { module: "Node16", moduleResolution: "Node16", names: ["use.mts", "use.cts"] },
  { module: "NodeNext", moduleResolution: "NodeNext", names: ["use.mts", "use.cts"] },
  { module: "ESNext", moduleResolution: "Bundler", names: ["use.mts"] },
];
const uses = ["use.mts", "use.cts"].map((name) => join(folder, name));

/** TypeScript versions before 7 run in this process and without a browser's names, which would double the time. */
const BEFORE_7 = [
  ["5.0", "ts50", sampled("pack", WAYS, 1)],
  ["5.9", "ts59", sampled("pack", WAYS, 1)],
] as const;
test.each(sampled("pack", BEFORE_7, 1))(
  "types: TypeScript %s accepts a strict program with node16, nodenext and bundler, and all declarations",
  async (_, name, ways) => {
    for (const file of uses) writeFileSync(file, USE);
    const { default: compiler } = await import(join(folder, `node_modules/${name}/lib/typescript.js`));
    expect(complaints(compiler, uses, ways).flat()).toEqual([]);
  },
  60_000,
);

test.each(sampled("pack", WAYS, 1))(
  "types: TypeScript 7.0 accepts a strict program with a browser's names, $moduleResolution, and all declarations",
  async ({ module, moduleResolution, names }) => {
    for (const file of uses) writeFileSync(file, USE);
    const flags = ["--noEmit", "--strict", "--skipLibCheck", "false", "--target", "es2022", "--typeRoots", "./none"];
    const resolution = ["--module", module, "--moduleResolution", moduleResolution];
    const tsc = ["node", `${root}node_modules/typescript/bin/tsc`];
    const { code, out } = await run([...tsc, ...flags, ...resolution, ...names], folder);
    expect({ code, out }).toEqual({ code: 0, out: "" });
  },
  60_000,
);

test.each(sampled("pack", ["server", "engine"] as const, 1))(
  "publint and attw report no problem: %s",
  async (which) => {
    const publint = ["node", join(folder, "node_modules/publint/src/cli.js"), packages[which], "--strict"];
    expect(await run(publint, folder)).toMatchObject({ code: 0 });
    const attw = await import(join(folder, "node_modules/@arethetypeswrong/core/dist/index.js"));
    const tarball = attw.createPackageFromTarballData(new Uint8Array(readFileSync(packages[which])));
    // Binary files have no types.
    const found = await attw.checkPackage(tarball, { excludeEntrypoints: ["core.wasm", "answers.bin"] });
    expect([found.types, found.problems]).toEqual([{ kind: "included" }, []]);
    expect(Object.keys(found.entrypoints)).toContain(which === "server" ? "./vitest" : ".");
  },
  60_000,
);

test("an unknown flag prints one line and exits with code 2", async () => {
  const { code, err } = await understudy("serve", "--max-num-seqz", "4");
  expect(code).toBe(2);
  const lines = err.split("\n").filter((line) => line !== "");
  expect(lines).toHaveLength(1);
  expect(err).toContain("--max-num-seqz: unknown flag; did you mean --max-num-seqs?");
}, 30_000);
