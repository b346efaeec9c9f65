/**
 * Makes an hour of virtual load as Prometheus would have stored it: bursts, idle periods, clients that disconnect, and
 * refused requests.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seeded } from "../../src/base/random.ts";
import { atEnd } from "../at-end.ts";
import { main } from "../program.ts";
import { deploy, Prometheus, promtool, run } from "./prometheus.ts";

export const END_S = 3600;
/** A second in an idle period: every window of five minutes is empty, and the next load starts soon after. */
export const REST_S = 1490;
/** A pool that is small enough for preemptions, and a context that is too short for some prompts. */
const POOL = ["--max-model-len", "8192", "--num-gpu-blocks-override", "1600", "--block-size", "16"];
/** The pool limits the running requests, and bursts use all of the executor's places. */
const SERVER = [...POOL, "--max-num-seqs", "64"];
/** Options for metrics that pages only show on request. */
const SHOWN = ["summary_latencies", "histogram_latencies"].flatMap((name) => ["--metrics-config", `${name}=true`]);
const CLIENTS = ["--stop-share", "0.6", "--client-timeout", "1-90"];

/** Requests per second, each from one second of the hour on. */
const PHASES: readonly (readonly [fromS: number, rate: number])[] = [
  [0, 2],
  [600, 8],
  [900, 0],
  [1500, 1],
  [2400, 7],
  [2700, 3],
];

/** Returns a trace in Mooncake's format, in which prompts share blocks. Some prompts are longer than the context. */
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
  /** Output of the replay. */
  readonly output: string;
  stop(): Promise<void>;
}

let known: Promise<Hour> | null = null;

/** Returns the hour without options. All files of a process share it and must not stop it. */
export function sharedHour(): Promise<Hour> {
  if (known === null) {
    const started = hour();
    known = started;
    atEnd(async () => (await started).stop());
  }
  return known;
}

/**
 * Replays the trace, imports its metrics into a Prometheus, and computes the recorded series that we ship. `options` are for
 * the replay.
 */
export async function hour(...options: readonly string[]): Promise<Hour> {
  const folder = mkdtempSync(join(tmpdir(), "understudy-hour-"));
  const at = (name: string) => join(folder, name);
  const removeFolder = () => rmSync(folder, { recursive: true, force: true });
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
    // promtool evaluates the rules over the past and queries Prometheus, which reads new blocks only at its start.
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
        removeFolder();
      },
    };
  } catch (failure) {
    removeFolder();
    throw failure;
  }
}

async function done(running: ReturnType<typeof run>) {
  const result = await running;
  if (result.code !== 0) throw new Error(result.output);
  return result;
}
