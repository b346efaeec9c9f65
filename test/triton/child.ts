/** Starts a Triton server of ours, as a child process or in the process that all tests' servers share. */
import { type HostedServer, hostedAs } from "../hosted.ts";
import { main } from "../program.ts";
import { type StartedProgram, startProgram } from "../started-program.ts";

interface TritonPorts {
  readonly url: string;
  /** Port of gRPC; 0 if gRPC is off. */
  readonly grpc: number;
  /** URL of the metrics port; "" if there is none. */
  readonly metrics: string;
  /** URL of the OpenAI front end; "" if it is off. */
  readonly openai: string;
}

export type TritonHosted = HostedServer & TritonPorts;

export type TritonChild = TritonPorts & StartedProgram;

const PORTS = ["--http-port=0", "--grpc-port=0", "--metrics-port=0"];

/** Starts a server in the shared process. Rejects with the error line if the flags are refused. */
export async function hostTriton(flags: readonly string[]): Promise<TritonHosted> {
  const server = await hostedAs(["--role", "triton", ...PORTS, ...flags]);
  return { ...server, ...portsIn(server.output()) };
}

/** Reads the addresses from the start message. */
function portsIn(text: string): TritonPorts {
  const of = (line: string) => new RegExp(`^ {2}${line} +(http://127\\.0\\.0\\.1:\\d+)`, "m").exec(text)?.[1] ?? "";
  return {
    url: of("listening"),
    grpc: Number(/^ {2}grpc +\S+:(\d+)$/m.exec(text)?.[1] ?? 0),
    metrics: of("metrics"),
    openai: of("openai"),
  };
}

/** Starts a child process. Resolves when it listens on free ports; rejects with its output if it ends before. */
export async function startTriton(
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<TritonChild> {
  const command = [process.execPath, main, "serve", "--role", "triton", ...PORTS, ...flags];
  const hasPorts = (output: string) => /^ {2}(metrics|openai) .*\n/m.test(output);
  const server = await startProgram(command, hasPorts, { env: { ...process.env, ...env } });
  return { ...server, ...portsIn(server.output()) };
}
