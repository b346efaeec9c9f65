/** Tests the compiled library without Bun: in Node, and the engine in a browser. Needs `node` on the path. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createContext, runInContext } from "node:vm";
import { eventually } from "../server.ts";
import { SCENARIOS } from "./scenarios.ts";

/** Each test starts one or two processes. */
setDefaultTimeout(30_000);

const root = new URL("../../", import.meta.url).pathname;
/** The environment of a user's shell, with variables that the library must ignore. */
const env = { ...process.env, UNDERSTUDY_PORT: "1", UNDERSTUDY_API_KEY: "nobody", VLLM_API_KEY: "nobody" };
const start = (command: readonly string[], cwd = root) =>
  Bun.spawn([...command], { cwd, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });

async function run(command: readonly string[], cwd = root): Promise<{ code: number; out: string; err: string }> {
  const child = start(command, cwd);
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}

/** Returns a command with which Node runs `text` as a module that imports the library. */
const node = (text: string) => [
  "node",
  "--input-type=module",
  "--eval",
  `import { createEngine, createServer, WallClock } from "llm-understudy";\n${text}`,
];

const isGone = (url: string) =>
  fetch(url).then(
    () => false,
    () => true,
  );

beforeAll(async () => {
  const { code, out, err } = await run([process.execPath, "scripts/build.ts", "--library"]);
  if (code !== 0) throw new Error(out + err);
});

test.each(["engine", "server"])("examples/%s.js prints the same in Node and in Bun", async (name) => {
  const [inNode, inBun] = await Promise.all(
    ["node", process.execPath].map((runtime) => run([runtime, `examples/${name}.js`])),
  );
  expect(inNode).toMatchObject({ code: 0, err: "" });
  expect(inBun).toEqual(inNode!);
  expect(inNode!.out.split("\n").length).toBeGreaterThan(2);
});

test("a server in Node refuses like in Bun, and leaves nothing behind when it is closed", async () => {
  const { code, out, err } = await run(
    node(`
      const thrown = (act) => { try { act(); } catch (error) { return error.name + ": " + error.message; } };
      const server = createServer({ model: "m", timing: "none" });
      const early = thrown(() => server.url);
      const same = (await server.ready) === server;
      const health = (await fetch(server.url + "/health")).status;
      const second = createServer({ port: Number(new URL(server.url).port) });
      const refused = await second.ready.catch(({ code }) => code);
      await second.close();
      await Promise.all([server.close(), server.close()]);
      await createServer().close();
      const gone = await fetch(server.url).then(() => false, () => true);
      const wrong = thrown(() => createServer({ maxNumSeq: 4 }));
      console.log(JSON.stringify({ early, same, health, refused, gone, wrong }));
    `),
  );
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(JSON.parse(out)).toEqual({
    early: "Error: the server is not ready: await server.ready first (server.url)",
    same: true,
    health: 200,
    refused: "EADDRINUSE",
    gone: true,
    wrong: expect.stringContaining("TypeError: maxNumSeq: no such option; there are model,"),
  });
});

/** Creates a temporary folder with these files, in which the package can be imported by its name. */
async function projectOf(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), "understudy-library-"));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(`${root}build/npm/llm-understudy`, join(folder, "node_modules/llm-understudy"));
  for (const [name, text] of Object.entries(files)) await Bun.write(join(folder, name), text);
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

