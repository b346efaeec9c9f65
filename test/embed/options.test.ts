/** Tests that every option of a library server has an effect or is refused with a reason. In Bun; node.test.ts covers Node. */
import { expect, test } from "bun:test";
import { joinOptions, kvEventsOptions } from "../../src/cli/options/engine-options.ts";
import type { Option } from "../../src/cli/options/option.ts";
import { serveOptions } from "../../src/cli/options/serve-options.ts";
import { trtllmOptions, trtllmServeOptions } from "../../src/cli/options/trtllm-options.ts";
import { createServer } from "../../src/embed/bun.ts";
import type { ServerOptions } from "../../src/embed/server-face.ts";
import { serverSetup } from "../../src/embed/server-options.ts";

const setup = (options: object) => serverSetup(options as ServerOptions);
const camel = (name: string) => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
const refused = [
  "data-parallel-multi-port-external-lb",
  "config",
  "workers",
  "disable-uvicorn-access-log",
  "enable-log-requests",
  "uvicorn-log-level",
  "ready-file",
  "exit-with-parent",
  "print-config",
];

/** Other options that an option needs. */
const NEEDED: Readonly<Record<string, ServerOptions>> = {
  "enable-auto-tool-choice": { toolCallParser: "hermes" },
  "lora-modules": { enableLora: true },
  "max-loras": { enableLora: true },
  "ssl-keyfile": { sslCertfile: "cert.pem" },
  "ssl-ca-certs": { sslCertfile: "cert.pem", sslKeyfile: "key.pem" },
  "ssl-cert-reqs": { sslCertfile: "cert.pem", sslKeyfile: "key.pem", sslCaCerts: "ca.pem" },
  "dataset-table": { dataset: "rows.sqlite" },
  "dataset-in-memory": { dataset: "rows.sqlite" },
  "metrics-address": { metricsPort: 8002 },
  "truth-log-max-mb": { truthLog: "truth.jsonl" },
  "truth-log-files": { truthLog: "truth.jsonl" },
  "truth-wire": { truthLog: "truth.jsonl" },
  "tensor-parallel-size": { model: "Qwen/Qwen3-32B" },
  "show-hidden-metrics-for-version": { metricsProfile: "vllm-0.12" },
  "retry-after-form": { retryAfter: 5 },
};
/** The option that all other options of TensorRT-LLM's scheduler need. */
const SCHEDULER = "capacity-scheduler-policy";
const neededBy = (name: string): ServerOptions => {
  if (Object.hasOwn(trtllmServeOptions, name)) return { role: "trtllm-serve", maxModelLen: 4096 };
  if (Object.hasOwn(joinOptions, name)) return { role: "vllm-engine" };
  if (Object.hasOwn(kvEventsOptions, name) && name !== "kv-events-config")
    return { kvEventsConfig: { enable_kv_cache_events: true } };
  return Object.hasOwn(trtllmOptions, name) && name !== SCHEDULER
    ? { capacitySchedulerPolicy: "MAX_UTILIZATION", maxModelLen: 4096 }
    : (NEEDED[name] ?? {});
};
/** Example texts. Each option accepts one of them with an effect. */
const POOL = [
  ...[
    "1",
    "true",
    "2",
    "0.5",
    "false",
    "x=1",
    '["*"]',
    '{"temperature":1}',
    "x",
    "linear:base=4ms,prefill=1us,decode=1us",
  ],
  ...[
    "constant:7",
    "base=1ms",
    "integers=0:9",
    "share=0.1,alpha=2",
    "every=10s,for=1s",
    "0.13",
    "0.14",
    "priority",
    "echo",
  ],
  ...[
    "stuck-requests",
    "abort-counted",
    "histogram_latencies=true",
    '{"running-requests":1}',
    "hermes",
    "deepseek_r1",
    "both",
  ],
  ...[
    "429",
    "date",
    "vllm-0.12",
    "0.11",
    "none",
    "bun",
    "3",
    "20000",
    "rate_limit",
    "hash",
    "fp8",
    '{"request_tokens":[1]}',
    '{"enable_kv_cache_events":true}',
    "output-lost@3",
    "lost=0.1",
    "xxhash",
    "0.22.0",
    "llm-d-inference-sim",
    "batched",
    "GUARANTEED_NO_EVICT",
    "trtllm-serve",
    "EQUAL_PROGRESS",
    "scheduled",
    "B*",
    "output-lost@3",
    "16",
  ],
];
/** Options that the library accepts only as texts. */
const TEXT_ONLY = ["kv-transfer-time", "tool-arguments", "front-faults", "kv-event-faults"];

const without = (name: string) => setup(neededBy(name));
const shown = (value: unknown) => Bun.inspect(value, { depth: 9 });

