/**
 * Measures the CPU time of a streamed token, and the punctuality of steps.
 *
 *   bun run bench stream [--pairs 5] [--quick] [--only cpu|sends|paced|drift|view|fit] [--varied]
 *                        [--long-prompts | --under-load] [--streams N] [--seconds N] [--server "command"] [--realtime]
 *                        [--no-save]
 *   bun run bench stream --base REV [--pairs 5] …   (compares an earlier revision with this tree)
 *
 * 1. cpu: CPU time per token of our server and of the bare C server (anchor.c) in turn, with 64 streams at full speed.
 * 2. sends: a short run under strace, which counts the events per send.
 * 3. paced: 100 and 1,000 streams at 20 ms, 2,000 at 50 ms, 5,000 at 200 ms. `--streams` selects one case. Reports how late steps
 *    start, how long their writing takes, and the causes of late steps. The C server and a bare timer process run on the same
 *    core. `--long-prompts`: ten prompts of 100,000 tokens arrive meanwhile. `--under-load`: a long prompt and a scrape arrive
 *    every second, and the truth log is on.
 * 4. drift, only if `--only` names it: 100 streams at 20 ms for ten minutes.
 * 5. view, only if named (`--only view [--part cpu|paced|scraped] [--streams N] [--writes single]`): measures our server and
 *    the C server from outside. CPU time per event in the first seconds of new servers and later; the rate of 5,000
 *    streams, gaps and memory of 1,000 and 2,000 streams, and scrapes during 500.
 * 6. fit, only if named (`--only fit [--base REV] [--pairs 7] [--warm 15] [--quiet-log]`): CPU time of warm servers as a +
 *    b · tokens. Measures this tree's server, the C server, bare Elysia, bare `Bun.listen` and REV's server.
 */
import { BASE_FLAGS, compareWithBase } from "../lib/base.ts";
import { options, save } from "../lib/bench.ts";
import { costs } from "./costs.ts";
import { cpuPerToken } from "./cpu.ts";
import { drift } from "./drift.ts";
import { fit } from "./fit.ts";
import { paced } from "./paced.ts";
import { sends } from "./sends.ts";
import { view } from "./view.ts";

const { quick, only } = options({ quick: false, only: "" }, [
  ...["--long-prompts", "--under-load", "--streams", "--seconds", "--varied", "--server"],
  ...["--realtime", "--writes", "--part", "--warm", "--quiet-log", ...BASE_FLAGS],
]);
// A run has three pairs, because the first one may be dropped on a busy machine. A fit starts the base's server itself.
if (only !== "fit")
  await compareWithBase({ name: "stream", script: "bench/stream/run.ts", flags: ["--pairs", "3"], costs });

/** Functions of the parts that run without `--only`, by the name of the part. */
const USUAL = { cpu: cpuPerToken, sends, paced };
const PARTS: Readonly<Record<string, () => Promise<unknown>>> = { ...USUAL, drift, fit, view };

const figures: Record<string, unknown> = { quick };
for (const [name, measure] of Object.entries(PARTS))
  if (only === name || (only === "" && name in USUAL)) figures[name] = await measure();
save("stream", figures);
