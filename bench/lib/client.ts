/** Sends requests to the measured servers: single ones, streams of the client `bench/stream/reader.c`, and scrapes. */
import { readFileSync } from "node:fs";
import { root } from "./bench.ts";
import { CLIENT_CORE, flagsOf, pinned, program, type RunningServer, watchedMb } from "./servers.ts";

const WORDS =
  "the of a model server that request tokens with stream answer queue memory between cache first block every step under load time while measure when clients router window slow again before number result system value other batch latency network schedule length random process machine because compare through signal report counter history average result without another possible".split(
    " ",
  );

/** Returns `words` words that begin with the connection's number. Equal seeds give equal words. */
export function prose(words: number, seed = 1): string {
  const parts = ["@@@@@@"];
  let state = seed >>> 0;
  for (let i = 1; i < words; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    parts.push(WORDS[(state >>> 8) % WORDS.length]!);
  }
  return parts.join(" ");
}

/** Returns the body of a chat that streams exactly `tokens` tokens. */
export function chat(content: string, tokens: number, more: Readonly<Record<string, unknown>> = {}) {
  return { messages: [{ role: "user", content }], stream: true, max_tokens: tokens, ignore_eos: true, ...more };
}

/** Returns the body of a chat whose answer has the same bytes in each stream. */
export const sameChat = (tokens: number) => chat("Tell me about the weather.", tokens, { seed: 1 });

export const CHAT_PATH = "/v1/chat/completions";

/** Posts JSON to a server of this machine. */
export const post = (port: number, path: string, body: object, init: RequestInit = {}): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...init,
  });

/** Returns the number of words per token of `prose`, from the server's usage of a request. */
export async function wordsPerToken(port: number): Promise<number> {
  const words = 2000;
  const answer = await post(port, CHAT_PATH, { ...chat(prose(words), 1), stream: false });
  const { usage } = (await answer.json()) as { usage: { prompt_tokens: number } };
  return words / usage.prompt_tokens;
}

export interface ReaderOptions {
  readonly port: number;
  readonly body: unknown;
  readonly path?: string;
  readonly streams?: number;
  readonly requests?: number;
  /** Largest number of new connections every `everyMs`. */
  readonly ramp?: number;
  readonly everyMs?: number;
  /** True if all connections open before the first request is sent. */
  readonly together?: boolean;
  readonly durationMs?: number;
  /** Time from the start in which events, bytes, reads and gaps do not count. */
  readonly settleMs?: number;
  readonly stallMs?: number;
  readonly rcvbuf?: number;
  readonly cut?: number;
  readonly ending?: "fin" | "rst" | "half";
  /** True if the reader polls and never sleeps, so that the server does not pay for waking it. */
  readonly awake?: boolean;
  readonly gaps?: boolean;
  readonly perStream?: string;
  readonly stamps?: string;
  readonly stampsMost?: number;
  readonly dump?: string;
}

export interface ReaderResult {
  readonly streams: number;
  readonly completed: number;
  readonly cut: number;
  readonly closed: number;
  readonly errors: number;
  readonly refused: number;
  readonly open: number;
  readonly events: number;
  readonly bytes: number;
  readonly recvs: number;
  readonly elapsedUs: number;
  readonly streamingUs: number;
  readonly cpuUs: number;
  /** Number of times that the reader slept. A send that wakes it costs the server 8 to 10 µs more. */
  readonly slept: number;
  readonly gapUs?: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly status: Readonly<Record<string, number>>;
  readonly error: string;
}

let bodies = 0;

/** Runs the client on its core. `@@@@@@` in the body becomes the number of the connection. */
export async function read({ body, ...options }: ReaderOptions): Promise<ReaderResult> {
  const file = `${root}build/bench/body-${process.pid}-${bodies++}.json`;
  await Bun.write(file, JSON.stringify(body));
  const words = [program("reader"), "--body", file, ...flagsOf(options)];
  const child = Bun.spawn(pinned(CLIENT_CORE, words), { stdout: "pipe", stderr: "pipe" });
  const [out, complaint] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await Bun.file(file).delete();
  if ((await child.exited) !== 0) throw new Error(`reader: ${complaint}`);
  return JSON.parse(out) as ReaderResult;
}

