/**
 * Decides which numbers are kept after their process has died. Counters are kept, gauges become 0, because a dead
 * process has nothing in progress. The tables of engine/interface/numbers.ts define the kinds.
 */

import {
  ADAPTER_NUMBERS,
  ENGINE_NUMBERS,
  FRONT_NUMBERS,
  LOOP_NUMBERS,
  type NumberEntry,
  namesIn,
} from "../../engine/interface/numbers.ts";
import type { Snapshot } from "../../engine/interface/types.ts";
import { ensembleGauges } from "../ensemble/ensemble.ts";
import { Layout, type Shape } from "./flat.ts";
import { HTTP_WIDTH, HttpWord, STATUS_CLASSES } from "./http-counts.ts";

/** Determines the value of a number after its process has died, and the combination of the numbers of several processes. */
export enum NumberKind {
  /** Becomes 0 when its process dies. Several processes: the sum. */
  Gauge = 0,
  /** Is kept, and the next process adds to it. Several processes: the sum. Includes histograms, outcomes and losses. */
  Counter = 1,
  /** Time of a first event, 0 for never. Is kept. Several processes: the earliest. */
  First = 2,
}

/** Returns a `NumberKind` for each number of a copy with this shape. */
export function kindsOf(shape: Shape): Uint8Array {
  const layout = new Layout(shape);
  const zero = layout.read(new Float64Array(layout.length));
  const { front } = zero;
  const gauges = marked(layout, {
    ...zero,
    engines: zero.engines.map((engine) => ({
      ...engine,
      ...ones(ENGINE_NUMBERS),
      adapters: engine.adapters.map((adapter) => ({ ...adapter, ...ones(ADAPTER_NUMBERS) })),
      meters: ensembleGauges(engine.meters.length),
    })),
    loop: { ...zero.loop, ...ones(LOOP_NUMBERS) },
    front: { ...front, ...ones(FRONT_NUMBERS) },
  });
  const routes = Array.from(front.http.routes, (_, i) => Number(isSince(i % HTTP_WIDTH)));
  const firsts = marked(layout, { ...zero, front: { ...front, http: { ...front.http, routes } } });
  return gauges.map((gauge, i) => (gauge ? NumberKind.Gauge : firsts[i] ? NumberKind.First : NumberKind.Counter));
}

const isSince = (word: number) => word >= HttpWord.since && word < HttpWord.since + STATUS_CLASSES.length;

/** Returns 1 for the number of restarts and 0 for all others. */
export function restartsOf(shape: Shape): Uint8Array {
  const layout = new Layout(shape);
  const zero = layout.read(new Float64Array(layout.length));
  return marked(layout, { ...zero, front: { ...zero.front, workerRestarts: 1 } });
}

/** Returns the gauges of the table, each with the number 1. */
function ones<T extends Readonly<Record<string, NumberEntry>>>(table: T): { [K in keyof T]?: 1 } {
  const names = namesIn(table).filter((name) => table[name]!.kind === "gauge");
  return Object.fromEntries(names.map((name) => [name, 1])) as { [K in keyof T]?: 1 };
}

function marked(layout: Layout, snapshot: Snapshot): Uint8Array {
  const numbers = new Float64Array(layout.length);
  layout.write(snapshot, numbers);
  return Uint8Array.from(numbers);
}
