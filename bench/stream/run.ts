/**
 * What does a streamed token cost, and how punctual are the steps?
 *
 *   bun run bench:stream [--pairs 5] [--quick] [--only cpu|sends|paced] [--long-prompts] [--varied]
 *                        [--server "command"] [--realtime] [--no-save]
 *
 * 1. cpu: this server and the bare C server (anchor.c) in turn, 64 streams as fast as they go; CPU per token, the ratio.
 * 2. sends: the same under strace, short: how many events each send carries.
 * 3. paced: 1,000 streams at 20 ms and 2,000 at 50 ms; how late steps start and how long their writing takes, against the
 *    anchor and a bare timer process on the same core. `--long-prompts`: ten prompts of 100,000 tokens arrive meanwhile.
 */
import { has, known, text } from "../lib/options.ts";
import { save } from "../lib/results.ts";
import { cpuPerToken } from "./cpu.ts";
import { paced } from "./paced.ts";
import { sends } from "./sends.ts";

known([
  "--pairs",
  "--quick",
  "--only",
  "--long-prompts",
  "--varied",
  "--server",
  "--realtime",
  "--no-save",
  "--tokens",
]);

const only = text("--only", "");
const figures: Record<string, unknown> = { quick: has("--quick") };
if (!only || only === "cpu") figures.cpu = await cpuPerToken();
if (!only || only === "sends") figures.sends = await sends();
if (!only || only === "paced") figures.paced = await paced();
save("stream", figures);
