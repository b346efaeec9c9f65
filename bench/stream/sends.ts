/** Counts the events per `send` in a short run under strace, which is too slow for the other measurements. */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { progress, root, table } from "../lib/bench.ts";
import { complete, read, sameChat } from "../lib/client.ts";
import { serve } from "../lib/servers.ts";
import { FREE_FLAGS } from "./cpu.ts";

const STREAMS = 64;
const TOKENS = 300;
const CALLS = "trace=sendto,send,sendmsg,write,writev";

export async function sends() {
  if (!Bun.which("strace")) {
    console.log("\nsends: skipped, because strace is not installed");
    return { strace: false };
  }
  progress("sends: under strace");
  const trace = `${root}build/bench/sends.trace`;
  const under = ["strace", "-f", "-s", "4096", "-e", CALLS, "-o", trace];
  const server = await serve(FREE_FLAGS, { under });
  const result = await read({ port: server.port, body: sameChat(TOKENS), streams: STREAMS, together: true });
  await server.stop();
  complete(result, STREAMS);

  const carrying = new Map<number, number>();
  for await (const line of createInterface({ input: createReadStream(trace) })) {
    const events = line.split("data: {").length + line.split("data: [DONE]").length - 2;
    if (events > 0) carrying.set(events, (carrying.get(events) ?? 0) + 1);
  }
  const calls = [...carrying.values()].reduce((sum, count) => sum + count, 0);
  const withOneEvent = carrying.get(1) ?? 0;
  table(`Events per send under strace: ${calls} sends for ${result.events} events`, [
    ["events", "sends", "per stream"],
    ...[...carrying].sort(([a], [b]) => a - b).map(([events, count]) => [String(events), count, count / STREAMS]),
  ]);
  return { strace: true, sends: calls, events: result.events, sendsPerEvent: calls / result.events, withOneEvent };
}
