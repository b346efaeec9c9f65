/**
 * Loads a server with several workers while clients leave and a worker is killed with SIGKILL. Scrapes on new connections run all the time.
 * Returns the metrics, the clients' list of outcomes, and the sums over the truth logs, which must agree.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serve } from "../../test/server.ts";
import { type EngineCounters, type Life, livesOf, totalsOf } from "./counted.ts";

export interface Plan {
  readonly workers: number;
  readonly requests: number;
  readonly concurrency: number;
}

/** The end of a request for its client: answered, left by the client, refused, or broken off by the server. */
export type Ending = "complete" | "left" | "refused" | "cut";

/** The values of a scrape, by series as printed. */
export type Scrape = ReadonlyMap<string, number>;

export interface Outcome {
  readonly endings: Readonly<Record<Ending, number>>;
  /** Ids of the answers that clients received whole. */
  readonly complete: ReadonlySet<string>;
  readonly scrapes: number;
  /** Descriptions of counters that fell between two scrapes. */
  readonly fell: readonly string[];
  readonly last: Scrape;
  readonly lives: readonly Life[];
  /** Text that the server printed. */
  readonly output: string;
  /** Counters by engine, in the last scrape and in the logs. */
  readonly shown: ReadonlyMap<number, EngineCounters>;
  readonly counted: ReadonlyMap<number, EngineCounters>;
  readonly exitCode: number;
}

const FLAGS = [
  ...["--timing", "linear:base=1ms,prefill=0.001ms,decode=0.01ms", "--disable-uvicorn-access-log"],
  ...["--served-model-name", "m"],
];
const COUNTER = /(_total|_bucket|_count|_sum)(\{|$)/;
const SCRAPE_EVERY_MS = 10;
const SUCCESSOR_MS = 1000;

/** Parses a page. Throws if a page is torn: a series has no number or occurs twice, or the last line does not end. */
export function parseScrape(text: string): Scrape {
  const series = new Map<string, number>();
  if (!text.endsWith("\n")) throw new Error("a scrape does not end with a newline");
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("# ")) continue;
    const at = line.lastIndexOf(" ");
    const [name, value] = [line.slice(0, at), Number(line.slice(at + 1))];
    if (Number.isNaN(value) || series.has(name)) throw new Error(`a scrape has a wrong or repeated line: ${line}`);
    series.set(name, value);
  }
  return series;
}

/** Describes the counters that are smaller in `after` than in `before`, or missing. */
export function fallen(before: Scrape, after: Scrape): string[] {
  return [...before].flatMap(([name, value]) => {
    const now = after.get(name);
    return COUNTER.test(name) && !(now! >= value) ? [`${name}: ${value}, then ${now}`] : [];
  });
}

