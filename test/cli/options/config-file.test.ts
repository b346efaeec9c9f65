/** Tests that a bad configuration file is refused with a message, whatever the role, and in a time that follows its size. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { yamlMapping } from "../../../src/cli/options/config-file.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { cpuUs } from "../../cpu.ts";
import { times } from "../../size.ts";

const FILES = [
  "role: vllm\nport: 8000\nserved-model-name: [a, b]\nkv_cache_config: {dtype: fp8}\ntiming: none\n",
  "role: triton\nhttp-port: 1234\nallow-metrics: false\nload-model: [a, b]\nmodel-control-mode: explicit\n",
  "role: trtllm-serve\nmax_batch_size: 4\nscheduler_config:\n  policy: MAX_UTILIZATION\n",
  'model: m\ntime-to-first-token: 100ms\nlora-modules: ["{\\"name\\":\\"a\\"}"]\nfake-metrics: {running-requests: 1}\n',
];
const COMMANDS = [[], ["--role=vllm"], ["--role=triton"], ["--role=trtllm-serve"], ["--compat=llm-d-inference-sim"]];

/** Parts that have a meaning in YAML or stand for other values. */
const JUNK = [
  ..."{}[]:,?-&*!|>'\"%@#\n\t \0\u001b\ufeff",
  "\n---\n",
  "\n...\n",
  "<<: ",
  "? [a]\n: ",
  "&a ",
  "*a",
  "!!binary ",
  "null",
  "1e400",
  "__proto__: 1\n",
  "[".repeat(3000),
  "{a: ".repeat(3000),
];

const files = fc
  .record({
    file: fc.constantFrom(...FILES),
    edits: fc.array(fc.record({ at: fc.nat(), cut: fc.nat(9), junk: fc.constantFrom("", ...JUNK) }), { maxLength: 4 }),
  })
  .map(({ file, edits }) =>
    edits.reduce((text, { at, cut, junk }) => {
      const from = at % (text.length + 1);
      return text.slice(0, from) + junk + text.slice(from + cut);
    }, file),
  );

test("a changed file gives a configuration or an error message for every role, and never throws", () => {
  const seen = { config: 0, error: 0 };
  fc.assert(
    fc.property(files, fc.constantFrom(...COMMANDS), (text, words) => {
      const resolved = resolveServeConfig([...words, "--config=f.yaml"], {}, () => text);
      if ("error" in resolved) expect(resolved.error).not.toBe("");
      else expect(resolved).toHaveProperty("config");
      seen["error" in resolved ? "error" : "config"]++;
    }),
    { seed: 1, numRuns: times(400) },
  );
  expect(Math.min(seen.config, seen.error)).toBeGreaterThan(2);
}, 60_000);

test("the time to read a file follows the number of its keys", () => {
  const us = (keys: number) => {
    const text = Array.from({ length: keys }, (_, at) => `a${at}: 1`).join("\n");
    return cpuUs(() => expect(yamlMapping(text, "f.yaml")).toHaveProperty("pairs"), 3);
  };
  us(2000);
  expect(us(32_000)).toBeLessThan(24 * us(4000));
}, 60_000);

test.each([
  ["port: 1\nport: 2", "f.yaml:2: not YAML: the key is written twice"],
  ["a: 1\nb:\n  c: 1\n  c: 2", "f.yaml:4: not YAML: the key is written twice"],
  ["port: 1\n---\nport: 2", "f.yaml:2: not YAML: more than one document"],
  ["[1]", 'f.yaml:1: takes a mapping of options, as in "port: 8000"'],
])("the file is no mapping: %j", (text, error) => {
  expect(yamlMapping(text, "f.yaml")).toEqual({ error });
});

test("a file with an unknown role is refused with all roles", () => {
  expect(resolveServeConfig(["--config=f.yaml"], {}, () => "port: 1\nrole: sglang")).toEqual({
    error: 'f.yaml:2: role: takes vllm or triton or trtllm-serve or vllm-engine, not "sglang"',
  });
});
