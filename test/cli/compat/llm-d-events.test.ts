/** Tests the keys of llm-d-inference-sim about KV events. */
import { expect, test } from "bun:test";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { KV_EVENTS_DEFAULTS } from "../../../src/kv-events/config.ts";

function resolved(words: string, env: Record<string, string> = {}) {
  return resolveServeConfig(["--compat", "llm-d-inference-sim", ...words.split(" ")], env, () => "");
}

function eventsOf(words: string, env: Record<string, string> = {}) {
  const result = resolved(words, env);
  if (!("config" in result)) throw new Error(JSON.stringify(result));
  return result.config.kvEvents;
}

test("events are published with the cache alone, with the simulator's defaults", () => {
  expect(eventsOf("--enable-kvcache --model m --port 8123", { POD_IP: "10.1.2.3" })).toEqual({
    source: {
      ...KV_EVENTS_DEFAULTS,
      enable_kv_cache_events: true,
      publisher: "zmq",
      endpoint: "tcp://127.0.0.1:5557",
      buffer_steps: 1024,
      topic: "kv@10.1.2.3:8123@m",
    },
    profile: "0.18.0",
    algorithm: "sha256",
    batchSize: 16,
    seed: null,
    hasIntHashes: true,
    faults: null,
    firstRank: 0,
  });
  expect(eventsOf("--zmq-endpoint tcp://*:6000")).toBeUndefined();
  expect(eventsOf("--enable-kvcache --zmq-endpoint=")).toBeUndefined();
});

test("each key about events sets its value", () => {
  const words =
    "--enable-kvcache --zmq-endpoint tcp://*:6000 --event-batch-size 4 --use-vllm-map-event-format --hash-seed 42 --kv-events-replay-endpoint tcp://*:6001 --kv-events-replay-queue-size 9";
  expect(eventsOf(words)).toMatchObject({
    source: { endpoint: "tcp://*:6000", replay_endpoint: "tcp://*:6001", buffer_steps: 9 },
    ...{ profile: "0.33.0", batchSize: 4, seed: "42" },
  });
  expect(eventsOf("--enable-kvcache", { PYTHONHASHSEED: "7" })?.seed).toBe("7");
  expect(eventsOf("--enable-kvcache --hash-seed 8", { PYTHONHASHSEED: "7" })?.seed).toBe("8");
});

test.each([
  ["--zmq-endpoint udp://x", "--zmq-endpoint: endpoint: must be tcp://HOST:PORT, ipc://PATH or inproc://NAME"],
  ["--event-batch-size 0", "--event-batch-size: takes a whole number from 1"],
  ["--kv-events-replay-queue-size x", "--kv-events-replay-queue-size: takes a whole number of at least 1"],
])("%s is refused with its place", (words, message) => {
  expect(resolved(`--enable-kvcache ${words}`)).toMatchObject({ error: expect.stringContaining(message) });
});
