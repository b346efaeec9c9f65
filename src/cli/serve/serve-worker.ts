/** A worker process of `understudy serve --workers N`. It serves requests until its parent shuts it down or exits. */
import { rmSync } from "node:fs";
import { dirname } from "node:path";
import type { App } from "../../app/create-app.ts";
import { Link } from "../../app/workers/link.ts";
import type { WorkerSetup } from "../../app/workers/messages.ts";
import { countFrom } from "../../base/clock.ts";
import { takeOverOutput } from "../../base/output.ts";
import type { Place } from "../../kernel/place.ts";
import { USAGE_ERROR } from "../refuse.ts";
import { onTrap, start } from "./serve.ts";

takeOverOutput("understudy serve");
const link = new Link({ start: serve, end, orphaned });
let app: App | null = null;
let graceS = 0;
let folder: string | null = null;
let ending = false;

async function serve(setup: WorkerSetup): Promise<void> {
  const { config, index, workers, startedS, loadS, pages, paused } = setup;
  countFrom(startedS * 1000);
  graceS = config.shutdownTimeoutS;
  folder = dirname(pages.files[0]!);
  const place: Place = { index, workers, loadS, pages, control: (own) => link.control(own) };
  const started = await start(config, place);
  if ("refused" in started) {
    await link.say({ refused: started.refused, code: started.code });
    process.exit(USAGE_ERROR);
  }
  app = started.app;
  // The server has received no request yet, because the event loop has not run since the server started to listen.
  if (paused) void app.engines.pause("keep", false);
  onTrap(config, app);
  await link.say({ listening: app.url });
  app.workWhenIdle();
}

/** Shuts down and exits. Only the first call has an effect. */
async function end(withinS: number): Promise<void> {
  if (ending) return;
  ending = true;
  const open = app?.engines.live ?? 0;
  await app?.close(withinS);
  await link.say({ ended: open });
  process.exit(0);
}

/** Removes the shared folder and shuts down, because the parent process has exited and can no longer do so. */
async function orphaned(): Promise<void> {
  const pages = folder;
  if (pages !== null) process.on("exit", () => rmSync(pages, { recursive: true, force: true }));
  await end(graceS);
}

// Ignore Ctrl-C, which reaches every process of the terminal. The parent process decides when its workers shut down.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => void end(graceS));
