/** Tests the service `grpc.health.v1`. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { startTriton, type TritonChild } from "./child.ts";
import { TritonClient } from "./grpc-client.ts";

const MODELS = ["--model-control-mode=explicit", `--model-repository=${new URL("models", import.meta.url).pathname}`];
let server: TritonChild;
let client: TritonClient;
beforeAll(async () => {
  server = await startTriton([...MODELS, "--load-time=0"]);
  client = new TritonClient(server.grpc);
});
afterAll(async () => {
  client.close();
  await server.stop("SIGKILL");
});

const raw = (bytes: Buffer) => bytes;

test("a health check accepts any service name in a valid message", async () => {
  const asked = (bytes: readonly number[]) =>
    new Promise((resolve) => {
      const path = "/grpc.health.v1.Health/Check";
      client.client.makeUnaryRequest(path, raw, raw, Buffer.from(bytes), (error, answer) =>
        resolve(error === null ? [...answer!] : `${error.code} ${error.details}`),
      );
    });
  expect(await asked([])).toEqual([8, 1]);
  expect(await asked([10, 1, 120])).toEqual([8, 1]);
  for (const wrong of [
    [255, 255],
    [10, 9, 120],
    [10, 2, 255, 254],
  ])
    expect(await asked(wrong)).toBe("13 Unable to parse request");
});

test("a health watch reports each change", async () => {
  const watched = client.client.makeServerStreamRequest("/grpc.health.v1.Health/Watch", raw, raw, Buffer.alloc(0));
  const seen: number[] = [];
  watched.on("error", () => {});
  watched.on("data", (bytes: Buffer) => seen.push(bytes[1]!));
  await client.call("RepositoryModelLoad", { model_name: "badload" });
  for (let turn = 0; seen.length < 2 && turn < 100; turn++) await Bun.sleep(50);
  watched.cancel();
  expect(seen).toEqual([1, 2]);
});

test("2.51 does not support health watches", async () => {
  const old = await startTriton(["--triton-version=2.51", ...MODELS]);
  const asked = new TritonClient(old.grpc);
  try {
    const watched = asked.client.makeServerStreamRequest("/grpc.health.v1.Health/Watch", raw, raw, Buffer.alloc(0));
    watched.on("data", () => {});
    const code = await new Promise((resolve) => watched.on("error", (error: { code?: number }) => resolve(error.code)));
    expect(code).toBe(12);
  } finally {
    asked.close();
    await old.stop("SIGKILL");
  }
});
