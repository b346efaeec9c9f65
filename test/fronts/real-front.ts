/** Starts one of vLLM's own front ends, for an engine of ours that joins it. */
import { freePort } from "../../src/cli/front/free-port.ts";
import { startProgram } from "../started-program.ts";
import { PYTHON_FRONT } from "./python-front.ts";
import { program } from "./vllm-rs.ts";

export type FrontName = "python" | "vllm-rs";

export interface RealFront {
  readonly port: number;
  readonly pid: number;
  readonly output: () => string;
  stop(): Promise<unknown>;
}

interface FrontPlace {
  readonly rpcPort: number;
  /** Folder in which `model` is the model. */
  readonly folder: string;
  readonly flags: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const FRONTS = {
  "vllm-rs": { command: [program, "serve"], ready: "ready to accept requests" },
  python: { command: PYTHON_FRONT, ready: "Application startup complete" },
} as const;
/** Keeps the Python package from looking for a hub, and from sending reports. */
const OFFLINE = { HF_HUB_OFFLINE: "1", VLLM_NO_USAGE_STATS: "1", VLLM_DO_NOT_TRACK: "1" };

/** Resolves when the front end has opened its port, which is when the engine has joined. */
export async function startFront(
  name: FrontName,
  { rpcPort, folder, flags, env = {} }: FrontPlace,
): Promise<RealFront> {
  const port = await freePort();
  const { command, ready } = FRONTS[name];
  const words = [
    ...[...command, "model", "--host", "127.0.0.1", "--port", `${port}`, "--data-parallel-size-local", "0"],
    ...["--data-parallel-address", "127.0.0.1", "--data-parallel-rpc-port", `${rpcPort}`, ...flags],
  ];
  const place = { cwd: folder, env: { ...process.env, ...OFFLINE, ...env } };
  const { pid, output, stop } = await startProgram(words, (text) => text.includes(ready), place);
  // Python's front end says that it is ready before it listens. It has bound its port, so that no other socket takes it.
  while (
    !(await fetch(`http://127.0.0.1:${port}/health`)
      .then(({ ok }) => ok)
      .catch(() => false))
  )
    await Bun.sleep(20);
  return { port, pid, output, stop };
}
