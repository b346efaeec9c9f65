/** Tests how the installed command starts Bun: `replay` and `load` get the compiler options that were measured to be best. */
import { beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import loadOptions from "../../bin/load-options.json";
import oneProcessorOptions from "../../bin/one-processor-options.json";
import options from "../../bin/replay-options.json";
import { eventually } from "../server.ts";

// Only Linux shows the environment of another process (in /proc).
const linux = process.platform === "linux";
const bin = new URL("../../bin/understudy", import.meta.url).pathname;

/** The environment without options of Bun, because a run of all tests sets some (scripts/test-lanes.ts). */
const plain = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^BUN_JSC_/.test(name)));

// The first start after a change of the sources builds their bundle.
beforeAll(() => void Bun.spawnSync(["node", bin, "version"]), 60_000);

/**
 * Runs the command and returns the environment of the Bun that it starts. `ends`: the command needs a signal to exit, because it
 * does not exit at the end of its input.
 */
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
  // Keep a reference to the input. Otherwise it may be collected and closed, and a replay ends at the end of its input.
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

test.skipIf(!linux)("a replay gets its compiler options, unless the user sets them", async () => {
  const all = Object.entries(options).map(([name, value]) => `${name}=${value}`);
  expect(all.length).toBeGreaterThan(0);
  expect(await environmentOf(["replay", "-"])).toEqual(expect.arrayContaining(all));
  const [first] = Object.keys(options);
  expect(await environmentOf(["replay", "-"], { [first!]: "1" })).toContain(`${first}=1`);
});

test.skipIf(!linux)("load gets its compiler options", async () => {
  // This server does not answer, so the command waits.
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const waiting = ["load", "--url", `http://127.0.0.1:${silent.port}`];
  try {
    const all = Object.entries(loadOptions).map(([name, value]) => `${name}=${value}`);
    expect(await environmentOf(waiting, {}, true)).toEqual(expect.arrayContaining(all));
  } finally {
    silent.stop(true);
  }
});

// taskset, of util-linux, restricts a process to one processor.
test.skipIf(!linux || Bun.which("taskset") === null)(
  "a server on one processor gets its compiler options",
  async () => {
    const [first] = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "latin1"))!.slice(1);
    const all = Object.entries(oneProcessorOptions).map(([name, value]) => `${name}=${value}`);
    const environment = await environmentOf(["serve", "--port", "0"], {}, true, ["taskset", "-c", first!]);
    expect(environment).toEqual(expect.arrayContaining(all));
  },
);

test.skipIf(!linux)("other commands get no compiler options", async () => {
  const environment = await environmentOf(["check", "-"]);
  for (const name of Object.keys(options))
    expect(environment.some((entry) => entry.startsWith(`${name}=`))).toBe(false);
});

test.skipIf(!linux)("a signal just after the start of Bun ends both processes", async () => {
  // A module, preloaded into Node, that sends the signal as soon as the command starts a process.
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
