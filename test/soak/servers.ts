/** Starts the three servers of a soak run next to each other, each with the options that keep state. */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { main } from "../program.ts";
import { eventually } from "../server.ts";

export const ADMIN_KEY = "soak";
export const MODEL = "soak/model";

export type RoleName = "vllm" | "triton" | "trtllm-serve";

export interface SoakServer {
  readonly role: RoleName;
  readonly pid: number;
  readonly url: string;
  /** URL of the page that `understudy check` reads. */
  readonly metricsUrl: string;
  /** Port of gRPC; 0 if the role has none. */
  readonly grpcPort: number;
  /** The last 64 KiB that the server printed. */
  readonly output: () => string;
  /** The exit code or signal; null while the server runs. */
  readonly ended: () => string | null;
  readonly stop: () => Promise<number>;
}

/** Folders that the servers read again while they run. */
export interface SoakFolders {
  readonly base: string;
  readonly fixtures: string;
  readonly models: string;
}

export function makeFolders(base: string): SoakFolders {
  const folders = { base, fixtures: join(base, "fixtures"), models: join(base, "models") };
  mkdirSync(folders.fixtures, { recursive: true });
  cpSync(new URL("../../src/servers/triton/shipped", import.meta.url), folders.models, { recursive: true });
  writeFixture(folders, 0);
  return folders;
}

/** Writes the fixture file. Each version has a different answer, so that the server replaces its set of fixtures. */
export function writeFixture({ fixtures }: SoakFolders, version: number): void {
  const text = `fixtures:\n  - match: { user: { contains: fixture-question } }\n    answer: This is answer ${version} from a file.\n`;
  writeFileSync(join(fixtures, "soak.yaml"), text);
}

const TIMING = ["--timing", "constant:ttft=30ms,itl=10ms"];

const flagsOf = ({ base, fixtures, models }: SoakFolders): Record<RoleName, readonly string[]> => ({
  vllm: [
    ...["--port", "0", "--served-model-name", MODEL, ...TIMING, "--max-num-seqs", "256", "--max-model-len", "8192"],
    ...["--num-gpu-blocks-override", "8192", "--admin-key", ADMIN_KEY, "--fixtures", fixtures, "--keep-bodies"],
    ...["--truth-log", join(base, "truth.jsonl"), "--truth-log-max-mb", "16", "--truth-log-files", "2"],
    ...["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"],
  ],
  triton: [
    ...["--role", "triton", "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--model-repository", models],
    ...["--model-control-mode=explicit", "--load-model=*", "--metrics-config=histogram_latencies=true"],
  ],
  "trtllm-serve": [
    ...["--role", "trtllm-serve", "--port", "0", "--served-model-name", MODEL, ...TIMING, "--max-batch-size", "256"],
    ...["--return-perf-metrics", "--perf-metrics-max-requests", "1000"],
  ],
});

export async function startAll(folders: SoakFolders): Promise<SoakServer[]> {
  const flags = flagsOf(folders);
  return Promise.all((Object.keys(flags) as RoleName[]).map((role) => start(role, flags[role], folders.base)));
}

const OUTPUT_CHARACTERS = 65_536;

async function start(role: RoleName, flags: readonly string[], base: string): Promise<SoakServer> {
  const readyFile = join(base, `${role}.json`);
  const child = Bun.spawn(
    [
      process.execPath,
      main,
      "serve",
      ...flags,
      `--ready-file=${readyFile}`,
      ...(role === "triton" ? ["--exit-with-parent=true"] : ["--exit-with-parent"]),
    ],
    {
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    void (async () => {
      const decoder = new TextDecoder();
      for await (const part of stream)
        output = (output + decoder.decode(part, { stream: true })).slice(-OUTPUT_CHARACTERS);
    })();
  }
  const ended = () => (child.exitCode === null ? (child.signalCode as string | null) : `code ${child.exitCode}`);
  await eventually(() => existsSync(readyFile) || ended() !== null, 3000);
  if (ended() !== null) throw new Error(`the ${role} server ended with ${ended()}:\n${output}`);
  const { url, metricsUrl, grpcUrl } = JSON.parse(readFileSync(readyFile, "utf8"));
  return {
    role,
    pid: child.pid,
    url,
    metricsUrl:
      role === "vllm" ? `${url}/metrics` : role === "triton" ? `${metricsUrl}/metrics` : `${url}/prometheus/metrics`,
    grpcPort: Number(/:(\d+)$/.exec(grpcUrl ?? "")?.[1] ?? 0),
    output: () => output,
    ended,
    stop: async () => {
      child.kill("SIGTERM");
      return child.exited;
    },
  };
}
