/** Starts one of our servers for a scenario, on a copy of the scenario's models. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostedAs } from "../../hosted.ts";
import { main } from "../../program.ts";
import { startProgram } from "../../started-program.ts";
import type { Scenario, Step } from "./recordings.ts";

export const OWN_MODELS = new URL("../models", import.meta.url).pathname;
const START_MS = 60_000;

/** A server that plays a scenario. */
export interface LiveServer {
  readonly http: number;
  readonly grpc: number;
  /** Port of the metrics; 0 if there is none. */
  readonly metrics: number;
  readonly repository: string;
  signal(name: NodeJS.Signals): void;
  /** Waits for the exit code; null if the server still runs. */
  ended(withinMs: number): Promise<number | null>;
  stop(): Promise<void>;
}

/** `models`: folder of models that belongs to the recordings, or null. Its models lack our `behaviour.yaml`. */
export async function startLive({ server, name, steps, timed }: Scenario, models: string | null): Promise<LiveServer> {
  const base = mkdtempSync(join(tmpdir(), "triton-"));
  const repository = join(base, "models");
  mkdirSync(repository);
  for (const model of server.models) place(model, repository, models);
  const flags = [
    "--triton-version=2.51",
    `--model-repository=${repository}`,
    "--http-port=0",
    "--grpc-port=0",
    "--metrics-port=0",
    ...server.flags,
  ];
  const started = timed || steps.some(needsProcess) ? await ownProcess(name, flags) : await shared(flags);
  const portOf = (line: string) =>
    Number(new RegExp(`^ {2}${line} +(?:http://)?127\\.0\\.0\\.1:(\\d+)`, "m").exec(started.text())?.[1] ?? 0);
  return {
    http: portOf("listening"),
    grpc: portOf("grpc"),
    metrics: portOf("metrics"),
    repository,
    signal: started.signal,
    ended: started.ended,
    async stop() {
      await started.stop();
      rmSync(base, { recursive: true, force: true });
    },
  };
}

/**
 * Reports whether a step needs a process of its own, for signals or exit codes. Other scenarios without times share a process.
 */
const needsProcess = ({ signal, exit_within_ms }: Step) => signal !== undefined || exit_within_ms !== undefined;

interface RunningProcess extends Pick<LiveServer, "signal" | "ended" | "stop"> {
  text(): string;
}

async function shared(flags: readonly string[]): Promise<RunningProcess> {
  const { output, stop } = await hostedAs(["--role", "triton", ...flags]);
  const none = () => {
    throw new Error("the server has no process of its own");
  };
  return { text: output, signal: none, ended: none, stop: () => stop(0) };
}

async function ownProcess(name: string, flags: readonly string[]): Promise<RunningProcess> {
  const command = [process.execPath, main, "serve", "--role", "triton", ...flags];
  const isReady = (output: string) =>
    /^ {2}listening .* ms$/m.test(output) && /^( {2}try| {2}metrics|.*none)/m.test(output);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`${name}: the server did not start`)), START_MS);
  const started = Promise.race([startProgram(command, isReady), late.promise]);
  const server = await started.finally(() => clearTimeout(timer));
  return {
    text: server.output,
    signal: server.signal,
    ended: (ms) => Promise.race([server.exited, Bun.sleep(ms).then(() => null)]),
    stop: async () => void (await server.stop("SIGKILL")),
  };
}

/** Copies the recorded model, with the behaviour of our model of the same name, or of the model with the same Python code. */
function place(model: string, repository: string, models: string | null): void {
  const own = join(OWN_MODELS, model);
  const recorded = models === null ? own : join(models, model);
  const to = join(repository, model);
  cpSync(existsSync(recorded) ? recorded : own, to, { recursive: true });
  const behaviour = join(to, "behaviour.yaml");
  if (existsSync(behaviour)) return;
  const [named, coded] = [behaviourOf(model), behaviourOf(sameCode(to) ?? "")];
  const kind = (text: string | null) => text?.split("\n")[0];
  // Several models with different options share one code.
  const chosen = coded === null || kind(named) === kind(coded) ? named : coded;
  if (chosen !== null) writeFileSync(behaviour, chosen);
}

function behaviourOf(model: string): string | null {
  const file = join(OWN_MODELS, model, "behaviour.yaml");
  return model !== "" && existsSync(file) ? readFileSync(file, "utf8") : null;
}

/** Names of models by the hash of their recorded `model.py`, which is not part of this repository. */
const CODE: Readonly<Record<string, string>> = JSON.parse(
  readFileSync(new URL("../code.json", import.meta.url), "utf8"),
);

function sameCode(folder: string): string | undefined {
  const file = join(folder, "1", "model.py");
  if (!existsSync(file)) return undefined;
  return CODE[new Bun.CryptoHasher("sha256").update(readFileSync(file)).digest("hex")];
}
