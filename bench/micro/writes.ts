/**
 * Compares the CPU time of an event that is sent together with all events of its step, in one native call, with that of an event
 * that is written alone. Both run in turn on the same connections of one process, so that a busy machine slows both. Another
 * process reads.
 *
 *   bun run bench writes [--streams 64] [--pairs 60] [--no-save]
 */

import { type Lane, Lanes, TokenTexts } from "../../src/engine/interface/lanes.ts";
import { FRONT_LIMITS } from "../../src/wire/http/front-limits.ts";
import type { EventSink } from "../../src/wire/http/sink.ts";
import { HttpServer } from "../../src/wire/http1/server.ts";
import { nativeLanes } from "../../src/wire/lanes/native-lanes.ts";
import { median } from "../lib/numbers.ts";
import { number, rejectUnknown } from "../lib/options.ts";
import { figure, progress, table } from "../lib/report.ts";
import { save } from "../lib/results.ts";

rejectUnknown(["--streams", "--pairs", "--no-save"]);
const STREAMS = number("--streams", 64);
const PAIRS = number("--pairs", 60);
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
    ...{ hostname: "127.0.0.1", port: 0, tls: undefined, reusePort: false, frontLimits: FRONT_LIMITS },
    clock: { now: () => 0, at: () => () => {}, turn: setImmediate },
    warn() {},
    epochSeconds: () => 0,
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

interface Cost {
  readonly userUs: number;
  readonly systemUs: number;
}

/** Runs steps until `EVENTS` events are sent. Returns the CPU time per event. */
async function run(batched: boolean): Promise<Cost> {
  let events = 0;
  const before = process.cpuUsage();
  while (events < EVENTS) {
    events += batched ? batchedStep() : singleStep();
    await new Promise(setImmediate);
  }
  for (const lane of taken) lane.clear();
  const { user, system } = process.cpuUsage(before);
  return { userUs: user / events, systemUs: system / events };
}

const pairs: { readonly single: Cost; readonly batched: Cost }[] = [];
for (let pair = -WARM_PAIRS; pair < PAIRS; pair++) {
  progress(`writes: pair ${pair} of ${PAIRS}`);
  const first = await run(pair % 2 === 0);
  const second = await run(pair % 2 !== 0);
  const [batched, single] = pair % 2 === 0 ? [first, second] : [second, first];
  if (pair >= 0) pairs.push({ single, batched });
}
reader.kill();
await server.stop(true);

const of = (way: "single" | "batched", part: keyof Cost) => median(pairs.map((pair) => pair[way][part]));
const total = ({ userUs, systemUs }: Cost) => userUs + systemUs;
const ratio = median(pairs.map(({ single, batched }) => total(batched) / total(single)));
table(`CPU per event, µs, ${STREAMS} streams, median of ${pairs.length} pairs`, [
  ["", "user", "system"],
  ["written alone", of("single", "userUs"), of("single", "systemUs")],
  ["one call per step", of("batched", "userUs"), of("batched", "systemUs")],
]);
console.log(`  one call per step ÷ written alone: ${figure(ratio)}`);
const figures = (way: "single" | "batched") => ({ userUs: of(way, "userUs"), systemUs: of(way, "systemUs") });
save("writes", { streams: STREAMS, ratio, single: figures("single"), batched: figures("batched") });
process.exit(0);
