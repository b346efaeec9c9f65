/**
 * Tests messages that could take much more memory than their bytes. The server reads or refuses them, stays small and continues
 * to serve.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Metadata, status } from "@grpc/grpc-js";
import { sampled } from "../size.ts";
import { hostTriton, startTriton, type TritonChild } from "./child.ts";
import { packedCall, SERVICE, TritonClient } from "./grpc-client.ts";
import { ATTACKS, entries, field, manyOf, SMALL_FIELDS, withContents, withRaw } from "./wire-messages.ts";

setDefaultTimeout(120_000);
const MIB = 2 ** 20;
const base = mkdtempSync(join(tmpdir(), "triton-memory-"));
const flags = [`--model-repository=${base}`];

/** A server that the test kills when it exceeds 1 GB. */
class WatchedServer {
  readonly child: TritonChild;
  readonly client: TritonClient;
  mostMib = 0;
  readonly #timer = setInterval(() => this.#look(), 10);

  constructor(child: TritonChild) {
    this.child = child;
    this.client = new TritonClient(child.grpc, undefined, {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
    });
  }

  static async start(): Promise<WatchedServer> {
    return new WatchedServer(await startTriton(flags));
  }

  get residentMib(): number {
    const kib = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${this.child.pid}/status`, "utf8"))?.[1];
    return Number(kib ?? 0) / 1024;
  }

  /** Makes a call. Returns its status. */
  send(method: string, body: Buffer): Promise<string> {
    const path = method.startsWith("/") ? method : SERVICE + method;
    const raw = (bytes: Buffer) => bytes;
    const options = { deadline: Date.now() + 60_000 };
    return new Promise((done) =>
      this.client.client.makeUnaryRequest(path, raw, raw, body, new Metadata(), options, (error) =>
        done(error === null ? "OK" : `${status[error.code]}: ${error.details}`),
      ),
    );
  }

  async isHealthy(): Promise<boolean> {
    const signal = AbortSignal.timeout(10_000);
    return fetch(`${this.child.url}/v2/health/live`, { signal }).then(
      ({ ok }) => ok,
      () => false,
    );
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.client.close();
    await this.child.stop("SIGKILL");
  }

  #look(): void {
    try {
      this.mostMib = Math.max(this.mostMib, this.residentMib);
    } catch {
      // The server has ended.
    }
    if (this.mostMib > 1000) process.kill(this.child.pid, "SIGKILL");
  }
}

beforeAll(() => {
  const tensor = (name: string, type: string) => `{ name: "${name}" data_type: TYPE_${type} dims: [ -1 ] }`;
  for (const type of ["INT32", "INT64", "FP32", "STRING"]) {
    mkdirSync(join(base, type, "1"), { recursive: true });
    const config = `backend: "python" input [ ${tensor("x", type)} ] output [ ${tensor("y", type)} ]`;
    writeFileSync(join(base, type, "config.pbtxt"), config);
    writeFileSync(join(base, type, "behaviour.yaml"), "behaviour: identity");
  }
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** Allowance for garbage that has not been collected, in addition to the limit. */
const SLACK_MIB = 48;

test("each message takes at most eight times its bytes, and the server answers afterwards", async () => {
  const server = await WatchedServer.start();
  try {
    for (const [name, { method, body, isRead }] of Object.entries(ATTACKS)) {
      const bytes = body();
      const before = server.residentMib;
      server.mostMib = before;
      const ended = await server.send(method, bytes);
      expect(await server.isHealthy(), name).toBe(true);
      expect((server.mostMib - before - SLACK_MIB) / (bytes.length / MIB), name).toBeLessThan(8);
      if (isRead) expect(ended, name).not.toContain("RESOURCE_EXHAUSTED");
      else expect(ended, name).toMatch(/^RESOURCE_EXHAUSTED: Received message with more fields|^INTERNAL: Unable/);
    }
  } finally {
    await server.stop();
  }
});

test("compressed messages are decompressed within the limit, one after another", async () => {
  const server = await WatchedServer.start();
  try {
    const before = server.residentMib;
    const zeros = Buffer.alloc(300 * MIB);
    const packed = gzipSync(zeros, { level: 1 });
    const all = await Promise.all(Array.from({ length: 4 }, () => packedCall(server.child.grpc, packed)));
    for (const ended of all)
      expect(ended).toMatch(/^INTERNAL: Unable to parse|^RESOURCE_EXHAUSTED: messages of more than/);
    expect(await packedCall(server.child.grpc, gzipSync(Buffer.alloc(513 * MIB), { level: 1 }))).toBe(
      `RESOURCE_EXHAUSTED: Received message larger than max (${512 * MIB + 1} vs. ${512 * MIB})`,
    );
    expect(await server.isHealthy()).toBe(true);
    expect(server.mostMib - before).toBeLessThan(700);
    const numbers = withRaw("FP32", "FP32", 4 * MIB, Buffer.alloc(16 * MIB));
    expect(await packedCall(server.child.grpc, gzipSync(numbers))).toBe("OK");
  } finally {
    await server.stop();
  }
});

const KIB = 1024;
const SIZES = [KIB, 32 * KIB, MIB, 16 * MIB];
const COPIES_MOST = 64;
const GARBAGE_MIB = 8;
const ROUNDS = Object.entries(SMALL_FIELDS).flatMap(([name, unit]) =>
  SIZES.flatMap((size) => [false, true].map((isPacked) => ({ name, unit, size, isPacked }))),
);

test("messages of all fields and sizes at once, compressed or not, take at most eight times their bytes", async () => {
  const server = await WatchedServer.start();
  try {
    for (const { name, unit, size, isPacked } of sampled("triton", ROUNDS, 40)) {
      const part = manyOf(unit, Math.min(size, 32 * KIB));
      const body = Buffer.alloc(size, part);
      const sent = isPacked ? gzipSync(body, { level: 1 }) : body;
      const before = server.residentMib;
      server.mostMib = before;
      const copies = Math.max(1, Math.min(COPIES_MOST, (16 * MIB) / size));
      const send = () => (isPacked ? packedCall(server.child.grpc, sent) : server.send("ModelInfer", body));
      const ended = await Promise.all(Array.from({ length: copies }, send));
      const what = `${copies} times ${size} bytes of ${name}${isPacked ? ", packed" : ""}`;
      for (const one of ended) expect(one, what).toMatch(/^[A-Z_]+: [^:]/);
      if (size >= MIB)
        expect(ended[0], what).toMatch(/^RESOURCE_EXHAUSTED: Received message with more fields|^INTERNAL/);
      expect(await server.isHealthy(), what).toBe(true);
      // With short messages, garbage exceeds the messages. `message-heap.test.ts` measures those.
      const sentMib = Math.max(GARBAGE_MIB, (copies * size) / MIB);
      expect((server.mostMib - before - SLACK_MIB) / sentMib, what).toBeLessThan(8);
    }
  } finally {
    await server.stop();
  }
});

test("many calls with many parameters, and many large messages at once", async () => {
  const server = await WatchedServer.start();
  try {
    const wordy = Buffer.concat([field(1, "INT32"), entries(4, 7000)]);
    const all = await Promise.all(Array.from({ length: 200 }, () => server.send("ModelInfer", wordy)));
    expect(new Set(all.map((one) => one.split(":")[0]))).toEqual(new Set(["RESOURCE_EXHAUSTED"]));
    const large = withRaw("FP32", "FP32", 20 * MIB, Buffer.alloc(80 * MIB));
    const ended = await Promise.all(Array.from({ length: 10 }, () => server.send("ModelInfer", large)));
    for (const one of ended)
      expect(one).toMatch(/^OK$|^RESOURCE_EXHAUSTED: messages of more than 671088640 bytes are under way/);
    expect(await server.isHealthy()).toBe(true);
    expect(server.mostMib).toBeLessThan(1000);
  } finally {
    await server.stop();
  }
});

test("a message with more fields than --grpc-max-message-fields is refused, also in a stream", async () => {
  const server = await hostTriton([...flags, "--grpc-max-message-fields=100"]);
  const client = new TritonClient(server.grpc);
  try {
    const request = (count: number) =>
      Buffer.concat([withContents("INT32", "INT32", 1, field(2, Buffer.from([7]))), entries(4, count)]);
    expect((await client.bytes("ModelInfer", request(20))).error).toBeNull();
    const words =
      "RESOURCE_EXHAUSTED: Received message with more fields than max (100); --grpc-max-message-fields allows more";
    expect((await client.bytes("ModelInfer", request(40))).error).toBe(words);
    const call = client.stream();
    const ended = new Promise<string>((done) => {
      call.on("data", () => {});
      call.on("error", (error: Error & { code: number; details: string }) =>
        done(`${status[error.code]}: ${error.details}`),
      );
    });
    call.write(request(40));
    expect(await ended).toBe(words);
  } finally {
    client.close();
    await server.stop(0);
  }
});