test("in Node relative paths start at the caller's folder", async () => {
  using project = await projectOf({
    "answers/hello.yaml": "fixtures:\n  - answer: from a fixture\n",
    "lengths.jsonl": '{"timestamp": 0, "input_length": 16, "output_length": 7, "hash_ids": [1]}\n',
    // Bun reads these files if it starts in this folder, but the library must not.
    ".env": "UNDERSTUDY_MAX_NUM_SEQS=1\n",
    "bunfig.toml": 'preload = ["./missing.ts"]\n',
  });
  const { code, out, err } = await run(
    node(`
      const timing = "none";
      const ask = async (url) => {
        const body = JSON.stringify({ messages: [{ role: "user", content: "Hi" }] });
        const headers = { "content-type": "application/json" };
        const answer = await fetch(url + "/v1/chat/completions", { method: "POST", headers, body });
        return answer.json();
      };
      const server = await createServer({ timing, fixtures: "answers", truthLog: "truth.jsonl" }).ready;
      const { choices } = await ask(server.url);
      const traced = await createServer({ timing, outputTokens: "trace:./lengths.jsonl" }).ready;
      const { usage } = await ask(traced.url);
      await Promise.all([server.close(), traced.close()]);
      const refused = await createServer({ timing, fixtures: "other" }).ready.catch(({ message }) => message);
      console.log(JSON.stringify({ answer: choices[0].message.content, tokens: usage.completion_tokens, refused }));
    `),
    project.folder,
  );
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(JSON.parse(out)).toEqual({
    answer: "from a fixture",
    tokens: 7,
    refused: "fixtures other: cannot be read (ENOENT); a folder of YAML files is needed",
  });
  expect(await Bun.file(join(project.folder, "truth.jsonl")).text()).toContain('"type":"request"');
});

test("in Node adminKey changes a running server, and compat applies the other stand-in's defaults", async () => {
  const { code, out, err } = await run(
    node(`
      const own = await createServer({ timing: "none", adminKey: "secret" }).ready;
      const asked = await fetch(own.url + "/admin/config", { headers: { authorization: "Bearer secret" } });
      const sim = await createServer({ compat: "llm-d-inference-sim", model: "m", timeToFirstToken: "1ms" }).ready;
      const [{ max_model_len }] = (await (await fetch(sim.url + "/v1/models")).json()).data;
      await Promise.all([own.close(), sim.close()]);
      console.log(JSON.stringify([asked.status, (await asked.json()).timing, max_model_len]));
    `),
  );
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(JSON.parse(out)).toEqual([200, "none", 1024]);
});

test.each(["SIGKILL", "SIGTERM"] as const)("the server exits when its Node process is ended by %s", async (signal) => {
  const parent = start(
    node(`
      const { url } = await createServer({ timing: "constant:ttft=10ms,itl=10ms" }).ready;
      const body = JSON.stringify({ prompt: "Hello", max_tokens: 10000, ignore_eos: true, stream: true });
      const { body: stream } = await fetch(url + "/v1/completions", { method: "POST", body });
      const reader = stream.getReader();
      await reader.read();
      console.log(url);
      // Keeps the stream open and the program running. A collected stream would be closed.
      setInterval(() => reader, 60_000);
    `),
  );
  const reader = parent.stdout.getReader();
  const url = new TextDecoder().decode((await reader.read()).value).trim();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(await isGone(url)).toBe(false);
  parent.kill(signal);
  await parent.exited;
  await eventually(() => isGone(url));
});

test.each(SCENARIOS)("the scenario has the same result in Node as in Bun: %s", async (name, _, expected) => {
  const { code, out, err } = await run(
    node(`
      import * as scenarios from ${JSON.stringify(`${root}test/embed/scenario.js`)};
      console.log(JSON.stringify(await scenarios.${name}(createServer)));
    `),
  );
  // An error of the program's own predicate fails its request, and is logged once with its stack.
  const logged = /^understudy: a request failed and is answered with 500: Error: [^\n]*\n( {4}at [^\n]*\n)*$/;
  expect({ code, err }).toEqual({ code: 0, err: name === "throwing" ? expect.stringMatching(logged) : "" });
  expect(JSON.parse(out)).toEqual(expected);
});

