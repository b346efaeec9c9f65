/** Starts a Triton server of ours, as a child process or in the process that all tests' servers share. */
import { type HostedServer, hostedAs } from "../hosted.ts";
import { main } from "../program.ts";

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

export interface TritonChild extends TritonPorts {
  /** Returns everything the process has printed so far. */
  readonly output: () => string;
  readonly pid: number;
  stop(signal?: NodeJS.Signals): Promise<number>;
}

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
  const child = Bun.spawn(command, { env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
  let text = "";
  const ready = Promise.withResolvers<void>();
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const part of stream) {
      text += decoder.decode(part, { stream: true });
      if (/^ {2}(metrics|openai) .*\n/m.test(text)) ready.resolve();
    }
  };
  const ends = Promise.all([read(child.stdout), read(child.stderr)]);
  void child.exited.then(async (code) => {
    await ends;
    ready.reject(new Error(`the server ended with ${code}:\n${text}`));
  });
  await ready.promise;
  return {
    ...portsIn(text),
    output: () => text,
    pid: child.pid,
    stop: async (signal = "SIGTERM") => {
      child.kill(signal);
      return child.exited;
    },
  };
}
