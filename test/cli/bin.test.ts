/** How does the command on the path start Bun? Replay and load get the compiler's options that are measured to be best for them. */
import { beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import loadOptions from "../../bin/load-options.json";
import oneProcessorOptions from "../../bin/one-processor-options.json";
import options from "../../bin/replay-options.json";
import { eventually } from "../server.ts";

// The environment of another process is in Linux's /proc alone.
const linux = process.platform === "linux";
const bin = new URL("../../bin/understudy", import.meta.url).pathname;

/** Without options of Bun's own: a run of all tests sets some (scripts/test-lanes.ts). */
const plain = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^BUN_JSC_/.test(name)));

// The first start of changed sources makes their bundle.
beforeAll(() => void Bun.spawnSync(["node", bin, "version"]), 60_000);

/** Environment of the Bun that the command has started, while it waits for its input; `ends`: it does not end with that. */
async function environmentOf(
  args: readonly string[],
  env: Record<string, string> = {},
  ends = false,
  under: readonly string[] = [],
): Promise<string[]> {
  const command = Bun.spawn([...under, "node", bin, ...args], {
    stdin: "pipe",
    stdout: "ignore",
    stderr: "ignore",
    env: { ...plain, ...env },
  });
  // Held from the start: an input that nobody holds may be closed at any time, and a replay ends with it.
  const { pid, stdin } = command;
  try {
    const child = () => readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim();
    await eventually(() => child() !== "" && readFileSync(`/proc/${child()}/cmdline`, "latin1").includes("run.ts"));
    return readFileSync(`/proc/${child()}/environ`, "latin1").split("\0");
  } finally {
    if (ends) command.kill();
    stdin.end();
    await command.exited;
  }
}

test.skipIf(!linux)("a replay's own options, below the user's", async () => {
  const all = Object.entries(options).map(([name, value]) => `${name}=${value}`);
  expect(all.length).toBeGreaterThan(0);
  expect(await environmentOf(["replay", "-"])).toEqual(expect.arrayContaining(all));
  const [first] = Object.keys(options);
  expect(await environmentOf(["replay", "-"], { [first!]: "1" })).toContain(`${first}=1`);
});

test.skipIf(!linux)("those of load", async () => {
  // This server does not answer: the command waits.
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const waiting = ["load", "--url", `http://127.0.0.1:${silent.port}`];
  try {
    const all = Object.entries(loadOptions).map(([name, value]) => `${name}=${value}`);
    expect(await environmentOf(waiting, {}, true)).toEqual(expect.arrayContaining(all));
  } finally {
    silent.stop(true);
  }
});

// Without util-linux nobody is put on one processor here.
test.skipIf(!linux || Bun.which("taskset") === null)("those of a server that has one processor", async () => {
  const [first] = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "latin1"))!.slice(1);
  const all = Object.entries(oneProcessorOptions).map(([name, value]) => `${name}=${value}`);
  const one = await environmentOf(["serve", "--port", "0"], {}, true, ["taskset", "-c", first!]);
  expect(one).toEqual(expect.arrayContaining(all));
});

test.skipIf(!linux)("other commands are started as they are", async () => {
  const environment = await environmentOf(["check", "-"]);
  for (const name of Object.keys(options)) expect(environment.some((one) => one.startsWith(`${name}=`))).toBe(false);
});

test.skipIf(!linux)("a signal that comes as soon as there is a Bun ends both", async () => {
  // A library of Node's that is loaded first: whoever starts a process gets the signal at once.
  const folder = mkdtempSync(join(tmpdir(), "understudy-bin-"));
  const early = join(folder, "early.cjs");
  writeFileSync(
    early,
    `const processes = require("node:child_process");
    const { spawn } = processes;
    processes.spawn = (...args) => {
      const child = spawn(...args);
      require("node:fs").writeFileSync(${JSON.stringify(join(folder, "pid"))}, String(child.pid));
      process.kill(process.pid, "SIGTERM");
      return child;
    };
    require("node:module").syncBuiltinESMExports();`,
  );
  const command = Bun.spawn(["node", "--require", early, bin, "serve", "--port", "0"], {
    stdout: "ignore",
    stderr: "ignore",
  });
  await command.exited;
  const pid = Number(readFileSync(join(folder, "pid"), "latin1"));
  const left = existsSync(`/proc/${pid}`);
  if (left) process.kill(pid);
  rmSync(folder, { recursive: true });
  expect(left).toBe(false);
  expect(command.exitCode).toBe(143);
});
