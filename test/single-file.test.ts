/**
 * Tests the single file of Linux on x64: it does the same as the sources, from any folder and under any name, and needs no
 * other file. The whole, `npx bun run test pack`, also runs the tests of commands, servers and recordings with the file, and
 * compares the files for other platforms with it.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, linkSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import loadOptions from "../bin/load-options.json";
import replayOptions from "../bin/replay-options.json";
import { run } from "./packed.ts";
import { main } from "./program.ts";
import { eventually } from "./server.ts";
import {
  compile,
  embeddedIn,
  type SingleFile,
  type StartedFile,
  SUITE_MS,
  SUITES,
  singleFile,
  startServer,
  suiteWith,
} from "./single-file.ts";
import { sized } from "./size.ts";

setDefaultTimeout(120_000);

const isHere = process.platform === "linux" && process.arch === "x64";
const root = new URL("../", import.meta.url).pathname;
const FAST = ["--port", "0", "--timing", "none", "--served-model-name", "m"];

let file: SingleFile;
const started: StartedFile[] = [];
beforeAll(async () => {
  if (isHere) file = await singleFile();
});
afterAll(async () => {
  await Promise.all(started.map((server) => server.stop()));
  file?.remove();
});

async function serve(...args: Parameters<typeof startServer>): Promise<StartedFile> {
  const server = await startServer(...args);
  started.push(server);
  return server;
}
const understudy = (...words: string[]) => run([file.path, ...words], file.folder);
const lines = (text: string) => text.split("\n").filter(Boolean);

/** Streams a completion and returns the text of its events, without ids and times. */
async function streamed(url: string): Promise<string> {
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", prompt: "Hello, you", max_tokens: 20, ignore_eos: true, seed: 1, stream: true }),
  });
  expect(answer.status).toBe(200);
  return (await answer.text()).replace(/"(id|created)":("[^"]*"|\d+)/g, '"$1":0');
}

describe.skipIf(!isHere)("commands", () => {
  test.each([
    [["version"]],
    [["help"]],
    [["nonsense"]],
    [["serve", "--help"]],
    [["serve", "--max-num-seqz", "4"]],
    [["fault", "explain", "B8"]],
    [["completion", "fish"]],
    [["man"]],
    [["timing", "list"]],
    [["replay", "synthetic:isl=10,osl=3,concurrency=1,requests=2"]],
    [["load", "--url", "http://127.0.0.1:1"]],
    [["truth", "none.jsonl"]],
    [["check", "none.txt"]],
    [["health", "http://127.0.0.1:1"]],
  ])("%j prints the same as from the sources", async (words) => {
    const [ours, theirs] = await Promise.all([
      understudy(...words),
      run([process.execPath, main, ...words], file.folder),
    ]);
    // Lines to copy name the program, each by its own path.
    const steady = ({ code, out, err }: typeof ours) => {
      const text = out.replace(/^wall time .*$/m, "").replace(/\S*\/understudy(-[\w-]+)? /g, "understudy ");
      return { code, out: text, err };
    };
    expect(steady(ours)).toEqual(steady(theirs));
  });

  test("stress needs only the reference client, and names where the pinned ones are", async () => {
    const { code, out } = await understudy("stress", "--client", "reference", "--faults", "B8");
    expect([code, out]).toEqual([0, "1 case: 1 ok\n"]);
    expect(await understudy("stress", "--client", "openai-node")).toEqual({
      code: 2,
      out: "",
      err: "understudy stress: --client openai-node: takes reference; the pinned clients are programs of a checkout (https://github.com/llm-understudy/llm-understudy, folder test/clients/drivers)\n",
    });
  });

  test("a report of --html has the script that is in the file, and a path that cannot be written is one line", async () => {
    const trace = ["replay", "synthetic:isl=10,osl=3,concurrency=1,requests=2"];
    expect(await understudy(...trace, "--html", "report.html")).toMatchObject({ code: 0 });
    expect(readFileSync(join(file.folder, "report.html"), "utf8")).toContain("uPlot");
    const { code, err } = await understudy(...trace, "--html", "/proc/report.html");
    expect([code, lines(err).length]).toEqual([2, 1]);
  });
});

