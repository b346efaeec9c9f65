/**
 * Runs each case in a new process of the user's program. The URL of the case is in its environment, its output is the text
 * that it read, and its exit code says whether it saw an error.
 */
import { TOOLS } from "./answers.ts";
import { ClientProcess, errorLine } from "./process.ts";
import type { StressClient } from "./run.ts";
import { clientReport } from "./seen.ts";

/** Maximum number of bytes of output that are kept. */
const OUTPUT_MOST = 16 * 2 ** 20;
/** Smallest exit code that shells use for programs that a signal ended. */
const SIGNALS_FROM = 128;

/** Returns the environment of a client program, for all ways to run cases. */
export const clientEnv = (env: Readonly<Record<string, string | undefined>>, timeoutMs: number) => ({
  ...env,
  OPENAI_API_KEY: "understudy",
  ANTHROPIC_API_KEY: "understudy",
  UNDERSTUDY_MODEL: "m",
  UNDERSTUDY_TIMEOUT_MS: `${timeoutMs}`,
});

/** Returns a client that starts `command` for each case. `{url}` in an argument is replaced by the URL of the case. */
export function commandClient(
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
): StressClient {
  return async ({ url, id, signal, withTools }) => {
    const child = new ClientProcess(
      command.map((word) => word.replaceAll("{url}", url)),
      {
        ...clientEnv(env, timeoutMs),
        OPENAI_BASE_URL: url,
        ANTHROPIC_BASE_URL: url.replace(/\/v1$/, ""),
        UNDERSTUDY_CASE: id,
        ...(withTools ? { UNDERSTUDY_TOOLS: JSON.stringify(TOOLS) } : {}),
      },
      "ignore",
    );
    signal.addEventListener("abort", () => child.leave());
    const [output, complaint, code] = await Promise.all([
      textOf(child.stdout, () => child.look()),
      textOf(child.stderr, () => child.look()),
      child.exited.finally(() => child.kill()),
    ]);
    const crashed = child.signal !== null || code >= SIGNALS_FROM;
    return clientReport({
      text: output.replace(/\n$/, ""),
      error: code === 0 ? null : errorLine(complaint) || `exit code ${code}`,
      ended: crashed ? "crashed" : "answered",
      cost: child.wholeCost(),
    });
  };
}

/** Collects a stream as text. Calls `onPart` for each part. */
async function textOf(stream: AsyncIterable<Uint8Array>, onPart: () => void): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of stream) {
    onPart();
    bytes += part.length;
    if (bytes <= OUTPUT_MOST) parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
