/** What do changes of a running server's options make of its configuration? All of them, or an error that names one. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { LIVE, LiveOptions } from "../../src/cli/live-options.ts";
import { serveOptions } from "../../src/cli/options.ts";
import { resolveServeConfig } from "../../src/cli/serve-options.ts";

function optionsOf(words: string): LiveOptions {
  const resolved = resolveServeConfig(words.split(" ").filter(Boolean), {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return new LiveOptions(resolved.values);
}

test("changes count together, later ones on top of earlier ones; null is the default again", () => {
  const options = optionsOf("--timing constant:ttft=1s,itl=10ms --max-streams 5");
  const first = options.changed({
    timing: "linear:base=1ms,prefill=0ms,decode=0ms",
    limit_concurrency: 7,
    jitter: 0.1,
  });
  if (!("config" in first)) throw new Error(first.message);
  expect(first.config.engine).toMatchObject({ timing: { kind: "linear" }, noise: { jitterSigma: 0.1 } });
  expect(first.config.door).toMatchObject({ requests: 7, streams: 5 });
  expect(options.read()).toMatchObject({ timing: "constant:ttft=1s,itl=10ms", "limit-concurrency": null });
  first.keep();
  const second = options.changed({ "max-streams": null, "retry-after-form": ["seconds", "ms"], "retry-after": "2" });
  if (!("config" in second)) throw new Error(second.message);
  second.keep();
  expect(second.config.door).toMatchObject({
    ...{ requests: 7, streams: 0 },
    retryAfter: { seconds: 2, forms: ["seconds", "ms"] },
  });
  expect(options.read()).toMatchObject({ "limit-concurrency": 7, "max-streams": null, jitter: 0.1 });
});

test.each([
  [{ timing: "fast" }, "timing", 'timing: "fast": no such preset; it takes'],
  [{ "max-streams": -1 }, "max-streams", "max-streams: takes a whole number from 0"],
  [{ "max-streams": { a: 1 } }, "max-streams", 'max-streams: takes a whole number from 0 to 2147483647, not {"a":1}'],
  [{ "max-num-seqs": 5 }, "max-num-seqs", "max-num-seqs: cannot change in a server that runs; these can: timing"],
  [{ colour: "red" }, "colour", "colour: cannot change in a server that runs"],
  [{ timing: "none" }, "timing", "timing: steps without times cannot get them"],
  [
    { "enable-log-requests": "perhaps" },
    "enable-log-requests",
    'enable-log-requests: takes true or false, not "perhaps"',
  ],
])("%j is refused", (changes, key, message) => {
  const options = optionsOf("--timing constant:ttft=1s,itl=10ms");
  const before = options.read();
  const changed = options.changed({ "max-streams": 2, ...changes });
  if ("config" in changed) throw new Error("it was taken");
  expect(changed.key).toBe(key);
  expect(changed.message).toStartWith(message);
  expect(options.read()).toEqual(before);
});

test("jitter needs times", () => {
  const changed = optionsOf("--timing none").changed({ jitter: 0.5 });
  expect(changed).toMatchObject({ key: "jitter" });
});

test("any changes: a configuration, or one line that names one of them or none", () => {
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

test("docs/admin.md names each of them, and each is an option", () => {
  const text = readFileSync(new URL("../../docs/admin.md", import.meta.url), "utf8");
  expect(LIVE.filter((name) => !(name in serveOptions) || !text.includes(`\`${name}\``))).toEqual([]);
});
