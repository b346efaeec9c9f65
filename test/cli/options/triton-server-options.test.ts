/** Tests the configuration that follows from the flags of `serve --role triton`, and the refusals of invalid flags. */
import { expect, test } from "bun:test";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";

const resolve = (flags: readonly string[], env: Record<string, string> = {}) =>
  resolveServeConfig(["--role", "triton", ...flags], env, () => "");

function tritonOf(flags: readonly string[]) {
  const resolved = resolve(flags);
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved;
}

test("defaults are Triton's", () => {
  const { config } = tritonOf([]);
  expect(config.role).toBe("triton");
  expect(config.triton).toMatchObject({
    version: "2.73",
    id: "triton",
    repository: { control: "none", strictReadiness: true },
    http: { host: "127.0.0.1", port: 8000 },
    overHttp: { maxInputBytes: 67_108_864 },
    memory: { cacheBytes: null, clientSharedMemory: false },
    rateLimit: null,
    exit: { timeoutS: 30 },
  });
  expect(config.metrics.triton.listen).toEqual({ host: "127.0.0.1", port: 8002 });
  expect(tritonOf(["--triton-version=2.51"]).config.triton?.memory.clientSharedMemory).toBe(true);
});

test("flags are read in both forms, and repeated ones add up", () => {
  const { config, ignored } = tritonOf([
    "--model-repository=a",
    "--model-repository",
    "b",
    "--model-control-mode=explicit",
    "--load-model=x",
    "--allow-http=off",
    "--cache-config=local,size=4096",
    "--http-restricted-api=model-repository,logging:admin=yes",
    "--metrics-config=summary_latencies=true",
    "--http-thread-count=9",
    "--disable-auto-complete-config",
    "--id=mine",
    "--rate-limit=execution_count",
    "--rate-limit-resource=R1:10",
    "--rate-limit-resource=R2:5:1",
  ]);
  expect(ignored).toEqual(["--http-thread-count", "--disable-auto-complete-config"]);
  expect(config.metrics.triton.quantiles).toHaveLength(5);
  expect(config.triton).toMatchObject({
    id: "mine",
    repository: { folders: ["a", "b"], control: "explicit", loadModels: ["x"] },
    http: null,
    memory: { cacheBytes: 4096 },
    rateLimit: [
      { name: "R1", count: 10, device: -1 },
      { name: "R2", count: 5, device: 1 },
    ],
    overHttp: { restricted: [{ apis: ["model-repository", "logging"], header: "admin", value: "yes" }] },
  });
});

/** The flags of Triton's `command_line_parser.cc` that have no effect here. */
const WITHOUT_EFFECT = `
  allow-sagemaker allow-vertex-ai backend-config backend-directory buffer-manager-thread-count cache-directory
  cuda-memory-pool-byte-size cuda-virtual-address-size enable-peer-access grpc-http2-max-pings-without-data grpc-infer-allocation-pool-size
  grpc-infer-thread-count grpc-max-response-pool-size host-policy http-thread-count min-supported-compute-capability
  model-config-name model-load-retry-count model-load-thread-count repoagent-directory reuse-grpc-port reuse-http-port
  sagemaker-port sagemaker-safe-port-range sagemaker-thread-count strict-model-config trace-config trace-count trace-file
  trace-level trace-log-frequency trace-rate vertex-ai-default-model vertex-ai-port vertex-ai-thread-count
`
  .trim()
  .split(/\s+/);

test("flags of tritonserver without an effect are accepted and listed", () => {
  const { ignored } = tritonOf(WITHOUT_EFFECT.map((name) => `--${name}=1`));
  expect(ignored).toEqual(WITHOUT_EFFECT.map((name) => `--${name}`));
});

test("values are accepted in every form that tritonserver accepts", () => {
  const { config } = tritonOf([
    "--model-store=a",
    "--model-control-mode=Explicit",
    "--rate-limit=EXECUTION_COUNT",
    "--grpc-infer-response-compression-level=HIGH",
    "--log-verbose=True",
    "--http-max-input-size=4294967296",
    "--pinned-memory-pool-byte-size=9223372036854775807",
    "--repository-poll-secs=0",
  ]);
  expect(config.triton).toMatchObject({
    repository: { folders: ["a"], control: "explicit", pollS: 0 },
    rateLimit: [],
    overGrpc: { compression: "high" },
    overHttp: { maxInputBytes: 2 ** 32 },
    memory: { pinnedBytes: Number.MAX_SAFE_INTEGER },
    log: { verbose: 1 },
  });
  expect(tritonOf(["--log-verbose=false"]).config.triton?.log.verbose).toBe(0);
  expect(tritonOf(["--log-verbose=3"]).config.triton?.log.verbose).toBe(3);
});

