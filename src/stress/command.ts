/** How does a program of yours go through a case? Started with the case's address in its environment; its output is the text, its exit code says whether it saw an error. */
import type { StressClient } from "./run.ts";
import type { SeenAnswer } from "./seen.ts";

/** Output that is kept. */
const OUTPUT_MOST = 16 * 2 ** 20;
/** Exit codes of shells for programs that a signal ended. */
const SIGNALS_FROM = 128;

/** `{url}` in an argument is the address. */
export function commandClient(
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
): StressClient {
  return async ({ url, id, signal }) => {
    const child = Bun.spawn(
      command.map((word) => word.replaceAll("{url}", url)),
      {
        env: {
          ...env,
          OPENAI_BASE_URL: url,
          OPENAI_API_KEY: "understudy",
          ANTHROPIC_BASE_URL: url.replace(/\/v1$/, ""),
          ANTHROPIC_API_KEY: "understudy",
          UNDERSTUDY_MODEL: "m",
          UNDERSTUDY_CASE: id,
          UNDERSTUDY_TIMEOUT_MS: `${timeoutMs}`,
        },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
      },
    );
    // Whatever it does with a polite signal: nothing is left running.
    signal.addEventListener("abort", () => child.kill("SIGKILL"));
    const [output, complaint, code] = await Promise.all([textOf(child.stdout), textOf(child.stderr), child.exited]);
    const crashed = child.signalCode !== null || code >= SIGNALS_FROM;
    return {
      text: output.replace(/\n$/, ""),
      finish: null,
      usage: null,
      error: code === 0 ? null : complaint.trim().split("\n").at(-1) || `exit code ${code}`,
      own: null,
      ended: crashed ? "crashed" : "answered",
    } satisfies SeenAnswer;
  };
}

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.length;
    if (bytes <= OUTPUT_MOST) parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
