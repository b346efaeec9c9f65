/**
 * Drives the load of a server under test and collects scrapes. Every mode gets the same load: preemptions, a refusal of each
 * kind, idle periods, and clients that all disconnect at the same time.
 */
import type { Scrape } from "../../src/tools/check/index.ts";
import { eventually, type ServerHandle } from "../server.ts";

/**
 * Flags of the server: a pool for two and a half answers, so that some are preempted, and steps of at least 2 ms, so that
 * scrapes see running requests.
 */
export const FLAGS: readonly string[] = [
  ...["--served-model-name", "m", "--timing", "linear:base=2ms,prefill=0ms,decode=0ms"],
  ...["--num-gpu-blocks-override", "24", "--max-model-len", "256", "--max-num-seqs", "4"],
  ...["--metrics-config", "histogram_latencies=true", "summary_latencies=true"],
  ...["--disable-uvicorn-access-log"],
];
/**
 * Flags for the admin key, with which the load slows the steps down before clients disconnect. Several workers do not support
 * the key, so their scrapes depend on the host's speed.
 */
export const ADMIN: readonly string[] = ["--admin-key", "key"];
/** Settings that a checker cannot read from the scrapes. */
export const PARAMETERS = { maxNumSeqs: 4, maxModelLen: 256 } as const;
/** Enables `/pause`, after which the engine refuses generations. */
export const ENVIRONMENT: Readonly<Record<string, string>> = { VLLM_SERVER_DEV_MODE: "1" };

/** Maximum age of TensorRT-LLM's gauges, in milliseconds. */
const POLLED_MS = 120;
const JSON_TYPE = { "content-type": "application/json" };

export interface Scrapes {
  /** Scrapes from the start to the first idle period. Until then no client disconnects and no request fails. */
  readonly clean: readonly Scrape[];
  /** All scrapes, including the clean ones. */
  readonly all: readonly Scrape[];
}

export async function drive(server: ServerHandle): Promise<Scrapes> {
  const all: Scrape[] = [];
  /** Scrapes the server. `rest`: no request is running, and none was since the scrape before. */
  const look = async (rest = false) => void all.push(await scrape(server, rest));
  // Each request uses a new connection, so that several workers share them.
  const post = (path: string, body: object = {}, init: RequestInit = {}) =>
    fetch(server.url + path, {
      method: "POST",
      headers: JSON_TYPE,
      body: JSON.stringify(body),
      keepalive: false,
      ...init,
    });
  const generate = (body: object, init?: RequestInit) =>
    post("/v1/completions", { model: "m", ignore_eos: true, ...body }, init);
  const ended = async (of: Promise<Response>) => void (await (await of).text());

  await look(true);
  const answers = Array.from({ length: 10 }, (_, i) =>
    ended(generate({ prompt: `${i % 7} two three `.repeat(12), max_tokens: 40 + 15 * i, stream: i % 2 === 0 })),
  );
  await whileOpen(Promise.all(answers), () => look());
  for (let i = 0; i < 2; i++) await ended(generate({ prompt: "again and ".repeat(24), max_tokens: 4 }));
  await atRest(server);
  for (const since of [false, true]) await look(since);
  const clean = [...all];

  await ended(generate({ prompt: "long ", max_tokens: 1000 }));
  await post("/pause?mode=wait");
  await ended(generate({ prompt: "one", max_tokens: 4 }));
  await post("/resume");
  await look();

  // With steps of 40 ms no answer ends and none is preempted while the clients disconnect, however slow the host is.
  const { ok: slow } = await post(
    "/admin/config",
    { speed: 0.05 },
    { headers: { ...JSON_TYPE, authorization: "Bearer key" } },
  );
  const left = async (count: number) => {
    if (slow) await eventually(async () => (await underway(server)) === count);
    await look();
  };
  const [first, last] = [new AbortController(), new AbortController()];
  const streams = Array.from({ length: 6 }, (_, i) =>
    generate(
      { prompt: `${i} gone `.repeat(12), max_tokens: 180, stream: true },
      { signal: (i < 2 ? last : first).signal },
    ),
  );
  // The first two requests have their first tokens, so they are running. All requests have arrived.
  await Promise.all(streams.slice(0, 2).map(async (stream) => (await stream).body!.getReader().read()));
  await left(6);
  // Disconnect the running requests last. Otherwise the engine's last step would be one without blocks in use.
  first.abort();
  await left(2);
  last.abort();
  await Promise.allSettled(streams);
  await atRest(server);
  for (const since of [false, true]) await look(since);
  return { clean, all };
}

async function scrape(server: ServerHandle, rest: boolean): Promise<Scrape> {
  const answer = await fetch(`${server.url}/metrics/all`, { keepalive: false });
  const text = await answer.text();
  const atS = (performance.timeOrigin + performance.now()) / 1000;
  return { text, contentType: answer.headers.get("content-type") ?? "", atS, rest };
}

async function underway({ url }: ServerHandle): Promise<number> {
  const page = await (await fetch(`${url}/metrics`, { keepalive: false })).text();
  const gauges = page.matchAll(/^vllm:num_requests_(?:running|waiting)\{.*\} (\S+)$/gm);
  return gauges.reduce((sum, [, value]) => sum + Number(value), 0);
}

/** Waits until no engine steps and all delayed gauges are up to date. */
async function atRest({ url }: ServerHandle): Promise<void> {
  const steps = async () => {
    const page = await (await fetch(`${url}/metrics/understudy`, { keepalive: false })).text();
    return page.match(/^understudy_steps_total.*$/gm)!.join();
  };
  await eventually(async () => {
    const before = await steps();
    await Bun.sleep(POLLED_MS);
    return (await steps()) === before;
  });
}

async function whileOpen(work: Promise<unknown>, look: () => Promise<void>): Promise<void> {
  let open = true;
  const done = work.finally(() => {
    open = false;
  });
  while (open) {
    await look();
    await Bun.sleep(60);
  }
  await done;
}
