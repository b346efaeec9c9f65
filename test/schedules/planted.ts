/**
 * A small program with the fault that the metrics thread once had. `bun planted.ts woken` treats each wake-up as an order.
 * `bun planted.ts turned` waits until the turn has moved. The answer to each GET is the number of orders.
 */
import { isMainThread } from "node:worker_threads";

declare const self: Worker;

/** Words that the two threads share. */
const Turn = 0;
const Wanted = 1;
const SPARE_EVERY_MS = 3;
const PAGE_MS = 2;

function serveOrders(order: Int32Array, waitsForTurn: boolean): void {
  for (let turn = 0; ; ) {
    do Atomics.wait(order, Turn, turn);
    while (waitsForTurn && Atomics.load(order, Turn) === turn);
    turn = Atomics.load(order, Turn);
    Bun.sleepSync(PAGE_MS);
    if (order[Wanted] === turn) postMessage(turn);
  }
}

function serveHttp(waits: string): void {
  const order = new Int32Array(new SharedArrayBuffer(8));
  const worker = new Worker(import.meta.url);
  let running: ((turn: number) => void) | null = null;
  const begin = (isWanted: boolean) => {
    if (isWanted) order[Wanted] = order[Turn]! + 1;
    Atomics.add(order, Turn, 1);
    Atomics.notify(order, Turn);
  };
  worker.onmessage = ({ data }: MessageEvent<number>) => {
    const answer = running!;
    running = null;
    answer(data);
  };
  worker.postMessage({ order, waitsForTurn: waits === "turned" });
  setInterval(() => {
    if (running === null) begin(false);
  }, SPARE_EVERY_MS);
  const { port } = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch() {
      const { promise, resolve } = Promise.withResolvers<number>();
      running = resolve;
      begin(true);
      return new Response(String(await promise));
    },
  });
  process.on("SIGTERM", () => process.exit(0));
  console.log(`http://127.0.0.1:${port}`);
}

if (isMainThread) serveHttp(process.argv[2]!);
else {
  self.onmessage = ({ data }: MessageEvent<{ order: Int32Array; waitsForTurn: boolean }>) =>
    serveOrders(data.order, data.waitsForTurn);
}