test("if the child process is killed, all its servers report the reason, and the next start works", async () => {
  const { code, out, err } = await run(
    node(`
      import { execFileSync } from "node:child_process";
      const [one, other] = await Promise.all([createServer({ timing: "none" }).ready, createServer().ready]);
      const pids = execFileSync("pgrep", ["-P", String(process.pid), "-f", "child.js"], { encoding: "utf8" }).trim().split("\\n");
      process.kill(Number(pids[0]), "SIGKILL");
      const ended = (await Promise.all([one.ended, other.ended])).map(({ message }) => message);
      const asked = await one.snapshot().catch(({ message }) => message);
      await one.close();
      const next = await createServer({ timing: "none" }).ready;
      const { status } = await fetch(next.url + "/health");
      console.log(JSON.stringify({ children: pids.length, ended, asked, status }));
    `),
  );
  expect({ code, err }).toEqual({ code: 0, err: "" });
  const why = "the server's process ended: SIGKILL";
  expect(JSON.parse(out)).toEqual({ children: 1, ended: [why, why], asked: why, status: 200 });
});

test("open servers do not keep Node alive", async () => {
  const { code, out } = await run(
    node(`
      const server = await createServer({ timing: "constant:ttft=10ms,itl=10ms" }).ready;
      await fetch(server.url + "/health");
      console.log("done");
    `),
  );
  expect({ code, out }).toEqual({ code: 0, out: "done\n" });
});

test("ready rejects if the server was closed before, and ended reports a dead engine", async () => {
  const { code, out, err } = await run(
    node(`
      const early = createServer({ timing: "none" });
      const closing = early.close();
      const ready = await early.ready.catch(({ message }) => message);
      await closing;
      const server = await createServer({ timing: "none", allowRequestOrders: "all", metricsPort: 0 }).ready;
      const page = (await fetch(server.metricsUrl + "/metrics")).status;
      const body = JSON.stringify({ prompt: "x", max_tokens: 5, understudy: { script: { sequences: [{ steps: [[1], [2]] }], engine_dies_at_step: 1 } } });
      const headers = { "content-type": "application/json" };
      const answer = await fetch(server.url + "/v1/completions", { method: "POST", headers, body });
      const ended = (await server.ended).message;
      const gone = await fetch(server.url).then(() => false, () => true);
      console.log(JSON.stringify({ ready, early: await early.ended, page, status: answer.status, ended, gone }));
    `),
  );
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(JSON.parse(out)).toEqual({
    ...{ ready: "the server was closed before it was ready", early: null, page: 200, status: 500 },
    ended: "the server has ended: the engine is dead, as its script wanted",
    gone: true,
  });
}, 30_000);

test("an engine runs in Node on a wall clock", async () => {
  const { code, out, err } = await run(
    node(`
      const clock = new WallClock();
      const engine = await createEngine({ timing: "constant:ttft=3ms,itl=1ms" }, { clock });
      const { tokens } = await engine.submit({ promptTokens: 10, maxTokens: 5, ignoreEos: true }).done;
      console.log(tokens.length);
      engine.close();
      clock.close();
    `),
  );
  expect({ code, out, err }).toEqual({ code: 0, out: "5\n", err: "" });
});

test("the browser's entry needs no API of Node or Bun", async () => {
  using project = await projectOf({
    "page.js": 'import * as face from "llm-understudy";\nglobalThis.face = face;\n',
  });
  const { outputs, success } = await Bun.build({
    entrypoints: [join(project.folder, "page.js")],
    target: "browser",
    conditions: ["browser"],
    format: "iife",
    external: ["node:*"],
    // A script without modules has no import.meta.
    define: { "import.meta.url": JSON.stringify("file:///index.js") },
  });
  expect(success).toBe(true);
  const bundle = await outputs[0]!.text();
  expect(bundle.match(/node:\w+|\brequire\(/g)).toBeNull();
  const core = await Bun.file(`${root}build/core.wasm`).bytes();
  const context = createContext({ core, performance, queueMicrotask, WebAssembly });
  runInContext(bundle, context);
  expect(() => runInContext("face.createServer()", context)).toThrow("and in no browser");
  const tokens = await runInContext(
    `(async () => {
      const engine = await face.createEngine({ timing: "none" }, { core });
      const run = engine.submit({ promptTokens: 10, maxTokens: 5, ignoreEos: true });
      while (engine.step());
      return run.tokens.length;
    })()`,
    context,
  );
  expect(tokens).toBe(5);
});
