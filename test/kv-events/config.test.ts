/** Tests `--kv-events-config` and the options around it: forms, defaults, errors, ports of ranks. */
import { expect, test } from "bun:test";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { endpointOfRank, isBindEndpoint, KV_EVENTS_DEFAULTS } from "../../src/kv-events/config.ts";

const resolve = (argv: readonly string[], env: Record<string, string> = {}, file = "") =>
  resolveServeConfig(argv, env, () => file);
function accepted(argv: readonly string[], env: Record<string, string> = {}, file = "") {
  const result = resolve(argv, env, file);
  if (!("config" in result)) throw new Error(JSON.stringify(result));
  return result;
}
const ON = '{"enable_kv_cache_events":true}';

test("nothing is published unless events are enabled and have a publisher", () => {
  for (const argv of [
    [],
    ["--kv-events-config", "{}"],
    ["--kv-events-config", '{"publisher":"zmq"}'],
    ["--kv-events-config", '{"enable_kv_cache_events":true,"publisher":"null"}'],
  ])
    expect(accepted(argv).config.kvEvents).toBeUndefined();
});

test("the defaults are those of vLLM", () => {
  expect(accepted(["--kv-events-config", ON]).config.kvEvents).toEqual({
    source: { ...KV_EVENTS_DEFAULTS, enable_kv_cache_events: true, publisher: "zmq" },
    profile: "0.33.0",
    algorithm: "sha256",
    batchSize: null,
    seed: null,
    hasIntHashes: true,
    faults: null,
    firstRank: 0,
  });
});

test("a flag with a dot sets one key, also next to the whole", () => {
  const dotted = ["--kv-events-config.enable_kv_cache_events", "true", "--kv-events-config.endpoint=tcp://*:6000"];
  expect(accepted(dotted).config.kvEvents?.source).toMatchObject({ publisher: "zmq", endpoint: "tcp://*:6000" });
  const both = ["--kv-events-config", ON, "--kv-events-config.topic", "kv@a@m", "--kv-events-config.hwm", "5"];
  expect(accepted(both).config.kvEvents?.source).toMatchObject({ topic: "kv@a@m", hwm: 5 });
  expect(resolve(["--block-size.x", "1"])).toMatchObject({ error: expect.stringContaining("unknown flag") });
});

test("variables of vLLM and Python set the form of hashes and the seed, and flags win", () => {
  const env = { VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: "0", PYTHONHASHSEED: "123" };
  const argv = ["--kv-events-config", ON];
  expect(accepted(argv, env).config.kvEvents).toMatchObject({ hasIntHashes: false, seed: "123" });
  const flags = [...argv, "--kv-events-int-hashes", "--kv-events-hash-seed", "5"];
  expect(accepted(flags, env).config.kvEvents).toMatchObject({ hasIntHashes: true, seed: "5" });
  expect(resolve(argv, { VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: "no" })).toEqual({
    error: 'VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: takes 0 or 1, not "no"',
  });
});

test("the environment and a file set the option as JSON", () => {
  const env = { UNDERSTUDY_KV_EVENTS_CONFIG: ON };
  expect(accepted([], env).config.kvEvents?.source.publisher).toBe("zmq");
  const file = `kv-events-config: '${ON}'\nkv-events-profile: 0.22.0\n`;
  expect(accepted(["--config", "f.yaml"], {}, file).config.kvEvents?.profile).toBe("0.22.0");
});

test.each([
  ["[1]", '--kv-events-config: takes a JSON object, as {"enable_kv_cache_events": true}, not "[1]"'],
  ['{"port":1}', '--kv-events-config: unknown key "port"; accepted: enable_kv_cache_events, publisher, endpoint'],
  ['{"enable_kv_cache_events":1}', "--kv-events-config: enable_kv_cache_events: must be true or false, not 1"],
  ['{"publisher":null}', '--kv-events-config: publisher: must be "zmq" or "null", not null'],
  ['{"publisher":"kafka"}', '--kv-events-config: publisher: must be "zmq" or "null", not "kafka"'],
  ['{"endpoint":"*:5557"}', "--kv-events-config: endpoint: must be tcp://HOST:PORT, ipc://PATH or inproc://NAME"],
  ['{"endpoint":"tcp://*:99999"}', "--kv-events-config: endpoint: must be tcp://HOST:PORT"],
  ['{"replay_endpoint":"http://x:1"}', "--kv-events-config: replay_endpoint: must be tcp://HOST:PORT"],
  ['{"buffer_steps":-1}', "--kv-events-config: buffer_steps: must be a whole number from 0 to 2147483647, not -1"],
  ['{"hwm":1.5}', "--kv-events-config: hwm: must be a whole number from 0 to 2147483647, not 1.5"],
  [
    '{"max_queue_size":"9"}',
    '--kv-events-config: max_queue_size: must be a whole number from 0 to 2147483647, not "9"',
  ],
  ['{"topic":5}', "--kv-events-config: topic: must be a text, not 5"],
])("%s is refused in one line", (text, message) => {
  expect(resolve(["--kv-events-config", text])).toMatchObject({ error: expect.stringContaining(message) });
});

test("ranks need addresses of their own", () => {
  const two = ["--data-parallel-size", "2", "--kv-events-config"];
  expect(resolve([...two, '{"endpoint":"ipc:///run/x"}'])).toEqual({
    error: "--kv-events-config: endpoint: must be tcp://HOST:PORT with rank 1, because ranks cannot share ipc:///run/x",
  });
  expect(resolve([...two, '{"replay_endpoint":"tcp://*:65535"}'])).toEqual({
    error: "--kv-events-config: replay_endpoint: tcp://*:65535 plus rank 1 is above port 65535",
  });
  expect(accepted([...two, '{"endpoint":"inproc://x"}']).config.dataParallelSize).toBe(2);
  const engine = ["--role", "vllm-engine", "--data-parallel-rank", "3", "--kv-events-config", ON];
  expect(accepted(engine).config.kvEvents?.firstRank).toBe(3);
});

test("the address of a rank follows vLLM's rule", () => {
  expect(endpointOfRank("tcp://*:5557", 0)).toBe("tcp://*:5557");
  expect(endpointOfRank("tcp://*:5557", 2)).toBe("tcp://*:5559");
  expect(endpointOfRank("tcp://[::1]:5557", 1)).toBe("tcp://[::1]:5558");
  expect(endpointOfRank("tcp://*:0", 3)).toBe("tcp://*:0");
  expect(endpointOfRank("inproc://cache", 1)).toBe("inproc://cache_dp1");
  expect(endpointOfRank("ipc:///run/x", 1)).toBeNull();
});

test("a wildcard, IPv6, ipc and inproc are bound, and other hosts are dialed", () => {
  const bound = ["tcp://*:1", "tcp://[::1]:1", "ipc:///run/x", "inproc://x"];
  expect(bound.map(isBindEndpoint)).toEqual([true, true, true, true]);
  expect(isBindEndpoint("tcp://127.0.0.1:5557")).toBe(false);
});

test("a server without a prefix cache says that there are no events", () => {
  const { notices } = accepted(["--no-enable-prefix-caching", "--kv-events-config", ON]);
  expect(notices).toEqual(["--kv-events-config: there are no events, because the prefix cache is off"]);
});
