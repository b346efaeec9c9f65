/** Tests changes of a running server's options: all of them take effect, or none does and the error names an option. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { LATENCIES } from "../../../src/cli/compat/llm-d-live.ts";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { LIVE, LiveOptions } from "../../../src/cli/serve/live-options.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";

function optionsOf(words: string): LiveOptions {
  const resolved = resolveServeConfig(words.split(" ").filter(Boolean), {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return new LiveOptions(resolved.values, resolved.latencies);
}

test("changes add up with earlier ones, and null restores the default", () => {
  const options = optionsOf("--timing constant:ttft=1s,itl=10ms --max-streams 5");
  const first = options.changed({
    timing: "linear:base=1ms,prefill=0ms,decode=0ms",
    limit_concurrency: 7,
    jitter: 0.1,
  });
  if (!("config" in first)) throw new Error(first.message);
  expect(first.config.engine).toMatchObject({ timing: { kind: "linear" }, noise: { jitterSigma: 0.1 } });
  expect(first.config.listen.frontLimits).toMatchObject({ requests: 7, streams: 5 });
  expect(options.read()).toMatchObject({ timing: "constant:ttft=1s,itl=10ms", "limit-concurrency": null });
  first.keep();
  const second = options.changed({ "max-streams": null, "retry-after-form": ["seconds", "ms"], "retry-after": "2" });
  if (!("config" in second)) throw new Error(second.message);
  second.keep();
  expect(second.config.listen.frontLimits).toMatchObject({
    ...{ requests: 7, streams: 0 },
    retryAfter: { seconds: 2, forms: ["seconds", "ms"] },
  });
  expect(options.read()).toMatchObject({ "limit-concurrency": 7, "max-streams": null, jitter: 0.1 });
});

test.each([
  [{ timing: "fast" }, "timing", 'timing: "fast": not a preset; must be'],
  [{ "max-streams": -1 }, "max-streams", "max-streams: takes a whole number from 0"],
  [{ "max-streams": { a: 1 } }, "max-streams", 'max-streams: takes a whole number from 0 to 2147483647, not {"a":1}'],
  [{ "max-num-seqs": 5 }, "max-num-seqs", "max-num-seqs: cannot change while the server runs; these can: timing"],
  [{ colour: "red" }, "colour", "colour: cannot change while the server runs; these can: timing"],
  [{ timing: "none" }, "timing", "timing: cannot change from or to none while the server runs"],
  [
    { "enable-log-requests": "perhaps" },
    "enable-log-requests",
    'enable-log-requests: takes true or false, not "perhaps"',
  ],
])("%j is refused", (changes, key, message) => {
  const options = optionsOf("--timing constant:ttft=1s,itl=10ms");
  const before = options.read();
  const changed = options.changed({ "max-streams": 2, ...changes });
  if ("config" in changed) throw new Error("the change was accepted");
  expect(changed.key).toBe(key);
  expect(changed.message).toStartWith(message);
  expect(options.read()).toEqual(before);
});

test("jitter is refused without step times", () => {
  const changed = optionsOf("--timing none").changed({ jitter: 0.5 });
  expect(changed).toMatchObject({ key: "jitter" });
});

test("any changes give a configuration, or an error whose key is one of the changes or null", () => {
  const value = fc.oneof(fc.string(), fc.double(), fc.boolean(), fc.constant(null), fc.array(fc.string()), fc.object());
  const name = fc.oneof(fc.constantFrom(...LIVE), fc.string());
  fc.assert(
    fc.property(fc.dictionary(name, value, { maxKeys: 4 }), (changes) => {
      const changed = optionsOf("--timing constant:ttft=1s,itl=10ms").changed(changes);
      if ("config" in changed) return;
      expect(changed.message.length).toBeGreaterThan(5);
      if (changed.key !== null) expect(Object.keys(changes)).toContain(changed.key);
    }),
  );
});

describe("latencies of llm-d-inference-sim", () => {
  const CONSTANT =
    "--compat llm-d-inference-sim --time-to-first-token 100ms --inter-token-latency 10ms --inter-token-latency-std-dev 1ms";
  const applied = (options: LiveOptions, changes: Readonly<Record<string, unknown>>) => {
    const changed = options.changed(changes);
    if (!("config" in changed)) throw new Error(changed.message);
    changed.keep();
    return changed.config;
  };
  /** Returns the engine's configuration of a server that is started with these flags. */
  const started = (words: string) => {
    const resolved = resolveServeConfig(`--compat llm-d-inference-sim ${words}`.split(" "), {}, () => "");
    if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
    return resolved.config.engine;
  };

  test.each<[Record<string, unknown>, string]>([
    [
      { "time-to-first-token": "250ms" },
      "--time-to-first-token 250ms --inter-token-latency 10ms --inter-token-latency-std-dev 1ms",
    ],
    [
      { time_to_first_token: 250, "inter-token-latency-std-dev": null },
      "--time-to-first-token 250ms --inter-token-latency 10ms",
    ],
    [
      { "time-factor-under-load": 1.5, "time-to-first-token-std-dev": "20ms" },
      "--time-to-first-token 100ms --inter-token-latency 10ms --inter-token-latency-std-dev 1ms --time-factor-under-load 1.5 --time-to-first-token-std-dev 20ms",
    ],
    [
      {
        "latency-calculator": "per-token",
        "prefill-overhead": "50ms",
        "prefill-time-per-token": "1ms",
        "prefill-time-std-dev": "5ms",
      },
      "--latency-calculator per-token --prefill-overhead 50ms --prefill-time-per-token 1ms --prefill-time-std-dev 5ms --inter-token-latency 10ms --inter-token-latency-std-dev 1ms",
    ],
  ])("%j has the same effect as flags at the start", (changes, words) => {
    const { timing, noise } = applied(optionsOf(CONSTANT), changes).engine;
    expect({ timing, noise }).toEqual({ timing: started(words).timing, noise: started(words).noise });
  });

  test("they are returned as they were set, and change one by one", () => {
    const options = optionsOf(CONSTANT);
    expect(options.read()).toMatchObject({
      timing: "constant:ttft=100000us,itl=10000us",
      "time-to-first-token": "100ms",
      "inter-token-latency-std-dev": "1ms",
      "prefill-overhead": null,
    });
    applied(options, { "time-to-first-token": "1s", "max-streams": 3 });
    const slower = applied(options, { "kv-cache-transfer-latency": "1s" });
    expect(slower.queue.kvTransferTime).toEqual({ baseUs: 1_000_000, tokenUs: 0, deviationUs: 0, stepUs: 10_000 });
    expect(options.read()).toMatchObject({ "kv-cache-transfer-latency": "1s" });
    const { timing } = applied(options, { "inter-token-latency": "20ms" }).engine;
    expect(timing).toEqual({ kind: "constant", ttftUs: 1_000_000, itlUs: 20_000 });
    expect(options.read()).toMatchObject({
      "time-to-first-token": "1s",
      "inter-token-latency": "20ms",
      "max-streams": 3,
    });
  });

  test("another timing clears them, and a later change starts from the defaults", () => {
    const options = optionsOf(CONSTANT);
    applied(options, { timing: "linear:base=4ms,prefill=0ms,decode=0ms" });
    expect(options.read()).toMatchObject({ "time-to-first-token": null, "inter-token-latency": null });
    const { timing } = applied(options, { "inter-token-latency": "5ms" }).engine;
    expect(timing).toMatchObject({ kind: "linear", baseUs: 5000, requestOverheadUs: 0 });
    expect(options.read()).toMatchObject({ "time-to-first-token": null, "inter-token-latency": "5ms" });
  });

  test.each<[Record<string, unknown>, string | null, string]>([
    [{ "time-to-first-token": "-1s" }, "time-to-first-token", "time-to-first-token: takes a duration"],
    [{ "time-to-first-token": { a: 1 } }, "time-to-first-token", "time-to-first-token: takes a text or a number"],
    [{ "time-to-first-token": "2h" }, "time-to-first-token", 'time-to-first-token: "constant:'],
    [{ "latency-calculator": "bogus" }, "latency-calculator", "latency-calculator: takes constant or per-token"],
    [{ time_factor_under_load: 0.5 }, "time_factor_under_load", "time_factor_under_load: takes a number of at least 1"],
    [
      { "inter-token-latency": "2ms" },
      "inter-token-latency",
      "inter-token-latency-std-dev: takes at most 30 % of inter-token-latency, which is 2 ms",
    ],
    [
      { "inter-token-latency": "20ms", jitter: 0.1 },
      "jitter",
      "jitter: cannot change together with inter-token-latency, which sets it",
    ],
    [
      { "inter-token-latency": 0, "inter-token-latency-std-dev": 0, "time-to-first-token": null },
      "inter-token-latency",
      "timing: cannot change from or to none while the server runs",
    ],
    [{ "render-url": "http://x" }, "render-url", "render-url: not supported; "],
    [{ "kv-cache-transfer-latency": "1 s" }, "kv-cache-transfer-latency", "kv-cache-transfer-latency: takes "],
    [{ "max-num-seqs": 5 }, "max-num-seqs", "max-num-seqs: cannot change while the server runs; these can: timing"],
  ])("%j is refused, and no change of the request is applied", (changes, key, message) => {
    const options = optionsOf(CONSTANT);
    const before = options.read();
    const changed = options.changed({ "max-streams": 2, ...changes });
    if ("config" in changed) throw new Error("the change was accepted");
    expect([changed.key, changed.message]).toEqual([key, expect.stringContaining(message)]);
    expect(changed.message).toStartWith(message);
    expect(options.read()).toEqual(before);
  });

  test("they are refused if steps have no times, or without --compat", () => {
    expect(optionsOf("--compat llm-d-inference-sim").changed({ "inter-token-latency": "1ms" })).toMatchObject({
      key: "inter-token-latency",
      message: "timing: cannot change from or to none while the server runs",
    });
    const plain = optionsOf("--timing constant:ttft=1s,itl=10ms");
    expect(plain.changed({ "inter-token-latency": "1ms" })).toMatchObject({ key: "inter-token-latency" });
    expect(Object.keys(plain.read())).toEqual([...LIVE]);
  });

  test("any changes give a configuration, or an error whose key is one of the changes or null", () => {
    const value = fc.oneof(
      fc.constantFrom("5ms", "1s", "0", "2h", "per-token", "constant", ""),
      fc.double(),
      fc.nat(300),
      fc.constant(null),
      fc.array(fc.string()),
    );
    const name = fc.constantFrom(...LATENCIES, "timing", "jitter", "max-streams");
    fc.assert(
      fc.property(fc.array(fc.dictionary(name, value, { maxKeys: 4 }), { maxLength: 4 }), (all) => {
        const options = optionsOf(CONSTANT);
        for (const changes of all) {
          const before = options.read();
          const changed = options.changed(changes);
          expect(options.read()).toEqual(before);
          if ("config" in changed) changed.keep();
          else if (changed.key !== null) expect(Object.keys(changes)).toContain(changed.key);
        }
      }),
    );
  });
});

test("docs/how-to/admin.md names each live option, and each one is an option of serve", () => {
  const text = readFileSync(new URL("../../../docs/how-to/admin.md", import.meta.url), "utf8");
  expect(LIVE.filter((name) => !(name in serveOptions) || !text.includes(`\`${name}\``))).toEqual([]);
  expect(LATENCIES.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
});
