/**
 * Delays each thread of a program under test, into which it is preloaded (`bun --preload`). Each `Atomics` operation, posted
 * message and write has a random delay before and after it, by the seed in the shared page. A delayed thread sleeps in
 * `Atomics.wait`, so it really loses its core. Also makes one thread fail on order.
 */
import { isMainThread } from "node:worker_threads";
import { FAILURES, hashOf, mapPage, mix, PAGE_PATH, Word } from "./page.ts";

// Bun types `Atomics` by overloads, which a wrapper for any of its functions cannot name.
// biome-ignore lint/suspicious/noExplicitAny: see above
type AnyFunction = (...args: any[]) => any;

const SEED_BUDGET_MS = 200;
const OFTEN_OF_64 = 16;
const LONG_MS = 60;

const { load, sub, store, add, wait } = Atomics;
const page = mapPage(process.env[PAGE_PATH]!);
const asleep = new Int32Array(new SharedArrayBuffer(4));

/** Main thread of a server, or of the process above those of `--workers`. */
const mainName = process.argv.includes("--workers") ? "parent" : "loop";
/** Name of this thread. A worker is named by the folder and file of its program, such as `metrics/worker`. */
const name = isMainThread ? mainName : (/([^/]+\/[^/]+)\.ts$/.exec(process.argv[1] ?? "")?.[1] ?? "");
const thread = hashOf(name);

let run = 0;
/**
 * Number of draws of this thread since the run began, by kind of point. So a draw does not depend on the order in which kinds
 * alternate.
 */
const counts = new Map<number, number>();
let leftMs = SEED_BUDGET_MS;

/** Returns the milliseconds that this thread sleeps at a point of this kind: 0 for most points. */
function delayMs(kind: number): number {
  const seed = load(page, Word.Seed);
  if (seed === 0) return 0;
  if (load(page, Word.Run) !== run) {
    run = load(page, Word.Run);
    counts.clear();
    leftMs = SEED_BUDGET_MS;
  }
  const count = (counts.get(kind) ?? 0) + 1;
  counts.set(kind, count);
  // In each seed some kinds of points are delayed often, because a fault may need several equal delays in a row.
  const often = mix(seed, thread, kind) % 64 < OFTEN_OF_64;
  const drawn = mix(seed, thread ^ kind, count);
  if (drawn % 256 >= (often ? 96 : 4)) return 0;
  const share = (drawn >>> 8) / 2 ** 24;
  // 50 us to 5 ms, evenly on a logarithmic scale; 60 ms for 15 of 100.
  const ms = Math.min(leftMs, share > 0.85 ? LONG_MS : 0.05 * 100 ** (share / 0.85));
  leftMs -= ms;
  return ms;
}

function failIfOrdered(): void {
  if (load(page, Word.Victim) !== thread || sub(page, Word.Left, 1) > 0) return;
  store(page, Word.Victim, 0);
  add(page, Word.Failed, 1);
  fail();
}

function fail(): void {
  const error = new Error(`planted in ${name}`);
  const failure = FAILURES[load(page, Word.Failure)];
  if (failure === "exit") process.exit(3);
  else if (failure === "reject") void Promise.reject(error);
  else if (failure === "timer") {
    setTimeout(() => {
      throw error;
    });
  } else throw error;
}

function point(kind: number): void {
  const ms = delayMs(kind);
  if (ms > 0) wait(asleep, 0, 0, ms);
}

/** Returns `original` with a point before and a point after it. */
function delayed<F extends AnyFunction>(called: string, original: F): F {
  const before = hashOf(`before ${called}`);
  const after = hashOf(`after ${called}`);
  const wrapper = function (this: unknown, ...args: unknown[]) {
    failIfOrdered();
    // The length of shared memory identifies its purpose.
    const [memory] = args;
    const purpose = memory instanceof Int32Array ? memory.length : 0;
    point(mix(before, purpose));
    const result = original.apply(this, args);
    point(mix(after, purpose));
    return result;
  };
  return wrapper as F;
}

function replace(owner: object, key: string, called = key): void {
  const functions = owner as Record<string, AnyFunction>;
  functions[key] = delayed(called, functions[key]!);
}

for (const key of ["add", "sub", "store", "load", "exchange", "compareExchange", "notify", "wait"])
  replace(Atomics, key);
replace(process.stdout, "write", "stdout");
if (!isMainThread) replace(globalThis, "postMessage");

const NativeWorker = globalThis.Worker;
globalThis.Worker = class extends NativeWorker {
  constructor(script: string | URL, options: WorkerOptions = {}) {
    super(script, { ...options, preload: [import.meta.path] });
  }
} as typeof Worker;
replace(NativeWorker.prototype, "postMessage", "Worker.postMessage");

// Sockets of all listeners share a prototype, which only a socket leads to.
const listen = Bun.listen;
let replaced = false;
Bun.listen = ((options: { socket: { open?: (socket: object) => void } }) => {
  const { open } = options.socket;
  options.socket.open = (socket) => {
    if (!replaced) replace(Object.getPrototypeOf(socket), "write", "socket");
    replaced = true;
    open?.(socket);
  };
  return (listen as AnyFunction)(options);
}) as typeof Bun.listen;

// The parent passes no point while its workers serve, so it checks by timer.
if (name === "parent") setInterval(failIfOrdered, 10).unref();

if (load(page, Word.Victim) === thread && FAILURES[load(page, Word.Failure)] === "start") {
  add(page, Word.Failed, 1);
  throw new Error(`planted at the start of ${name}`);
}
