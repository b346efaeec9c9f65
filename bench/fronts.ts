/**
 * Measures our engine behind the real front end `vllm-rs`: 2,000 streams at 20 ms on two cores. Reports the engine's share of the
 * CPU time of both, and the punctuality of its steps with the front end and without one. Also reports the tokens per second and
 * core of the front end, at that pace and at full speed.
 *
 *   bun run bench fronts [--streams 2000] [--seconds 15] [--itl-ms 20] [--realtime] [--no-save]
 *
 * `npx bun run test fronts` fetches `vllm-rs`. Its requests are chats of the tests' model. Without a front end, our own server
 * streams the same tokens to the same reader.
 */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RealFront, startFront } from "../test/fronts/real-front.ts";
import { isHere, MODEL } from "../test/fronts/vllm-rs.ts";
import { bars, note, options, progress, root, save, table } from "./lib/bench.ts";
import { chat, complete, doubles, read } from "./lib/client.ts";
import { cpuUs, freePort, type RunningServer, residentMb, serve } from "./lib/servers.ts";
import { mainRun } from "./stream/steps.ts";

const asked = options({ streams: 2000, seconds: 15, "itl-ms": 20 }, ["--realtime"]);
const { streams, seconds, "itl-ms": itlMs } = asked;
/** Seconds of warm-up with as many streams. */
const WARM_S = 5;
const SHARE_BAR = 0.15;
/** Steps may be as late as without a front end, and by this much more, because both share the cores. */
const LATE_SLACK_US = 500;
/** Tokens of each answer at full speed. */
const FAST_TOKENS = 200;
const FAST_STREAMS = 200;

if (!isHere()) {
  console.error("vllm-rs is missing: npx bun run test fronts fetches it");
  process.exit(2);
}
const logged = `${root}build/bench/front-steps.f64`;
const flagsAt = (timing: string) => [
  ...["--tokenizer", MODEL, "--served-model-name", "golden", "--seed", "1", "--max-model-len", "1024"],
  ...["--timing", timing, "--max-num-seqs", String(streams + 64), "--num-gpu-blocks-override", "524288"],
];
const bodyOf = (tokens: number) => ({ model: "golden", ...chat("Tell me about the weather.", tokens, { seed: 1 }) });

/** CPU time of processes and the events of streams. */
interface Measurement {
  readonly tokens: number;
  readonly events: number;
  readonly wallS: number;
  readonly engineUs: number;
  readonly frontUs: number;
}

async function measured(
  port: number,
  pids: readonly [number, number | null],
  count: number,
  tokens: number,
): Promise<Measurement> {
  const spent = () => pids.map((pid) => (pid === null ? 0 : cpuUs(pid)));
  const before = spent();
  const fromMs = performance.now();
  const result = complete(await read({ port, body: bodyOf(tokens), streams: count, together: true }), count);
  const wallS = (performance.now() - fromMs) / 1000;
  const [engineUs, frontUs] = spent().map((us, at) => us - before[at]!) as [number, number];
  return { tokens: count * tokens, events: result.events, wallS, engineUs, frontUs };
}

/** Starts an engine with `timing` and `vllm-rs` in front of it. */
async function withFront<T>(timing: string, act: (engine: RunningServer, front: RealFront) => Promise<T>): Promise<T> {
  const rpcPort = freePort();
  const folder = mkdtempSync(join(tmpdir(), "understudy-bench-"));
  symlinkSync(MODEL, join(folder, "model"));
  const joined = ["--role", "vllm-engine", "--data-parallel-rpc-port", `${rpcPort}`];
  const env = { UNDERSTUDY_STEP_LOG: logged };
  // The engine is ready once the front end has it, so that both start together.
  const starting = serve([...joined, ...flagsAt(timing)], { core: null, env });
  const front = await startFront("vllm-rs", { rpcPort, folder, flags: ["--served-model-name", "golden"] });
  const engine = await starting;
  try {
    return await act(engine, front);
  } finally {
    await front.stop();
    await engine.stop();
    rmSync(folder, { recursive: true });
  }
}

const paced = `constant:ttft=100ms,itl=${itlMs}ms`;
const tokens = Math.min(900, Math.round((seconds * 1000) / itlMs));
const warm = Math.round((WARM_S * 1000) / itlMs);

progress("behind vllm-rs");
const behind = await withFront(paced, async (engine, front) => {
  const pids = [engine.pid, front.pid] as const;
  await measured(front.port, pids, streams, warm);
  await Bun.sleep(1500); // separates the warm-up from the measured run in the log of steps
  const run = await measured(front.port, pids, streams, tokens);
  return { ...run, engineMb: residentMb(engine.pid), frontMb: residentMb(front.pid) };
});
const behindSteps = mainRun(doubles(logged));

progress("without a front end");
const server = await serve([...flagsAt(paced)], { core: null, env: { UNDERSTUDY_STEP_LOG: logged } });
await measured(server.port, [server.pid, null], streams, warm);
await Bun.sleep(1500);
const alone = await measured(server.port, [server.pid, null], streams, tokens);
await server.stop();
const aloneSteps = mainRun(doubles(logged));

progress("vllm-rs at full speed");
const fast = await withFront("none", async (engine, front) => {
  const pids = [engine.pid, front.pid] as const;
  await measured(front.port, pids, FAST_STREAMS, FAST_TOKENS);
  return measured(front.port, pids, FAST_STREAMS, FAST_TOKENS);
});

const share = behind.engineUs / (behind.engineUs + behind.frontUs);
const cores = (us: number, { wallS }: Measurement) => us / 1e6 / wallS;
const perCore = ({ tokens, frontUs }: Measurement) => Math.round(tokens / (frontUs / 1e6));
table(`${streams} streams at ${itlMs} ms`, [
  ["", "behind vllm-rs", "without a front end"],
  ["engine, cores", cores(behind.engineUs, behind), cores(alone.engineUs, alone)],
  ["front end, cores", cores(behind.frontUs, behind), ""],
  ["engine, µs per token", behind.engineUs / behind.tokens, alone.engineUs / alone.tokens],
  ["front end, µs per token", behind.frontUs / behind.tokens, ""],
  ["tokens per second", Math.round(behind.tokens / behind.wallS), Math.round(alone.tokens / alone.wallS)],
  ["step late, p50 µs", behindSteps.lateP50Us, aloneSteps.lateP50Us],
  ["step late, p99 µs", behindSteps.lateP99Us, aloneSteps.lateP99Us],
  ["step late, max µs", behindSteps.lateMaxUs, aloneSteps.lateMaxUs],
  ["RSS of the engine, MB", behind.engineMb, ""],
  ["RSS of the front end, MB", behind.frontMb, ""],
]);
const perSecondAndCore = { paced: perCore(behind), fullSpeed: perCore(fast) };
note(
  `vllm-rs: ${perSecondAndCore.paced} tokens per second and core at this pace, ${perSecondAndCore.fullSpeed} at full speed`,
);
const held = bars(
  ["engine's share of the CPU time", share, SHARE_BAR, ""],
  ["step late, p99", behindSteps.lateP99Us, aloneSteps.lateP99Us + LATE_SLACK_US, "µs"],
);
save("fronts", {
  ...{ streams, itlMs, share, perSecondAndCore, held },
  ...{ behind: { ...behind, steps: behindSteps }, alone: { ...alone, steps: aloneSteps }, fast },
});
