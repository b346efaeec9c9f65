/** Runs the client `bench/stream/reader.c` and reads its result. */
import { readFileSync } from "node:fs";
import { CLIENT_CORE, pinned, program } from "./process.ts";
import { root } from "./results.ts";

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
  const binary = program("reader");
  const file = `${root}build/bench/body-${process.pid}-${bodies++}.json`;
  await Bun.write(file, JSON.stringify(body));
  const words = [binary, "--body", file];
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === false) continue;
    words.push(
      `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      value === true ? "1" : String(value),
    );
  }
  const child = Bun.spawn(pinned(CLIENT_CORE, words), { stdout: "pipe", stderr: "pipe" });
  const [out, complaint] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await Bun.file(file).delete();
  if ((await child.exited) !== 0) throw new Error(`reader: ${complaint}`);
  return JSON.parse(out) as ReaderResult;
}

/** Returns the result. Throws unless all `streams` streams are complete. */
export function complete(result: ReaderResult, streams: number): ReaderResult {
  if (result.completed === streams && result.errors === 0 && result.refused === 0) return result;
  throw new Error(`not all ${streams} streams are complete: ${JSON.stringify(result)}`);
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
