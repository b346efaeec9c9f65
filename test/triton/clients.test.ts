/**
 * Tests the real clients of Triton against our server: tritonclient over gRPC and HTTP, synchronous and asyncio. Each runs its
 * own checks.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { startTriton, type TritonChild } from "./child.ts";

setDefaultTimeout(120_000);

const root = new URL("../../", import.meta.url).pathname;
const python = `${root}.venv-triton/bin/python`;
/** True if the Python environment is missing outside CI. CI always has it (test/clients/requirements/triton.txt). */
const isLeftOut = !existsSync(python) && process.env.CI === undefined;

let server: TritonChild;
beforeAll(async () => {
  const models = ["plain", "batched", "tokens", "types", "queue_only"].map((name) => `--load-model=${name}`);
  const repository = `--model-repository=${root}test/triton/models`;
  server = await startTriton([repository, "--model-control-mode=explicit", ...models, "--allow-client-shm=true"]);
});
afterAll(async () => {
  expect(await server.stop("SIGTERM")).toBe(0);
});

test.skipIf(isLeftOut).each([
  ["triton_grpc.py", ["results", "server", "errors", "stream", "cancel", "shared memory"]],
  ["triton_grpc_aio.py", ["results", "errors", "stream", "cancel"]],
  ["triton_http.py", ["results", "types", "server", "models", "errors", "retries", "shared memory"]],
  ["triton_http_aio.py", ["results", "server", "errors", "given up"]],
])("%s", async (file, checks) => {
  const at = file.startsWith("triton_grpc") ? `127.0.0.1:${server.grpc}` : server.url.replace("http://", "");
  const words = [python, `test/clients/python/${file}`, at];
  const child = Bun.spawn(words, { cwd: root, stdout: "pipe", stderr: "pipe" });
  const [out, complaint] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  const seen = out
    .split("\n")
    .filter((line) => line.startsWith('{"check"'))
    .map((line) => JSON.parse(line) as { check: string; error?: string });
  expect(seen.filter(({ error }) => error !== undefined)).toEqual([]);
  expect([seen.map(({ check }) => check), seen.length > 0 ? "" : complaint]).toEqual([checks, ""]);
});