/** Returns the result. Throws unless all `count` answers are complete. */
export function complete(result: ReaderResult, count: number): ReaderResult {
  if (result.completed === count && result.errors === 0 && result.refused === 0) return result;
  throw new Error(`not all ${count} answers are complete: ${JSON.stringify(result)}`);
}

/** Returns the longest gap between two events of a stream, in milliseconds. Throws if a stream failed. */
export function longestGapMs(result: ReaderResult): number {
  if (result.refused > 0 || result.errors > 0 || result.events === 0) throw new Error(JSON.stringify(result));
  return result.gapUs!.max / 1000;
}

/** Reads streams from the server, and runs `act` some time after their start. Returns the largest memory, too. */
export async function besideStreams<T>(
  { port, pid }: RunningServer,
  streams: Omit<ReaderOptions, "port">,
  afterMs: number,
  act: () => Promise<T>,
): Promise<{ streams: ReaderResult; acted: T; mostMb: number }> {
  const most = watchedMb(pid);
  const reading = read({ ...streams, port });
  await Bun.sleep(afterMs);
  const acted = await act();
  return { streams: await reading, acted, mostMb: most() };
}

/** Times of one stream, in microseconds of CLOCK_MONOTONIC. */
export interface StreamTimes {
  readonly sentUs: number;
  readonly firstUs: number;
  readonly lastUs: number;
  readonly events: number;
  readonly complete: boolean;
}

export function streamTimes(path: string): StreamTimes[] {
  const rows = doubles(path);
  return Array.from({ length: rows.length / 5 }, (_, i) => {
    const [sentUs, firstUs, lastUs, events, done] = rows.subarray(5 * i, 5 * i + 5) as unknown as number[];
    return { sentUs: sentUs!, firstUs: firstUs!, lastUs: lastUs!, events: events!, complete: done === 1 };
  });
}

/** Returns the arrival times of each stream's events from the file `stamps`, in microseconds of CLOCK_MONOTONIC. */
export function stampsOf(path: string): Float64Array[] {
  const all = doubles(path);
  const found: Float64Array[] = [];
  for (let at = 0; at < all.length; ) {
    const count = all[at]!;
    found.push(all.subarray(at + 1, at + 1 + count));
    at += 1 + count;
  }
  return found;
}

/** Reads a file of doubles in this machine's byte order. */
export function doubles(path: string): Float64Array {
  const bytes = readFileSync(path);
  return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

export class Page {
  constructor(readonly text: string) {}

  static async of(port: number): Promise<Page> {
    return new Page(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  }

  /** Returns the sum of all samples of `name` with each of `labels` (as printed: `outcome="abort"`). NaN without samples. */
  value(name: string, ...labels: string[]): number {
    let sum = Number.NaN;
    for (const line of this.text.split("\n")) {
      if (!line.startsWith(name)) continue;
      const after = line[name.length];
      if (after !== "{" && after !== " ") continue;
      if (!labels.every((label) => line.includes(label))) continue;
      sum = (Number.isNaN(sum) ? 0 : sum) + Number(line.slice(line.lastIndexOf(" ") + 1));
    }
    return sum;
  }

  /** Returns the mean and the number of a histogram's observations since an earlier page. */
  since(before: Page, name: string): { readonly mean: number; readonly count: number } {
    const count = this.value(`${name}_count`) - before.value(`${name}_count`);
    return { mean: (this.value(`${name}_sum`) - before.value(`${name}_sum`)) / count, count };
  }

  /** Returns a histogram's observations since an earlier page: cumulative counts, by the bound of their bucket. */
  bucketsSince(before: Page, name: string): ReadonlyMap<number, number> {
    const found = this.text.matchAll(new RegExp(`^${name}_bucket\\{[^}]*le="([^"]+)"`, "gm"));
    const countOf = (page: Page, le: string) => page.value(`${name}_bucket`, `le="${le}"`);
    const bounds = new Set(Array.from(found, ([, le]) => le!));
    return new Map(
      Array.from(bounds, (le) => [Number(le.replace("+Inf", "Infinity")), countOf(this, le) - countOf(before, le)]),
    );
  }
}

/** Returns the smallest bound that a share (0 to 1) of a histogram's observations did not exceed. */
export function boundOf(buckets: ReadonlyMap<number, number>, share: number): number {
  const all = Math.max(...buckets.values());
  return [...buckets].find(([, count]) => count >= share * all)![0];
}
