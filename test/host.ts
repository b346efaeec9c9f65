/** The process behind hosted.ts: starts servers in itself as `understudy serve` does, and ends with who asked for them. */
import { readFileSync } from "node:fs";
import { type App, createApp } from "../src/app/create-app.ts";
import { describe } from "../src/cli/serve/banner.ts";
import { LiveOptions } from "../src/cli/serve/live-options.ts";
import { resolveServeConfig } from "../src/cli/serve/resolve.ts";
import { refusalOf } from "../src/cli/serve/serve.ts";

/** `start`: flags and environment; without them the server is ended, and gives those that run so many seconds. */
export interface Asked {
  readonly id: number;
  readonly start?: { readonly flags: readonly string[]; readonly env: Readonly<Record<string, string>> };
  readonly graceS?: number;
}

export type Told = { readonly id: number } & (
  | { readonly url: string; readonly metricsUrl: string | null; readonly http2Url: string | null }
  | { readonly refused: string }
  | { readonly line: string }
  | { readonly ended: true }
);

const apps = new Map<number, { readonly app: App; readonly graceS: number }>();
const tell = (told: Told) => process.send!(told);

async function start(id: number, { flags, env }: NonNullable<Asked["start"]>): Promise<void> {
  const resolved = resolveServeConfig(flags, { ...process.env, ...env }, (path) => readFileSync(path, "utf8"));
  if (!("config" in resolved)) return void tell({ id, refused: "error" in resolved ? resolved.error : resolved.help });
  const { config, values, latencies } = resolved;
  if (config.workers > 1) return void tell({ id, refused: "several workers are processes: start one with server.ts" });
  const key = values["admin-key"];
  const admin = key === undefined ? undefined : { key, options: new LiveOptions(values, latencies) };
  try {
    const app = await createApp(config, { log: (line) => tell({ id, line }), admin });
    apps.set(id, { app, graceS: config.shutdownTimeoutS });
    void app.died.then(() => end(id, 0));
    tell({ id, line: app.banner?.(0) ?? describe(config, app, 0, app.streamWrites) });
    tell({ id, url: app.url, metricsUrl: app.tritonUrl, http2Url: app.http2Url });
  } catch (error) {
    tell({ id, refused: refusalOf(config, error) ?? String(error) });
  }
}

async function end(id: number, graceS?: number): Promise<void> {
  const running = apps.get(id);
  apps.delete(id);
  await running?.app.close(graceS ?? running.graceS);
  tell({ id, ended: true });
}

process.on("message", ({ id, start: asked, graceS }: Asked) => void (asked ? start(id, asked) : end(id, graceS)));
process.on("disconnect", () => process.exit(0));