export async function workersRun({ workers, requests, concurrency }: Plan): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), "understudy-workers-"));
  try {
    const file = join(folder, "truth.jsonl");
    const server = await serve([...FLAGS, "--workers", String(workers), "--truth-log", file]);
    const pids = /workers +\d+ processes: ([\d, ]+)/.exec(server.output())![1]!.split(", ").map(Number);
    const load = new Load(server.url);
    const watched = watch(server.url, load);
    const killAt = Math.floor(requests / 2);
    let next = 0;
    const client = async () => {
      while (next < requests) {
        const i = next++;
        if (i === killAt) process.kill(pids[i % workers]!, "SIGKILL");
        await load.request(i);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, client));
    load.over = true;
    const { scrapes, fell, before } = await watched;
    const last = await atRest(server.url);
    // The worker that replaces the killed one writes the last line of its log only once it serves.
    await Bun.sleep(SUCCESSOR_MS);
    const exitCode = await server.stop();
    const lives = livesOf(file, workers);
    return {
      ...{ endings: load.endings, complete: load.complete, scrapes: scrapes + 1, lives, exitCode },
      output: server.output(),
      ...{ fell: [...fell, ...fallen(before, last)], last },
      ...{ shown: shownBy(last), counted: totalsOf(lives) },
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The clients. Most read their answer to its end, some leave earlier, some send a request that is refused. */
class Load {
  readonly endings: Record<Ending, number> = { complete: 0, left: 0, refused: 0, cut: 0 };
  readonly complete = new Set<string>();
  over = false;

  constructor(readonly url: string) {}

  async request(i: number): Promise<void> {
    const leaves = i % 10 === 3;
    const body = {
      model: "m",
      // Some prompts share a prefix.
      prompt: `${"more words ".repeat(i % 40)} request ${i}`,
      stream: leaves || i % 3 !== 0,
      max_tokens: i % 50 === 7 ? 0 : 1 + (leaves ? 200 : i % 40),
      ignore_eos: true,
      // Most of the answers to these requests contain a stop string.
      ...(i % 7 === 2 ? { stop: ["and", "the"] } : {}),
    };
    const ending = await this.#send(body, `${i}`, leaves).catch(() => "cut" as const);
    this.endings[ending]++;
    if (ending === "complete") this.complete.add(`cmpl-${i}-0`);
  }

  async #send(body: { readonly stream: boolean }, id: string, leaves: boolean): Promise<Ending> {
    const leave = new AbortController();
    const response = await fetch(`${this.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": id },
      body: JSON.stringify(body),
      signal: leave.signal,
      // With a new connection per request the kernel spreads them over the workers, and fetch repeats none.
      keepalive: false,
    });
    if (response.status === 400) {
      await response.arrayBuffer();
      return "refused";
    }
    if (leaves) {
      for await (const _ of response.body!) break; // closes the connection
      leave.abort();
      return "left";
    }
    const text = await response.text();
    const isWhole = body.stream ? text.endsWith("data: [DONE]\n\n") : text.endsWith("}");
    if (response.status === 200 && isWhole) return "complete";
    throw new Error(`${response.status} ${text.slice(-100)}`);
  }
}

/** Scrapes until the load is over. A scrape that fails because its worker was killed does not count. */
async function watch(url: string, load: Load) {
  let before: Scrape = new Map();
  let scrapes = 0;
  const fell: string[] = [];
  while (!load.over) {
    const now = await scrape(url).catch(unanswered);
    if (now) {
      fell.push(...fallen(before, now));
      before = now;
      scrapes++;
    }
    await Bun.sleep(SCRAPE_EVERY_MS);
  }
  return { scrapes, fell, before };
}

/** Returns null if the worker was killed while it answered. Throws other errors. */
function unanswered(error: Error & { code?: string }): null {
  if (error.code === "ECONNRESET" || error.code === "ConnectionRefused" || error.code === "ConnectionClosed")
    return null;
  throw error;
}

async function scrape(url: string): Promise<Scrape> {
  const response = await fetch(`${url}/metrics`, { keepalive: false });
  return parseScrape(await response.text());
}

/** Waits until no request is running or waiting, and returns the scrape. */
async function atRest(url: string): Promise<Scrape> {
  const busy = /^(vllm:num_requests_(running|waiting)|understudy_streams_open)(\{|$)/;
  for (let tries = 0; tries < 500; tries++) {
    await Bun.sleep(20);
    const now = await scrape(url);
    if (![...now].some(([name, value]) => busy.test(name) && value > 0)) return now;
  }
  throw new Error("requests still run after 10 s");
}

function shownBy(scrape: Scrape): Map<number, EngineCounters> {
  const shown = new Map<number, EngineCounters>();
  for (let engine = 0; scrape.has(`understudy_steps_total{engine="${engine}"}`); engine++) {
    const of = (name: string, labels = "") => scrape.get(`${name}{engine="${engine}"${labels},model_name="m"}`)!;
    const ended = (reason: string) => of("vllm:request_success_total", `,finished_reason="${reason}"`);
    shown.set(engine, {
      ...{ stop: ended("stop"), length: ended("length"), outputTokens: of("vllm:generation_tokens_total") },
      ...{ promptTokens: of("vllm:prompt_tokens_total"), cachedTokens: of("vllm:prompt_tokens_cached_total") },
      steps: scrape.get(`understudy_steps_total{engine="${engine}"}`)!,
    });
  }
  return shown;
}