/** Returns an example text that changes the server's configuration. */
function effective(name: string, option: Option): string | undefined {
  const plain = shown(without(name));
  return POOL.find((text) => {
    if (option.read([text]) === undefined) return false;
    try {
      return shown(setup({ ...neededBy(name), [camel(name)]: text })) !== plain;
    } catch {
      return false;
    }
  });
}

const options = Object.entries<Option>(serveOptions).filter(([name]) => !refused.includes(name));

test.each(options)("%s has an effect, as a text and as a value", (name, option) => {
  const text = effective(name, option);
  expect(text).toBeDefined();
  if (TEXT_ONLY.includes(name)) return;
  const as = (value: unknown) => shown(setup({ ...neededBy(name), [camel(name)]: value }));
  // The library accepts the value that the command line's text stands for.
  expect(as(option.read([text!]))).toBe(as(text));
});

test.each(refused)("%s has no meaning in the library and is refused with a reason", (name) => {
  expect(() => setup({ [camel(name)]: serveOptions[name as "config"].arity === "toggle" ? true : "1" })).toThrow(
    new RegExp(`^${camel(name)}: no such option here; \\w.* `),
  );
});

test("with adminKey, requests with the key change the running server, and others are refused", async () => {
  await using server = await started({ timing: "constant:ttft=20ms,itl=10ms", adminKey: "secret" });
  const change = (key: string) =>
    fetch(`${server.url}/admin/config`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ timing: "constant:ttft=9ms,itl=3ms" }),
    });
  expect((await change("other")).status).toBe(401);
  const changed = await change("secret");
  expect(changed.status).toBe(200);
  expect(await changed.json()).toMatchObject({ timing: "constant:ttft=9ms,itl=3ms" });
  await using plain = await started({ timing: "none" });
  expect((await fetch(`${plain.url}/admin/config`)).status).toBe(404);
});

test("compat applies the other stand-in's flags and defaults, but listens only on this machine", async () => {
  const { config, admin } = setup({
    compat: "llm-d-inference-sim",
    model: "my/model",
    timeToFirstToken: "30ms",
    interTokenLatency: "4ms",
    enableKvcache: true,
    kvCacheSize: 64,
    servedModelName: ["a", "b"],
    mode: "echo",
    adminKey: "secret",
    devMode: true,
  });
  expect(config).toMatchObject({
    listen: { host: "127.0.0.1", port: 0 },
    models: { servedModelNames: ["a", "b"], runtimeLora: true },
    openai: { front: { devMode: true } },
  });
  expect([config.text.echo, config.faults.errorHeader]).toEqual([true, true]);
  expect(config.engine).toMatchObject({
    maxNumSeqs: 5,
    maxModelLen: 1024,
    numGpuBlocks: 65,
    timing: { kind: "constant", ttftUs: 30_000, itlUs: 4000 },
  });
  expect(admin!.options.read()).toMatchObject({ "time-to-first-token": "30ms" });
  await using server = await started({ compat: "llm-d-inference-sim", model: "my/model", maxNumSeqs: 3 });
  expect(server.url).toStartWith("http://127.0.0.1:");
  expect((await fetch(`${server.url}/health/ready`)).status).toBe(200);
});

test.each<[object, string]>([
  [{ timeToFirstToken: "soon" }, "timeToFirstToken: "],
  [{ renderUrl: "http://x" }, "renderUrl: not supported; the built-in vocabulary or --tokenizer DIR counts tokens"],
  [{ enableKvcache: "yes" }, 'enableKvcache: takes true or false, not "yes"'],
  [{ nonsense: 1 }, "nonsense: no such option, neither of understudy serve nor of llm-d-inference-sim"],
  [{ workers: 2 }, "workers: no such option here; a server of the library is one process"],
  [{ compat: "other" }, 'compat: takes llm-d-inference-sim, not "other"'],
  [{ maxNumSeqs: 0 }, "maxNumSeqs: takes a whole number from 1 to 65536, not "],
])("with compat %j is refused with a reason", (more, why) => {
  expect(() => setup({ compat: "llm-d-inference-sim", model: "m", ...more })).toThrow(why);
  expect(() => setup({ compat: "llm-d-inference-sim", model: "m", ...more })).toThrow(TypeError);
});

test("without compat the other stand-in's flags are refused", () => {
  expect(() => setup({ timeToFirstToken: "30ms" })).toThrow("timeToFirstToken: no such option; there are model,");
});

async function started(options: object) {
  const server = createServer(options as ServerOptions);
  await server.ready;
  return { url: server.url, [Symbol.asyncDispose]: () => server.close() };
}
