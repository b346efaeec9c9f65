/**
 * Runs a client of a test through disturbed streams. `understudy stress --wait` serves the cases in a separate process
 * (docs/how-to/stress.md, "Your own suite"). The client is a function of the test. Works in Bun and Node.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { WallClock } from "../base/clock.ts";

/** Token counts of an answer's usage. */
export interface SeenUsage {
  /** Number of prompt tokens. */
  readonly prompt: number;
  /** Number of output tokens. */
  readonly completion: number;
}

/** A tool call that the client assembled. */
export interface SeenToolCall {
  /** Name of the tool. */
  readonly name: string;
  /** JSON text of the arguments. */
  readonly arguments: string;
}

/** An error that the client reported for an answer. */
export interface SeenError {
  /** Kind of the error, for example the name of its class. */
  readonly kind: string;
  /** Message of the error. */
  readonly message?: string;
  /** True if the error class belongs to the client library. */
  readonly own?: boolean;
}

/** The answer as the client received it. Only `text` is required. */
export interface StressSeen {
  /** All received text. */
  readonly text: string;
  /** Finish reason of the answer. */
  readonly finish?: string | null;
  /** Usage of the answer. */
  readonly usage?: SeenUsage | null;
  /** Tool calls in their order. */
  readonly toolCalls?: readonly SeenToolCall[] | null;
  /** Reasoning, which `text` does not contain. null or absent: unknown to the client. */
  readonly reasoning?: string | null;
  /** Error that the client reported; null or absent: no error. */
  readonly error?: SeenError | null;
}

/** `AbortSignal`, if the compiler has a type of that name, from the DOM or from Node. */
type LeaveSignal = typeof globalThis extends { AbortSignal: { readonly prototype: infer Signal } } ? Signal : unknown;

/** Sends one request to the base URL. Thrown errors count as reported by the client. `signal` aborts once the case is over. */
export type StressedClient = (baseUrl: string, signal: LeaveSignal) => Promise<StressSeen>;

/** Options that choose cases and how they are run. */
export interface StressOptions {
  /** Ids of faults, or `"B*"` for all with a letter. Default: all faults in all variants. */
  readonly faults?: readonly string[];
  /** Seed of random choices. Default: 1. */
  readonly seed?: number;
  /** Number of seeds to run each case with. Default: 1. */
  readonly seeds?: number;
  /** Number of retries that the client must make. Default: not checked. */
  readonly retries?: number;
  /** Concurrent cases. Default: 8. */
  readonly concurrency?: number;
  /** Milliseconds after which a running case counts as hanging. Default: 20,000. */
  readonly caseMs?: number;
}

/** Result of a case. */
export interface StressResult {
  /** Plan with which the case can be run again. */
  readonly plan: string;
  /** Description of the plan's faults. */
  readonly fault: string;
  /** Verdict, one of those in docs/how-to/stress.md. */
  readonly verdict: string;
  /** Explanation of the verdict, as a sentence. */
  readonly why: string;
  /** True if a correct client does not get this verdict. */
  readonly isRed: boolean;
  /** Number of requests that the client sent. */
  readonly requests: number;
}

interface ListedCase {
  readonly id: string;
  readonly plan: string;
  readonly fault: string;
  readonly url: string;
  readonly asks: number;
  readonly atOnce: boolean;
}

/** Runs the client through all cases and returns their verdicts (docs/how-to/stress.md). Rejects if the cases cannot be served. */
export async function stress(client: StressedClient, options: StressOptions = {}): Promise<StressResult[]> {
  const { concurrency = 8, caseMs = 20_000 } = options;
  const { child, url } = await served(options);
  const clock = new WallClock();
  try {
    const cases = (await (await fetch(`${url}/cases`)).json()) as ListedCase[];
    const results: StressResult[] = [];
    const waiting = cases.map((one, at) => ({ one, at }));
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
        results[next.at] = await throughCase({ client, caseMs, clock }, next.one);
    };
    await Promise.all(Array.from({ length: concurrency }, work));
    return results;
  } finally {
    clock.close();
    child.kill();
  }
}

interface CaseContext {
  readonly client: StressedClient;
  readonly caseMs: number;
  readonly clock: WallClock;
}

async function throughCase(asking: CaseContext, { plan, fault, url, asks, atOnce }: ListedCase): Promise<StressResult> {
  const over = new AbortController();
  const ask = () => asked(asking, url, over);
  const seen: object[] = [];
  if (atOnce) seen.push(...(await Promise.all(Array.from({ length: asks }, ask))));
  else for (let left = asks; left > 0; left--) seen.push(await ask());
  let judged = { verdict: "", why: "", isRed: false, requests: 0 };
  for (const one of seen) {
    const answer = await fetch(`${url.replace(/\/v1$/, "")}/seen`, { method: "POST", body: JSON.stringify(one) });
    judged = (await answer.json()) as typeof judged;
    if (!answer.ok) throw new TypeError(`the client's answer is ${JSON.stringify(judged)}`);
  }
  over.abort();
  return { plan, fault, ...judged };
}

async function asked({ client, caseMs, clock }: CaseContext, url: string, over: AbortController): Promise<object> {
  let takeBack = () => {};
  const late = new Promise<object>((resolve) => {
    takeBack = clock.at(clock.now() + caseMs * 1000, () => resolve({ text: "", ended: "hung" }));
  });
  const failed = (why: unknown) => {
    const error = why instanceof Error ? why : new Error(String(why));
    return { text: "", error: { kind: error.name, message: error.message } };
  };
  return Promise.race([client(url, over.signal).catch(failed), late]).finally(takeBack);
}

/** Returns the path of the command, in the package or in the sources. */
function program(): string {
  const places = ["../bin/understudy", "../../bin/understudy"].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  const found = places.find((path) => existsSync(path));
  if (found === undefined) throw new Error(`the command is not at ${places.join(" or ")}`);
  return found;
}

async function served(options: StressOptions): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const { faults, seed, seeds, retries } = options;
  const given = { faults: faults?.join(","), seed, seeds, retries };
  const words = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, `${value}`],
  );
  const command = [program(), "stress", "--wait", "12h", "--exit-with-parent", ...words];
  const child = spawn(process.execPath, command, { stdio: ["ignore", "pipe", "pipe"] });
  let complaint = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint += text;
  });
  // Node 20 has no Promise.withResolvers.
  const listening = new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on("line", (line) => {
      const url = /cases on (\S+);/.exec(line)?.[1];
      if (url !== undefined) resolve(url);
    });
    child.on("error", reject);
    child.on("close", (code) => reject(new TypeError(complaint.trim() || `understudy stress ended with ${code}`)));
  });
  return { child, url: await listening };
}