describe.skipIf(!isHere)("settings of the runtime", () => {
  /** Runs a command that waits for its input, and returns the environment of its process. */
  async function environmentOf(words: readonly string[], env: Record<string, string> = {}) {
    const child = Bun.spawn([file.path, ...words], { env, stdin: "pipe", stdout: "ignore", stderr: "ignore" });
    const read = () => readFileSync(`/proc/${child.pid}/environ`, "latin1").split("\0");
    try {
      await eventually(() => read().includes("BUN_JSC_useFTLJIT=0"));
      return read();
    } finally {
      child.kill();
      await child.exited;
    }
  }
  const pairs = (settings: object) => Object.entries(settings).map(([name, value]) => `${name}=${value}`);

  test("replay and load have those of the launcher, in the process that was started, below those of the user", async () => {
    expect(await environmentOf(["replay", "-"])).toEqual(expect.arrayContaining(pairs(replayOptions)));
    const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const own = { MIMALLOC_PURGE_DELAY: "7" };
    const load = await environmentOf(["load", "--url", `http://127.0.0.1:${silent.port}`], own);
    silent.stop(true);
    expect(load).toEqual(expect.arrayContaining(pairs({ ...loadOptions, ...own })));
  });
});

describe.skipIf(!isHere)("servers", () => {
  test("under another name, with a .env, a bunfig.toml and variables of Bun's, it answers as the sources do", async () => {
    const folder = join(file.folder, "elsewhere");
    mkdirSync(folder);
    writeFileSync(join(folder, ".env"), "UNDERSTUDY_API_KEY=secret\nVLLM_API_KEY=secret\n");
    writeFileSync(join(folder, "bunfig.toml"), 'preload = ["./missing.ts"]\n');
    symlinkSync(file.path, join(folder, "bun"));
    const env = {
      TMPDIR: "/missing",
      BUN_CONFIG_MAX_HTTP_REQUESTS: "1",
      BUN_JSC_useFTLJIT: "0",
      BUN_OPTIONS: "--smol",
    };
    const [ours, theirs] = await Promise.all([
      serve([join(folder, "bun"), "serve", ...FAST], { cwd: folder, env }),
      serve([process.execPath, main, "serve", ...FAST]),
    ]);
    expect(await streamed(ours.url)).toBe(await streamed(theirs.url));
    expect(ours.output()).toContain("writes      one native call for all plain tokens of a step");
    expect(await (await fetch(`${ours.url}/metrics`)).text()).toContain('vllm:generation_tokens_total{engine="0"');
    expect((await understudy("health", ours.url, "--model", "m")).code).toBe(0);
    expect(await ours.stop()).toBe(0);
  });

  test("two workers serve one port, and a killed one is started anew", async () => {
    const server = await serve([file.path, "serve", ...FAST, "--workers", "2"]);
    const pids = () => readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, "latin1").trim().split(" ");
    const [first, second] = pids();
    process.kill(Number(first), "SIGKILL");
    await eventually(() => server.output().includes("started anew"));
    await eventually(() => pids().length === 2 && !pids().includes(first!));
    expect(pids()).toContain(second!);
    expect((await fetch(`${server.url}/health`, { keepalive: false })).status).toBe(200);
    expect(await server.stop()).toBe(0);
  });

  test("Triton's server has the models that come with it", async () => {
    const ports = ["--http-port=0", "--grpc-port=0", "--metrics-port=0"];
    const server = await serve([file.path, "serve", "--role", "triton", ...ports]);
    const answer = await fetch(`${server.url}/v2/repository/index`, { method: "POST" });
    const models = (await answer.json()) as { name: string; state: string }[];
    expect(models.length).toBeGreaterThan(5);
    for (const { name, state } of models) expect([name, state]).toEqual([name, "READY"]);
    expect((await fetch(`${server.url}/v2/models/none/ready`)).status).toBe(400);
    expect(await server.stop()).toBe(0);
  });
});

