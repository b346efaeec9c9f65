/**
 * Starts servers inside this process, like `understudy serve`. This is the child process of hosted.ts; it exits when the
 * process that started it exits.
 */
import { readFileSync } from "node:fs";
import { type App, createApp } from "../src/app/create-app.ts";
import { describe } from "../src/cli/serve/banner.ts";
import { LiveOptions } from "../src/cli/serve/live-options.ts";
import { resolveServeConfig } from "../src/cli/serve/resolve.ts";
import { refusalOf } from "../src/cli/serve/serve.ts";

/**
 * A request to start or stop a server. `start` has its flags and environment. Without `start`, the server stops; running
 * requests get `graceS` seconds.
 */
export interface HostRequest {
  readonly id: number;
  readonly start?: { readonly flags: readonly string[]; readonly env: Readonly<Record<string, string>> };
  readonly graceS?: number;
}

export type HostMessage = { readonly id: number } & (
  | { readonly url: string; readonly metricsUrl: string | null; readonly http2Url: string | null }
  | { readonly refused: string }
  | { readonly line: string }
  | { readonly ended: true }
);

const apps = new Map<number, { readonly app: App; readonly graceS: number }>();
const send = (message: HostMessage) => process.send!(message);

async function start(id: number, { flags, env }: NonNullable<HostRequest["start"]>): Promise<void> {
  const resolved = resolveServeConfig(flags, { ...process.env, ...env }, (path) => readFileSync(path, "utf8"));
  if (!("config" in resolved)) return void send({ id, refused: "error" in resolved ? resolved.error : resolved.help });
  const { config, values, latencies } = resolved;
  if (config.workers > 1) return void send({ id, refused: "several workers are processes: start one with server.ts" });
  const key = values["admin-key"];
  const admin = key === undefined ? undefined : { key, options: new LiveOptions(values, latencies) };
  try {
    const app = await createApp(config, { log: (line) => send({ id, line }), admin });
    apps.set(id, { app, graceS: config.shutdownTimeoutS });
    void app.died.then(() => end(id, 0));
    send({ id, line: app.banner?.(0) ?? describe(config, app, 0, app.streamWrites) });
    send({ id, url: app.url, metricsUrl: app.tritonUrl, http2Url: app.http2Url });
  } catch (error) {
    send({ id, refused: refusalOf(config, error) ?? String(error) });
  }
}

async function end(id: number, graceS?: number): Promise<void> {
  const running = apps.get(id);
  apps.delete(id);
  await running?.app.close(graceS ?? running.graceS);
  send({ id, ended: true });
}

process.on(
  "message",
  ({ id, start: settings, graceS }: HostRequest) => void (settings ? start(id, settings) : end(id, graceS)),
);
process.on("disconnect", () => process.exit(0));
