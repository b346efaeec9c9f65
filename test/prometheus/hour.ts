/** An hour of virtual load, as Prometheus would have it stored: bursts, quiet, rest, clients that leave, what is refused. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seeded } from "../../src/base/random.ts";
import { atEnd } from "../at-end.ts";
import { main } from "../program.ts";
import { deploy, Prometheus, promtool, run } from "./prometheus.ts";

export const END_S = 3600;
/** So long after the last end that every window of five minutes is empty, and shortly before load comes back. */
export const REST_S = 1490;
/** What the load leaves in the pool is small enough to preempt, and prompts above the context are refused. */
const POOL = ["--max-model-len", "8192", "--num-gpu-blocks-override", "1600", "--block-size", "16"];
/** The pool runs as few at once; an executor's places are all taken when the bursts come. */
const SERVER = [...POOL, "--max-num-seqs", "64"];
/** Everything that the pages show only when asked. */
const SHOWN = ["summary_latencies", "histogram_latencies"].flatMap((name) => ["--metrics-config", `${name}=true`]);
const CLIENTS = ["--stop-share", "0.6", "--client-timeout", "1-90"];

/** Requests per second from one second on. */
const PHASES: readonly (readonly [fromS: number, rate: number])[] = [
  [0, 2],
  [600, 8],
  [900, 0],
  [1500, 1],
  [2400, 7],
  [2700, 3],
];

/** Mooncake's format, since there prompts share blocks; some prompts are longer than the context. */
export function trace(): string {
  const random = seeded(7);
  const below = (limit: number) => Math.floor((random() / 2 ** 32) * limit);
  const lines: string[] = [];
  const conversations = new Map<number, number[]>();
  let id = 1;
  PHASES.forEach(([fromS, rate], index) => {
    const toS = PHASES[index + 1]?.[0] ?? END_S;
    for (let n = 0; n < (toS - fromS) * rate; n++) {
      const timestamp = Math.round(1000 * (fromS + n / rate));
      const conversation = below(40);
      const shared = conversations.get(conversation) ?? [];
      if (below(8) === 0) shared.length = 0;
      if (shared.length < 8) shared.push(id++);
      conversations.set(conversation, shared);
      const input_length = below(50) === 0 ? 9000 : 512 * (shared.length - 1) + 1 + below(512);
      const hash_ids = input_length === 9000 ? [] : shared;
      lines.push(JSON.stringify({ timestamp, input_length, output_length: 1 + below(500), hash_ids }));
    }
  });
  return `${lines.join("\n")}\n`;
}

export interface Hour {
  readonly prometheus: Prometheus;
  /** What the replay printed. */
  readonly output: string;
  stop(): Promise<void>;
}

let known: Promise<Hour> | null = null;

/** The hour without options, made once for all files of a process, which do not stop it. */
export function sharedHour(): Promise<Hour> {
  if (known === null) {
    const made = hour();
    known = made;
    atEnd(async () => (await made).stop());
  }
  return known;
}

/** Replays, imports, serves, and works out the recorded series that we ship. `options` are the replay's. */
export async function hour(...options: readonly string[]): Promise<Hour> {
  const folder = mkdtempSync(join(tmpdir(), "understudy-hour-"));
  const at = (name: string) => join(folder, name);
  const gone = () => rmSync(folder, { recursive: true, force: true });
  try {
    writeFileSync(at("trace.jsonl"), trace());
    writeFileSync(at("prometheus.yml"), "global: {}\n");
    mkdirSync(at("data"));
    const command = [
      "replay",
      at("trace.jsonl"),
      ...SERVER,
      ...SHOWN,
      "--enable-lora",
      ...CLIENTS,
      "--openmetrics",
      at("hour.om"),
      ...options,
    ];
    const { output } = await done(run([process.execPath, main, ...command]));
    await done(promtool("tsdb", "create-blocks-from", "openmetrics", at("hour.om"), at("data")));
    let prometheus = await Prometheus.start(at("prometheus.yml"), at("data"));
    // Rules are evaluated over the past by promtool, which asks Prometheus; blocks are read at the start.
    const rules = ["--start", "0", "--end", `${END_S}`, "--eval-interval", "15s", "--url", prometheus.url];
    const file = `${deploy}prometheus/rules/recording.yml`;
    await done(promtool("tsdb", "create-blocks-from", "rules", ...rules, "--output-dir", at("data"), file));
    await prometheus.stop();
    prometheus = await Prometheus.start(at("prometheus.yml"), at("data"));
    return {
      prometheus,
      output,
      stop: async () => {
        await prometheus.stop();
        gone();
      },
    };
  } catch (failure) {
    gone();
    throw failure;
  }
}

async function done(running: ReturnType<typeof run>) {
  const ran = await running;
  if (ran.code !== 0) throw new Error(ran.output);
  return ran;
}
