/** `understudy replay --role triton`: sends the requests of a trace to a model through Triton's schedulers, in simulated time. */

import type { ServeConfig } from "../../app/config/serve-config.ts";
import { WallClock, wallUs } from "../../base/clock.ts";
import { printableJson } from "../../base/printable.ts";
import { seeded } from "../../base/random.ts";
import { VirtualClock } from "../../base/virtual-clock.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import { TritonServer } from "../../servers/triton/inference/server.ts";
import { isLlmApi, type ModelConfig } from "../../servers/triton/model-config/model-config.ts";
import { TritonError } from "../../servers/triton/model-config/status.ts";
import { deviceMemory } from "../../servers/triton/triton-memory.ts";
import { replayPage } from "../../tools/replay/triton/page.ts";
import { TritonReplay } from "../../tools/replay/triton/replay.ts";
import { tritonResults, tritonTable } from "../../tools/replay/triton/results.ts";
import { openTrace } from "../../workloads/open.ts";
import { requests } from "../../workloads/requests.ts";
import type { Trace } from "../../workloads/trace.ts";
import { freeText, inGroup } from "../options/option.ts";
import { takeOptions } from "../options/take-options.ts";
import { tritonServerConfig } from "../options/triton-server-config.ts";
import { OutFile, overwritten } from "../out-file.ts";
import { printText } from "../print.ts";
import { refuser } from "../refuse.ts";
import { SHIPPED_MODELS } from "../serve/resolve.ts";
import { traceOptionsOf } from "../trace-options.ts";
import { type ReplayValues, takeReplayOptions } from "./replay-options.ts";
import { progressOf } from "./replay-progress.ts";
import { BadLines, printRows, selectionOf, untilUsOf } from "./selection.ts";

/** Options of `understudy replay` that are also accepted with --role triton. */
const TAKEN: readonly string[] = [
  "format",
  "timestamp-unit",
  "hash-block-tokens",
  "trace-models",
  "trace-log-types",
  "limit",
  "rate-scale",
  "until",
  "skip-bad",
  "json",
  "metrics",
];
const OWN = inGroup("Trace", {
  model: { ...freeText("NAME", "a model's name"), about: "Model that gets the requests." },
});

const HELP = `understudy replay TRACE --role triton --model NAME [options]

Sends a request of one item to a model of --model-repository at each arrival of the trace, in simulated time.
Options of replay: ${TAKEN.map((name) => `--${name}`).join(", ")}, as without --role;
all others are those of understudy serve --role triton (docs/how-to/replay.md).`;

const refuse = refuser("replay");

/** Runs the command. `argv`: the arguments after `replay`, without `--role`. Rejects with a TraceError. */
export async function replayTriton(argv: readonly string[]): Promise<void> {
  if (argv.some((token) => token === "--help" || token === "-h")) return printText(HELP);
  const read = readTritonReplay(argv);
  if ("error" in read) return refuse(read.error);
  const { path, values } = read;
  const why = overwritten(path === null ? [] : [path], { "--json": values.json, "--metrics": values.metrics });
  if (why !== undefined) return refuse(why);
  const trace = openTrace(path, values.format ?? null, traceOptionsOf(values));
  await runTrace({ ...read, trace, name: path ?? values.format! });
}

/** Parses the arguments without opening any file. */
export function readTritonReplay(argv: readonly string[]) {
  const own = takeReplayOptions(argv);
  if ("error" in own) return own;
  const { values } = own;
  const foreign = Object.keys(values).find((name) => !TAKEN.includes(name));
  if (foreign !== undefined)
    return { error: `--${foreign}: not with --role triton, which accepts ${TAKEN.join(", ")}` };
  const asked = takeOptions(OWN, own.rest);
  if ("error" in asked) return asked;
  const model: string | undefined = asked.values.model;
  if (model === undefined)
    return { error: "--model: is required; it names the model of --model-repository that gets the requests" };
  const [first = "", ...more] = asked.rest;
  const path: string | null = first === "" || first.startsWith("-") ? null : first;
  const rest = path === null ? asked.rest : more;
  const loaded = rest.find((token) => /^--?(model-control-mode|load-model|repository-poll-secs)(=|$)/.test(token));
  if (loaded !== undefined) return { error: `${loaded}: not possible here; the model of --model is loaded` };
  const read = tritonServerConfig(["--model-control-mode=explicit", `--load-model=${model}`, ...rest], SHIPPED_MODELS);
  return "error" in read ? read : { path, model, values, config: read.config };
}

interface TritonRun {
  readonly trace: Trace;
  readonly name: string;
  readonly model: string;
  readonly values: ReplayValues;
  readonly config: ServeConfig;
}

async function runTrace({ trace, name, model, values, config }: TritonRun): Promise<void> {
  const open = (path: string | undefined) => (path === undefined ? null : new OutFile(path));
  const [json, metrics] = [open(values.json), open(values.metrics)];
  const clock = new VirtualClock();
  const server = serverOf(config, clock);
  const bad = new BadLines();
  const wanted = selectionOf(values, config.engine.seed, bad);
  const untilUs = untilUsOf(values);
  const progress = progressOf(trace, wanted.limit, untilUs);
  const wall = new WallClock();
  const replay = new TritonReplay({
    ...{ server, clock, wall, model, untilUs, pace: trace.pace, requests: requests(trace, name, wanted) },
    ...(process.stderr.isTTY && { onProgress: progress.show }),
  });
  const startUs = wallUs();
  try {
    const [failure] = await replay.load();
    if (failure !== undefined) return refuse(`--model-repository: ${failure.trim().split("\n")[0]}`);
  } catch (why) {
    return refuse(`--model-repository: ${(why as Error).message}`);
  }
  const durationUs = await replay.run();
  progress.clear();
  wall.close();
  trace.close();
  const about = { trace: { name, format: trace.format }, model, badLines: bad.count };
  const results = tritonResults(replay, server, durationUs, about);
  printText(tritonTable(results, wallUs() - startUs));
  bad.tell(name);
  printRows(trace);
  json?.end(`${printableJson(results, 2)}\n`);
  metrics?.end(replayPage(server, shownOf(config), clock.now()));
}

function serverOf(config: ServeConfig, clock: VirtualClock): TritonServer {
  const random = seeded(config.seed ?? 0);
  return new TritonServer({
    config: config.triton!,
    targets: config.metrics.triton.quantiles,
    clock,
    turns: { nowUs: () => clock.now() },
    backends: refused,
    memory: deviceMemory(config, config.triton!.memory, config.engine.timing),
    countsByGpu: config.metrics.triton.gpu,
    epochMs: (us) => us / 1000,
    random: () => random() / 2 ** 32,
    log: () => {},
  });
}

/** Refuses a language model, because it needs an engine: the message says to replay it without --role triton. */
function refused(config: ModelConfig): undefined {
  const { name, backend } = config;
  if (backend !== "vllm" && backend !== "tensorrtllm" && !isLlmApi(config)) return;
  throw new TritonError("UNSUPPORTED", `${name} is a language model: replay without --role triton runs its engine`);
}

function shownOf({ metrics: { triton }, triton: tritonServer, deployment: { preset } }: ServeConfig) {
  const { gpu, gpuMemoryBytes } = findPreset(preset)!;
  return { metrics: triton, pinnedBytes: tritonServer!.memory.pinnedBytes, gpu, gpuBytes: gpuMemoryBytes };
}
