/**
 * Which numbers of a held copy only rise? Those are kept when their process is gone; most others are what it holds at the
 * moment, and a dead process holds nothing. Of what kind
 * each is, the tables of engine/interface/numbers.ts say.
 */

import {
  ADAPTER_NUMBERS,
  type Counted,
  ENGINE_NUMBERS,
  FRONT_NUMBERS,
  LOOP_NUMBERS,
  namesIn,
} from "../../engine/interface/numbers.ts";
import type { Snapshot } from "../../engine/interface/types.ts";
import { ensembleGauges } from "../ensemble/ensemble.ts";
import { Layout, type Shape } from "./flat.ts";
import { HTTP_WIDTH, HttpWord, STATUS_CLASSES } from "./http-counts.ts";

/** What becomes of a number when its process is gone, and how those of several processes are taken together. */
export enum NumberKind {
  /** Is 0 then; a sum. */
  Gauge = 0,
  /** Stays, and the next process adds to it; a sum. Histograms, outcomes and losses too. */
  Counter = 1,
  /** When something first happened, 0 for never: stays; the earliest. */
  First = 2,
}

/** One `NumberKind` per number of a copy of that shape. */
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

/** Marks the number of restarts alone. */
export function restartsOf(shape: Shape): Uint8Array {
  const layout = new Layout(shape);
  const zero = layout.read(new Float64Array(layout.length));
  return marked(layout, { ...zero, front: { ...zero.front, workerRestarts: 1 } });
}

/** The gauges, all 1. */
function ones<T extends Readonly<Record<string, Counted>>>(table: T): { [K in keyof T]?: 1 } {
  const names = namesIn(table).filter((name) => table[name]!.kind === "gauge");
  return Object.fromEntries(names.map((name) => [name, 1])) as { [K in keyof T]?: 1 };
}

function marked(layout: Layout, snapshot: Snapshot): Uint8Array {
  const numbers = new Float64Array(layout.length);
  layout.write(snapshot, numbers);
  return Uint8Array.from(numbers);
}
