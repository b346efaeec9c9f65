/**
 * Tests `--ready-file` and `--exit-with-parent`, with which a test in any language can start a server: the file has its
 * addresses, and the server exits with its parent.
 */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, serve } from "../server.ts";

const main = new URL("../../src/main.ts", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "understudy-ready-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the file is complete or absent, an old file is replaced, and the server exits with its parent", async () => {
  const file = join(folder, "ready.json");
  writeFileSync(file, "old");
  const words = `${process.execPath} ${main} serve --port 0 --timing none --ready-file ${file} --exit-with-parent`;
  // A shell that exits without a signal to its child.
  const parent = Bun.spawn(["bash", "-c", `${words} & wait`], { stdout: "ignore", stderr: "ignore" });
  await eventually(() => existsSync(file) && readFileSync(file, "utf8") !== "old", 3000);
  const { url, metricsUrl, pid } = JSON.parse(readFileSync(file, "utf8"));
  expect([metricsUrl, (await fetch(`${url}/health`)).status]).toEqual([null, 200]);
  parent.kill("SIGKILL");
  await parent.exited;
  await eventually(() => !existsSync(`/proc/${pid}`), 1000);
});

async function tritonsFile(file: string, ...more: string[]) {
  const flags = "--role triton --http-port 0 --grpc-port 0 --metrics-port 0 --exit-with-parent true".split(" ");
  const command = [process.execPath, main, "serve", ...flags, ...more, "--ready-file", file];
  const server = Bun.spawn(command, { stdout: "ignore", stderr: "ignore" });
  await eventually(() => existsSync(file), 3000);
  return { server, content: JSON.parse(readFileSync(file, "utf8")) };
}

test("a Triton server's file has the address of each listener", async () => {
  const { server, content } = await tritonsFile(join(folder, "triton.json"));
  const { url, metricsUrl, grpcUrl, openaiUrl, pid } = content;
  expect([(await fetch(`${url}/v2/health/ready`)).status, (await fetch(`${metricsUrl}/metrics`)).status]).toEqual([
    200, 200,
  ]);
  expect([new URL(grpcUrl).port === "", openaiUrl, pid]).toEqual([false, null, server.pid]);
  server.kill();
  await server.exited;
});

test("a disabled listener is null in the file, also HTTP", async () => {
  const off = ["--allow-http=false", "--allow-grpc=false"];
  const { server, content } = await tritonsFile(join(folder, "off.json"), ...off);
  const { url, http2Url, grpcUrl, openaiUrl } = content;
  expect({ url, http2Url, grpcUrl, openaiUrl }).toEqual({ url: null, http2Url: null, grpcUrl: null, openaiUrl: null });
  server.kill();
  await server.exited;
});

test.each(["serve --port 0", "proxy --to http://127.0.0.1:1 --port 0", "stress --wait 1m --faults B8"])(
  "%s: a path that cannot be written ends the start with one line",
  (words) => {
    const wrong = join(folder, "none", "ready.json");
    const command = [process.execPath, main, ...words.split(" "), "--ready-file", wrong];
    const { exitCode, stdout, stderr } = Bun.spawnSync(command, { timeout: 10_000 });
    const why = `--ready-file ${wrong}: there is no folder ${join(folder, "none")}`;
    expect([exitCode, stdout.toString(), stderr.toString()]).toEqual([
      2,
      "",
      `understudy ${words.split(" ")[0]}: ${why}\n`,
    ]);
  },
);

test("a signal directly after the line with the address ends the server in order", async () => {
  const server = await serve(["--timing", "none"]);
  expect(await server.stop()).toBe(0);
});
