/**
 * Compares the CPU time of an event that is sent together with all events of its step, in one native call, with that of an event
 * that is written alone. Both run in turn on the same connections of one process, so that a busy machine slows both. Another
 * process reads.
 *
 *   bun run bench writes [--streams 64] [--pairs 60] [--no-save]
 */

import { type Lane, Lanes, TokenTexts } from "../../src/engine/interface/lanes.ts";
import type { EventSink } from "../../src/wire/http/sink.ts";
import { HttpServer } from "../../src/wire/http1/server.ts";
import { nativeLanes } from "../../src/wire/lanes/native-lanes.ts";
import { LOCAL } from "../../test/wire/http1/local-options.ts";
import { figure, note, options, save, table } from "../lib/bench.ts";
import { medianRatio, medians } from "../lib/numbers.ts";
import { inTurns } from "../lib/servers.ts";

const { streams: STREAMS, pairs: PAIRS } = options({ streams: 64, pairs: 60 });
const EVENTS = 40_000;
/** Number of warm-up pairs, in which the code is compiled. */
const WARM_PAIRS = 6;
const READER = `
  const socket = { open: (one) => one.write("GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"), data() {} };
  for (let i = 0; i < ${STREAMS}; i++) await Bun.connect({ hostname: "127.0.0.1", port: Number(process.env.PORT), socket });`;

const native = await nativeLanes();
if (typeof native !== "function") throw new Error(native.refused);
const lanes = new Lanes(native, new TokenTexts());
const streams: EventSink[] = [];
const owner = { onDrain() {}, onGone() {} };
const server: HttpServer = new HttpServer(
  {
    fetch(request) {
      streams.push(server.open(request, owner, null));
      return server.begin(request, 200, {});
    },
  },
  {
    ...LOCAL,
  },
);
const reader = Bun.spawn([process.execPath, "-e", READER], { env: { ...process.env, PORT: String(server.port) } });
while (streams.length < STREAMS) await Bun.sleep(10);

const prefix = Buffer.alloc(180, "p");
const suffix = Buffer.alloc(60, "s");
const pieces = Array.from({ length: 8 }, (_, i) => Buffer.alloc(2 + i, "x"));
const ids = Int32Array.from({ length: STREAMS }, (_, i) => i % pieces.length);
/** The rows of an outbox, one plain token each. */
const out = Int32Array.from(Array.from({ length: STREAMS }, (_, slot) => [slot, slot, 1, 0]).flat());
const taken: Lane[] = streams.map((stream, slot) => lanes.lane(slot, stream.laneEnd!, prefix, suffix)!);
let step = 0;

function batchedStep(): number {
  lanes.begin(++step);
  for (let row = 0; row < STREAMS; row++) {
    row = lanes.write(out, ids, row, STREAMS);
    if (row < STREAMS) writeSingle(row);
  }
  return STREAMS;
}

function singleStep(): number {
  for (let row = 0; row < STREAMS; row++) writeSingle(row);
  return STREAMS;
}

function writeSingle(row: number): void {
  const id = ids[row]!;
  const stream = streams[row]!;
  if (stream.full) return;
  stream.writeParts(prefix, pieces[id]!, suffix);
  taken[row]!.goOn(id, pieces[id]!);
}

/** Runs steps until `EVENTS` events are sent. Returns the CPU time per event. */
async function run(step: () => number): Promise<{ readonly userUs: number; readonly systemUs: number }> {
  let events = 0;
  const before = process.cpuUsage();
  while (events < EVENTS) {
    events += step();
    await new Promise(setImmediate);
  }
  for (const lane of taken) lane.clear();
  const { user, system } = process.cpuUsage(before);
  return { userUs: user / events, systemUs: system / events };
}

const ways = { single: () => run(singleStep), batched: () => run(batchedStep) };
const pairs = await inTurns("writes", PAIRS, ways, WARM_PAIRS);
reader.kill();
await server.stop(true);

const totals = (way: "single" | "batched") => pairs[way].map(({ userUs, systemUs }) => userUs + systemUs);
const ratio = medianRatio(totals("batched"), totals("single"));
const [single, batched] = [medians(pairs.single), medians(pairs.batched)];
table(`CPU per event, µs, ${STREAMS} streams, median of ${PAIRS} pairs`, [
  ["", "user", "system"],
  ["written alone", single.userUs, single.systemUs],
  ["one call per step", batched.userUs, batched.systemUs],
]);
note(`one call per step ÷ written alone: ${figure(ratio)}`);
save("writes", { streams: STREAMS, ratio, single, batched });
process.exit(0);
