/** Tests `understudy front` with a stub in place of the front end: start, output, signals, exit codes and errors. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FrontEnd, OUTPUT_KEPT } from "../../../src/cli/front/front-end.ts";
import { main } from "../../program.ts";
import { startProgram } from "../../started-program.ts";

setDefaultTimeout(30_000);

const stub = new URL("stub-front.ts", import.meta.url).pathname;
const freePort = () => {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
  listener.stop(true);
  return listener.port;
};
const command = (port: number) => [process.execPath, stub, "serve", "some/model", "--port", `${port}`];
const front = (...words: string[]) => [process.execPath, main, "front", "--timing", "none", ...words];

async function ended(words: readonly string[], env: Record<string, string> = {}) {
  const child = Bun.spawn([...words], { env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
  const [out, error] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, error };
}

test.each(["rust", "python"])("a %s front end and the engine start and end together", async (STUB) => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-front-"));
  const ready = join(folder, "ready.json");
  const port = freePort();
  const started = await startProgram(
    front("--ready-file", ready, "--", ...command(port)),
    (output) => output.includes("understudy front: ready"),
    { env: { ...process.env, STUB } },
  );
  const { url, engineUrl, pid } = JSON.parse(readFileSync(ready, "utf8"));
  expect([url, pid]).toEqual([`http://127.0.0.1:${port}`, started.pid]);
  const args = (await (await fetch(url)).json()) as readonly string[];
  expect(args).toContain("--data-parallel-rpc-port");
  expect(await (await fetch(`${engineUrl}/metrics`)).text()).toContain('model_name="some/model"');
  expect(await started.stop("SIGTERM")).toBe(7);
  await started.ended;
  expect(started.output()).toContain("the front end ends");
  expect(fetch(engineUrl)).rejects.toThrow();
  rmSync(folder, { recursive: true });
});

test("--free-port gives the front end a port, which the ready line has", async () => {
  const words = front("--free-port", "--", process.execPath, stub, "serve", "m");
  const started = await startProgram(words, (output) => output.includes("front: ready"));
  const url = /ready at (\S+);/.exec(started.output())![1]!;
  expect(await (await fetch(url)).json()).toContain(new URL(url).port);
  expect(await started.stop("SIGINT")).toBe(130);
});

test("if the front end ends by itself, the engine ends, and the exit code is the front end's", async () => {
  const port = freePort();
  const started = await startProgram(front("--", ...command(port)), (output) => output.includes("front: ready"));
  await fetch(`http://127.0.0.1:${port}/end`).catch(() => {});
  expect(await started.exited).toBe(9);
});

test("a front end that ends before it is ready is one line, and its code", async () => {
  const { code, error } = await ended(front("--", ...command(freePort())), { STUB: "dies" });
  expect(code).toBe(3);
  expect(error.trimEnd().split("\n")).toEqual([
    "the front end: a wrong model",
    expect.stringMatching(/^understudy front: .*bun.* ended with code 3 before it was ready$/),
  ]);
});

test("a front end that is not ready in time is ended", async () => {
  const { code, error } = await ended(front("--ready-timeout", "400ms", "--", ...command(freePort())), {
    STUB: "silent",
  });
  expect(code).toBe(1);
  expect(error).toContain("was not ready within 0.4 s");
  expect(error).toContain("the front end ends");
});

test.each([
  [["--", "no-such-front-end", "serve", "m"], "no-such-front-end: not found; give the path"],
  [["--", stub, "serve", "m"], "stub-front.ts: is not executable"],
  [[], "needs a front end after --"],
  [["--role", "vllm", "--", "true"], "--role: is always vllm-engine here"],
  [["--no-such-flag", "--", "true"], "--no-such-flag: unknown flag"],
  [["--", "true", "-dpl", "1"], "must be 0 or left out"],
] as const)("%j is refused in one line with code 2", async (words, message) => {
  const { code, out, error } = await ended(front(...words));
  expect([code, out, error.trimEnd().split("\n").length]).toEqual([2, "", 1]);
  expect(error).toStartWith("understudy front: ");
  expect(error).toContain(message);
});

test("the newest 65,536 characters of a front end's output are kept", async () => {
  const front = new FrontEnd([process.execPath, "-e", 'for (let at = 0; at < 20_000; at++) console.log("line", at)']);
  expect(await front.ended).toBe(0);
  expect(front.output).toHaveLength(OUTPUT_KEPT);
  expect(front.output.endsWith("line 19999\n")).toBe(true);
  expect(front.ready).rejects.toThrow("ended with code 0 before it was ready");
});

test("processes that a front end leaves behind are ended with it", async () => {
  const started = new FrontEnd(["sh", "-c", "sleep 60 & exit 3"]);
  expect(await started.ended).toBe(3);
});