test.skipIf(!isHere).each([1, 100_000, 10_000_000])(
  "without its last %d bytes, the system refuses to start it",
  (missing) => {
    const path = join(file.folder, "short");
    const bytes = readFileSync(file.path);
    writeFileSync(path, bytes.subarray(0, bytes.length - missing), { mode: 0o755 });
    try {
      expect(() => Bun.spawnSync([path, "version"])).toThrow("EIO");
    } finally {
      rmSync(path);
    }
  },
);

/** Mounts a folder read-only, with /proc and /dev, in a mount namespace of its own, and runs the rest of the words in it. */
const IN_FOLDER = `set -e
mount --bind "$1" "$1"
mount --bind /proc "$1/proc"
mount --bind /dev "$1/dev"
mount -o remount,ro,bind "$1"
exec chroot --userspec=65532:65532 "$@"`;
const canMount = isHere && process.getuid?.() === 0 && Bun.spawnSync(["unshare", "--mount", "true"]).exitCode === 0;

test.skipIf(!canMount)(
  "it serves in a read-only folder with only the C library, /proc and /dev, as user 65532",
  async () => {
    const folder = join(file.folder, "root");
    for (const name of ["proc", "dev"]) mkdirSync(join(folder, name), { recursive: true });
    linkSync(file.path, join(folder, "understudy"));
    const { out: libraries } = await run(["ldd", file.path], file.folder);
    for (const [path] of libraries.matchAll(/\/\S+\.so[.\d]*/g)) {
      mkdirSync(join(folder, dirname(path)), { recursive: true });
      cpSync(path, join(folder, path), { dereference: true });
    }
    const inside = ["unshare", "--mount", "sh", "-c", IN_FOLDER, "sh", folder, "/understudy"];
    const server = await serve([...inside, "serve", ...FAST]);
    expect(await streamed(server.url)).toContain("data: [DONE]");
    expect(server.output()).toContain("writes      one native call for all plain tokens of a step");
    expect((await fetch(`${server.url}/metrics`)).status).toBe(200);
    expect(await server.stop()).toBe(0);
    for (const words of [
      ["--truth-log", "/truth.jsonl"],
      ["--ready-file", "/ready"],
      ["--workers", "2"],
    ]) {
      const { code, err } = await run([...inside, "serve", ...FAST, ...words], file.folder);
      expect([words, code, lines(err).length]).toEqual([words, 2, 1]);
    }
  },
);

test.skipIf(!isHere).each(sized("pack", { sample: [], whole: SUITES }))(
  "%s passes with the file",
  async (path) => expect(await suiteWith(file.path, path)).toEqual({ code: 0, failed: [] }),
  SUITE_MS,
);

test.skipIf(!isHere)("it embeds each thread and each file that its modules load by a path", () => {
  const embedded = embeddedIn(file.path);
  const names = [...embedded.keys()];
  const loaded = names
    .filter((name) => name.endsWith(".js") && !name.includes("/build/"))
    .flatMap((name) => [
      ...embedded
        .get(name)!
        .toString()
        .matchAll(/new URL\("\.\/([^"]+)",import\.meta\.url\)/g),
    ])
    .map(([, to]) => `/$bunfs/root/${to}`);
  expect(loaded.length).toBeGreaterThan(10);
  expect(loaded.filter((path) => !names.some((name) => name === path || name.startsWith(`${path}/`)))).toEqual([]);
});

/** Modules that name the platform or the processor, which the bundler replaces by constants. */
const PLATFORM_MODULES_MOST = 4;

