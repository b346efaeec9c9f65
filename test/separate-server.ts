/** Starts a server in a process of its own in place of one that shares a process (hosted.ts). Used to test another program. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HostedServer } from "./hosted.ts";
import { main } from "./program.ts";
import { eventually } from "./server.ts";
import { startProgram } from "./started-program.ts";

/** Rejects with the error line if the flags are refused. */
export async function separateServer(
  flags: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<HostedServer> {
  const folder = mkdtempSync(join(tmpdir(), "understudy-separate-"));
  const readyFile = join(folder, "ready.json");
  const command = [process.execPath, main, "serve", ...flags, `--ready-file=${readyFile}`];
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const isReady = (output: string) => /^ {2}listening /m.test(output);
  const server = await startProgram(command, isReady, { env: { ...process.env, ...env } }).catch((error: Error) => {
    remove();
    // The first line of the message has the exit code, and the output follows.
    throw new Error(
      error.message
        .replace(/^.*\n/, "")
        .trimEnd()
        .replace(/^understudy serve: /, ""),
    );
  });
  await eventually(() => existsSync(readyFile), 3000);
  const { url, metricsUrl, http2Url } = JSON.parse(readFileSync(readyFile, "utf8"));
  return {
    ...{ url: url ?? "", metricsUrl, http2Url },
    output: server.output,
    stop: async (graceS) => {
      await server.stop(graceS === 0 ? "SIGKILL" : "SIGTERM");
      remove();
    },
  };
}
