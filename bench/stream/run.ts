/**
 * What does a streamed token cost, and how punctual are the steps?
 *
 *   bun run bench stream [--pairs 5] [--quick] [--only cpu|sends|paced|drift|view|fit|fresh] [--varied] [--long-prompts | --under-load]
 *                        [--streams N] [--seconds N] [--server "command"] [--realtime] [--no-save]
 *   bun run bench stream --base REV [--pairs 5] …: against an earlier revision, REV, REV again and this tree in turns.
 *
 * 1. cpu: this server and the bare C server (anchor.c) in turn, 64 streams as fast as they go; CPU per token, the ratio.
 * 2. sends: the same under strace, short: how many events each send carries.
 * 3. paced: 100 and 1,000 streams at 20 ms, 2,000 at 50 ms, 5,000 at 200 ms (`--streams`: one of them); how late steps start
 *    and how long their writing takes, against the anchor and a bare timer process on the same core, and what made late
 *    steps late. `--long-prompts`: ten prompts of 100,000 tokens arrive meanwhile. `--under-load`: one each second, and a
 *    scrape each second, and the truth log is on.
 * 4. drift, only when asked for: 100 streams at 20 ms for ten minutes.
 * 5. view, only when asked for (`--only view [--part cpu|paced|scraped] [--streams N] [--writes single] [--minutes 10]`):
 *    what a reader of the streams sees, beside the bare C loop: CPU per token from a cold start and later, the rate that
 *    5,000 streams reach, gaps and memory of 1,000 and 2,000, scrapes beside 500; with `--minutes` memory over so many.
 * 6. fit, only when asked for (`--only fit [--base REV] [--pairs 7] [--warm 15] [--quiet-log]`): CPU per request and per
 *    token of warm servers, as a + b · tokens, of this tree, the C loop, bare Elysia, bare `Bun.listen` and REV's server.
 * 7. fresh, only when asked for (`--only fresh [--pairs 10]`): CPU per event in seconds 2 to 9 of so many fresh servers.
 */
import { BASE_FLAGS, compareWithBase } from "../lib/base.ts";
import { has, known, text } from "../lib/options.ts";
import { save } from "../lib/results.ts";
import { costs } from "./costs.ts";
import { cpuPerToken } from "./cpu.ts";
import { drift } from "./drift.ts";
import { fit } from "./fit.ts";
import { fresh } from "./fresh.ts";
import { paced } from "./paced.ts";
import { sends } from "./sends.ts";
import { view } from "./view.ts";

known([
  "--quick",
  "--only",
  "--long-prompts",
  "--under-load",
  "--streams",
  "--seconds",
  "--varied",
  "--both-writes",
  "--server",
  "--realtime",
  "--no-save",
  "--tokens",
  "--writes",
  "--minutes",
  "--part",
  "--warm",
  "--quiet-log",
  ...BASE_FLAGS,
]);
const only = text("--only", "");
// Three pairs within a run: the first one may be dropped on a busy machine. A fit runs the base's server itself.
if (only !== "fit")
  await compareWithBase({ name: "stream", script: "bench/stream/run.ts", flags: ["--pairs", "3"], costs });

const figures: Record<string, unknown> = { quick: has("--quick") };
if (!only || only === "cpu") figures.cpu = await cpuPerToken();
if (!only || only === "sends") figures.sends = await sends();
if (!only || only === "paced") figures.paced = await paced();
if (only === "drift") figures.drift = await drift();
if (only === "fit") figures.fit = await fit();
if (only === "fresh") figures.fresh = await fresh();
if (only === "view") figures.view = await view();
save("stream", figures);