test("--log-file only sets the name that /v2/logging shows, and a notice says so", () => {
  const { config, notices } = tritonOf(["--log-file=x.log"]);
  expect(config.triton?.log.file).toBe("x.log");
  expect(notices).toEqual(["--log-file: nothing is written to the file; only /v2/logging shows its name"]);
});

test("the former option of the response cache is accepted", () => {
  expect(tritonOf(["--response-cache-byte-size=4096"]).config.triton?.memory.cacheBytes).toBe(4096);
});

test.each([
  [["--api-key=4"], "unrecognized option '--api-key'"],
  [["--max-batch-size=4"], "--max-batch-size: needs --capacity-scheduler-policy"],
  [["--http-prt=1"], "unrecognized option '--http-prt'; did you mean --http-port"],
  [
    ["--triton-version=2.51", "--allow-client-shm=true"],
    "unrecognized option '--allow-client-shm' (it exists in another --triton-version)",
  ],
  [["--triton-version=2.50"], '--triton-version: takes 2.51 or 2.73, not "2.50"'],
  [["--http-port"], "option '--http-port' requires an argument"],
  [["--http-port=x"], '--http-port: takes a whole number from 0 to 65535, not "x"'],
  [["--allow-http=maybe"], '--allow-http: takes true, on, 1, false, off or 0, not "maybe"'],
  [["model"], "Unexpected argument: model"],
  [["--load-model=a"], "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."],
  [["--cache-config=local"], "--cache-config option format is '<cache name>,<setting>=<value>'. Got local"],
  [["--cache-config=redis,host=x"], "--cache-config redis,host=x: must be local,size=BYTES"],
  [["--cache-config=local,size=4096", "--response-cache-byte-size=4096"], "Error: Incompatible flags"],
  [["--response-cache-byte-size=x"], "--response-cache-byte-size: takes a whole number of 64 bits from 0"],
  [["--http-port=0", "--http-port=70000"], 'not "70000"'],
  [
    ["--http-restricted-api=health:a=b", "--http-restricted-api=metadata,health:c=d"],
    "--http-restricted-api: restricted api 'health' can not be specified in multiple config groups",
  ],
  [
    ["--grpc-restricted-protocol=health,health:a=b"],
    "--grpc-restricted-protocol: restricted protocol 'health' can not be specified in multiple config groups",
  ],
  [["--http-restricted-api=nope:a=b"], "unknown restricted api 'nope'"],
  [["--http-max-input-size=0"], '--http-max-input-size: takes a whole number of 64 bits from 1, not "0"'],
  [["--http-max-input-size=9223372036854775808"], "--http-max-input-size: takes a whole number of 64 bits from 1"],
  [["--log-verbose=yes"], '--log-verbose: takes a whole number from 0 to 2147483647, true or false, not "yes"'],
  [["--constructor=1"], "unrecognized option '--constructor'"],
  [["--rate-limit=fast"], '--rate-limit: takes off or execution_count, not "fast"'],
  [
    ["--rate-limit-resource=R1"],
    "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got R1",
  ],
  [
    ["--metrics-config", "summary_latencies=true", "histogram_latencies=true"],
    "Unexpected argument: histogram_latencies=true",
  ],
  [["--metrics-config=x"], "--metrics-config option format is <setting>=<value>. Got x"],
  [["--metrics-port=8000"], "8000 is the port of the server"],
])("the command line is refused with one line: %p", (flags, why) => {
  const resolved = resolve(flags);
  if (!("error" in resolved)) throw new Error("the flags were accepted");
  expect(resolved.error).toContain(why);
  expect(resolved.error).not.toContain("\n");
});

test("the role is set by a flag, the environment or a file, and has a separate help", () => {
  const byEnvironment = resolveServeConfig([], { UNDERSTUDY_ROLE: "triton" }, () => "");
  expect("config" in byEnvironment && byEnvironment.config.role).toBe("triton");
  const help = resolve(["--help=all"]);
  expect("help" in help && help.help).toContain("--model-repository=PATH");
  const word = resolve(["--help=http"]);
  expect("help" in word && word.help).not.toContain("--model-repository");
  const file = resolveServeConfig(["--config", "f.yaml"], {}, () => "role: triton\n");
  expect("config" in file && file.config.role).toBe("triton");
});
