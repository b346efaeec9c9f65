/** Starts a server in a process of its own in place of one that shares a process (hosted.ts). Used to test another program. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HostedServer } from "./hosted.ts";
import { main } from "./program.ts";
import { eventually } from "./server.ts";

/** Rejects with the error line if the flags are refused. */
export async function separateServer(
  flags: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<HostedServer> {
  const folder = mkdtempSync(join(tmpdir(), "understudy-separate-"));
  const readyFile = join(folder, "ready.json");
  const child = Bun.spawn([process.execPath, main, "serve", ...flags, `--ready-file=${readyFile}`], {
    env: { ...process.env, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  let text = "";
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) text += decoder.decode(chunk, { stream: true });
  };
  const outputRead = Promise.all([read(child.stdout), read(child.stderr)]);
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  // The banner is written before the file, but it may arrive later.
  await eventually(() => hasEnded() || (existsSync(readyFile) && /^ {2}listening /m.test(text)), 3000);
  if (hasEnded()) {
    await outputRead;
    rmSync(folder, { recursive: true, force: true });
    throw new Error(text.trimEnd().replace(/^understudy serve: /, ""));
  }
  const { url, metricsUrl, http2Url } = JSON.parse(readFileSync(readyFile, "utf8"));
  return {
    ...{ url: url ?? "", metricsUrl, http2Url },
    output: () => text,
    stop: async (graceS) => {
      child.kill(graceS === 0 ? "SIGKILL" : "SIGTERM");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
