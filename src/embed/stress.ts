/**
 * How does a test put a client through disturbed streams? The cases are served by the command, in a process of its own
 * (docs/stress.md, "Your own suite"), the client is a function of the test: in Bun and in Node alike.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { WallClock } from "../base/clock.ts";

/** Tokens as an answer counts them. */
export interface SeenUsage {
  /** Tokens of the prompt. */
  readonly prompt: number;
  /** Tokens of the answer. */
  readonly completion: number;
}

/** A tool call, put together. */
export interface SeenToolCall {
  /** The tool's. */
  readonly name: string;
  /** JSON, as it came. */
  readonly arguments: string;
}

/** What a client made of an answer that is broken. */
export interface SeenError {
  /** The name of its class, say. */
  readonly kind: string;
  /** In words. */
  readonly message?: string;
  /** Whether it is of the client's own kind. */
  readonly own?: boolean;
}

/** What a client has seen of an answer; only `text` has to be there. */
export interface StressSeen {
  /** All of it that came. */
  readonly text: string;
  /** Why it ended. */
  readonly finish?: string | null;
  /** As the answer told it. */
  readonly usage?: SeenUsage | null;
  /** In their order. */
  readonly toolCalls?: readonly SeenToolCall[] | null;
  /** Reasoning, which is not part of `text`; null or absent: the client does not know. */
  readonly reasoning?: string | null;
  /** Null or absent: it saw none. */
  readonly error?: SeenError | null;
}

/** `AbortSignal`, where the compiler knows it: with a browser's names, or Node's. */
type LeaveSignal = typeof globalThis extends { AbortSignal: { readonly prototype: infer Signal } } ? Signal : unknown;

/** Asks once under the base URL. What it throws is an error that it saw. The signal: nobody waits any more. */
export type StressedClient = (baseUrl: string, signal: LeaveSignal) => Promise<StressSeen>;

/** Which cases there are, and how they are gone through. */
export interface StressOptions {
  /** Ids, or `"B*"` for all of a letter; default: every fault in each of its ways. */
  readonly faults?: readonly string[];
  /** Decides what is drawn; default 1. */
  readonly seed?: number;
  /** Each case with so many seeds; default 1. */
  readonly seeds?: number;
  /** How often the client says that it tries again; default: nothing is said. */
  readonly retries?: number;
  /** Cases at once; default 8. */
  readonly concurrency?: number;
  /** A case is a hang when it has not ended by then; default 20,000. */
  readonly caseMs?: number;
}

/** What became of a case. */
export interface StressResult {
  /** Orders the case again. */
  readonly plan: string;
  /** What the plan's faults write, in words. */
  readonly fault: string;
  /** One of docs/stress.md's. */
  readonly verdict: string;
  /** In a sentence. */
  readonly why: string;
  /** The verdict is one that a correct client does not get. */
  readonly isRed: boolean;
  /** That its client sent. */
  readonly requests: number;
}

interface Listed {
  readonly id: string;
  readonly plan: string;
  readonly fault: string;
  readonly url: string;
  readonly asks: number;
  readonly atOnce: boolean;
}

/** The client through all cases: each with its verdict (docs/stress.md). Rejects where the cases cannot be served. */
export async function stress(client: StressedClient, options: StressOptions = {}): Promise<StressResult[]> {
  const { concurrency = 8, caseMs = 20_000 } = options;
  const { child, url } = await served(options);
  const clock = new WallClock();
  try {
    const cases = (await (await fetch(`${url}/cases`)).json()) as Listed[];
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

interface Asking {
  readonly client: StressedClient;
  readonly caseMs: number;
  readonly clock: WallClock;
}

async function throughCase(asking: Asking, { plan, fault, url, asks, atOnce }: Listed): Promise<StressResult> {
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

async function asked({ client, caseMs, clock }: Asking, url: string, over: AbortController): Promise<object> {
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

/** The command beside the package's code, or in the sources. */
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
