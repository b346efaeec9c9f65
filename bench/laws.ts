/**
 * Checks every law of metrics against a live server under a random load. The load has prompts with shared prefixes, clients that
 * leave, preemptions, prompts that are too long, pauses of the engine, and rests without requests. Every scraped page has the
 * metrics of all dialects.
 *
 *   bun run bench laws [--seconds 120] [--every 0.25] [--seed 1] [--workers 1] [--no-save]
 */
import fc from "fast-check";
import { Checker } from "../src/tools/check/index.ts";
import { requestMixes } from "../src/tools/check/request-mixes.ts";
import { sendMix } from "../src/tools/check/send-mix.ts";
import { bar, options, progress, save, table } from "./lib/bench.ts";
import { Page, post } from "./lib/client.ts";
import { serve } from "./lib/servers.ts";

const { seconds, every, seed, workers } = options({ seconds: 120, every: 0.25, seed: 1, workers: 1 });

/** Parameters of the server. Its KV pool is too small for 16 sequences, so that requests are preempted. */
const PARAMETERS = { maxNumSeqs: 16, maxModelLen: 512 } as const;
const flags = [
  ...["--timing", "linear:base=4ms,prefill=0.01ms,decode=0.05ms", "--num-gpu-blocks-override", "90"],
  ...["--max-num-seqs", `${PARAMETERS.maxNumSeqs}`, "--max-model-len", `${PARAMETERS.maxModelLen}`],
  ...["--metrics-config", "histogram_latencies=true", "summary_latencies=true"],
  ...["--disable-uvicorn-access-log", ...(workers > 1 ? ["--workers", `${workers}`] : [])],
];
/** Random mixes of requests, some with prompts that are longer than the context. */
const mixes = requestMixes({ maxRequests: 60, maxPromptLength: 560, maxOutputTokens: 250, maxGapMs: 60 });
/** Rests between two mixes. The longest one has time for several scrapes. */
const RESTS_MS = [0, 200, 1500];
/** Number of mixes between two pauses of the engine. A paused engine refuses requests. */
const PAUSE_EVERY = 5;
/** Time after which the gauges that the server refreshes periodically are up to date. */
const SETTLED_MS = 500;

const server = await serve(flags, { core: null, env: { VLLM_SERVER_DEV_MODE: "1" } });
const url = `http://127.0.0.1:${server.port}`;
const checker = new Checker({ parameters: PARAMETERS });
const totals = { mixes: 0, requests: 0, finished: 0, clientAborts: 0, refused: 0, scrapes: 0 };

async function scrape(rest = false): Promise<Page> {
  const answer = await fetch(`${url}/metrics/all`, { keepalive: false });
  const text = await answer.text();
  const atS = (performance.timeOrigin + performance.now()) / 1000;
  checker.add({ text, contentType: answer.headers.get("content-type") ?? "", atS, rest });
  totals.scrapes++;
  return new Page(text);
}

const endMs = performance.now() + 1000 * seconds;

async function load(): Promise<void> {
  for (let n = 0; performance.now() < endMs; n++) {
    const [mix] = fc.sample(mixes, { numRuns: 1, seed: seed + n });
    const sent = sendMix(url, mix!);
    if (n % PAUSE_EVERY === PAUSE_EVERY - 1) {
      await Bun.sleep(300);
      await post(server.port, "/pause?mode=abort", {}, { keepalive: false });
      await Bun.sleep(100);
      await post(server.port, "/resume", {}, { keepalive: false });
    }
    // A mix fails if the pause aborts one of its streams, because the stream then ends without its last line.
    const ends = await sent.catch(() => null);
    totals.mixes++;
    if (ends) for (const [name, count] of Object.entries(ends)) totals[name as keyof typeof ends] += count;
    await Bun.sleep(RESTS_MS[n % RESTS_MS.length]!);
  }
}

async function look(): Promise<void> {
  while (performance.now() < endMs) {
    await scrape();
    const leftS = Math.ceil((endMs - performance.now()) / 1000);
    progress(`${totals.mixes} mixes, ${totals.scrapes} scrapes, ${leftS} s left`);
    await Bun.sleep(1000 * every);
  }
}

await Promise.all([load(), look()]);
await Bun.sleep(SETTLED_MS);
await scrape();
const last = await scrape(true);
await server.stop();

const report = checker.report();
const preemptions = last.value("vllm:num_preemptions_total");
const refused = last.value("understudy_requests_total", 'outcome="refused"');
const aborted = last.value("understudy_requests_total", 'outcome="abort"');
const countOf = (verdict: string) => report.laws.filter((law) => law.verdict === verdict).length;
table(`${seconds} s of random load, ${workers} process${workers > 1 ? "es" : ""}: results of the laws`, [
  ["", "count"],
  ["mixes of requests", totals.mixes],
  ["preemptions", preemptions],
  ["refused", refused],
  ["ended by a client or a pause", aborted],
  ["scrapes", totals.scrapes],
  ["laws held", countOf("held")],
  ["laws with a note", countOf("note")],
  ["laws not checkable here", countOf("not checkable")],
]);
for (const { id, violationCount, violations } of report.violated) {
  const { left, relation, right } = violations[0]!;
  const values = `${left.text} (${left.value}) ${relation} ${right.text} (${right.value})`;
  console.log(`${id}, ${violationCount} times: ${values}`);
}
const violated = report.violated.length + report.unreadable.length;
console.log(bar("laws violated", violated, 0, "laws"));
const violations = report.violated.map(({ id }) => id);
save("laws", { seconds, workers, seed, ...totals, preemptions, refused, aborted, violations });
process.exit(violated > 0 ? 1 : 0);