test.skipIf(!isHere).each(sized("pack", { sample: [], whole: ["linux-arm64", "darwin-arm64"] }))(
  "the file for %s embeds the same files and modules, except for names of the platform",
  async (target) => {
    const out = join(file.folder, target);
    expect(await compile("--target", target, "--out", out)).toMatchObject({ code: 0, err: "" });
    const [ours, theirs] = [embeddedIn(file.path), embeddedIn(join(out, `understudy-${target}`))];
    rmSync(out, { recursive: true });
    const named = (modules: Map<string, Buffer>) =>
      [...modules.keys()].filter((name) => !name.includes("/chunk-")).sort();
    expect(named(theirs)).toEqual(named(ours));
    expect(theirs.size).toBe(ours.size);
    // The entry and the threads contain names of chunks.
    const isModule = (name: string) => !name.includes("/build/") && /(\.js|\/understudy)$/.test(name);
    const files = named(ours).filter((name) => !isModule(name));
    expect(files.length).toBeGreaterThan(20);
    expect(files.filter((name) => !theirs.get(name)!.equals(ours.get(name)!))).toEqual([]);
    // Names of chunks contain a hash of their text.
    const texts = (modules: Map<string, Buffer>) =>
      new Set([...modules.values()].map((bytes) => bytes.toString("latin1").replace(/chunk-\w{8}/g, "chunk")));
    expect(texts(theirs).difference(texts(ours)).size).toBeLessThanOrEqual(PLATFORM_MODULES_MOST);
  },
);

describe.skipIf(!isHere)("scripts/compile.ts", () => {
  const empty = (name: string) => {
    const path = join(file.folder, name);
    writeFileSync(path, readFileSync(file.path).subarray(0, 50_000_000));
    return path;
  };

  test.each([
    [["--target", "windows-x64"], "--target windows-x64: must be linux-x64 or linux-arm64 or darwin-arm64"],
    [["--runtime", "/missing"], "/missing cannot be read (ENOENT)"],
    [["--runtime", "package.json"], "package.json is not a program for linux-x64"],
    [["--runtime", "/bin/true"], `/bin/true is not Bun ${Bun.version}, which package.json names`],
    [
      ["--target", "linux-arm64", "--runtime", process.execPath],
      `${process.execPath} is not a program for linux-arm64`,
    ],
  ])("%j is refused", async (words, why) => {
    expect(await compile("--target", "linux-x64", ...words)).toEqual({ code: 1, out: "", err: `compile: ${why}\n` });
  });

  test("a version of Bun other than that of package.json is refused", async () => {
    const checkout = join(file.folder, "checkout");
    cpSync(`${root}scripts`, join(checkout, "scripts"), { recursive: true });
    writeFileSync(join(checkout, "package.json"), '{"dependencies": {"bun": "1.3.0"}}');
    expect(await run([process.execPath, "scripts/compile.ts"], checkout)).toEqual({
      code: 1,
      out: "",
      err: `compile: needs Bun 1.3.0, not ${Bun.version}; start it with: npx bun run compile\n`,
    });
  });

  test.skipIf(!canMount)("on a full disk, it prints one line and leaves nothing behind", async () => {
    const out = join(file.folder, "full");
    mkdirSync(out);
    const script = `mount -t tmpfs -o size=50m tmpfs "$1" && "$2" scripts/compile.ts --target linux-x64 --out "$1"; ls "$1"`;
    const { out: left, err } = await run(["unshare", "--mount", "sh", "-c", script, "sh", out, process.execPath], root);
    expect(err).toBe(`compile: cannot write ${out}/understudy-linux-x64: ENOSPC\n`);
    expect(left).toBe("");
  });

  test("NOTICE is beside the file and names the projects in it", () => {
    const notice = readFileSync(join(dirname(file.path), "NOTICE"), "utf8");
    for (const name of ["elysia", "undici", "uplot", "gpt-tokenizer", "bun"])
      expect(notice).toMatch(new RegExp(`^${name}[ :]`, "m"));
    expect(notice).toContain("statically links JavaScriptCore");
  });

  test("a truncated runtime is refused with its size", async () => {
    const path = empty("truncated");
    const { code, err } = await compile("--target", "linux-x64", "--runtime", path);
    rmSync(path);
    expect(code).toBe(1);
    expect(err).toStartWith(`compile: ${path} is truncated: it has 50000000 bytes, and its header names 1`);
  });
});
