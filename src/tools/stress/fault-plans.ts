/**
 * Which plans of faults are there, for property tests? A fast-check arbitrary of their lines, which shrinks to fewer faults
 * at plainer places, as `understudy stress --random` does.
 */
import fc from "fast-check";
import type { FaultParameter, FaultRow, PositionKind } from "../../faults/plan/types.ts";
import { actsOn } from "../../faults/rows/row.ts";
import { FAULT_ROWS } from "../../faults/table.ts";

/** Which plans are drawn. */
export interface FaultPlansOptions {
  /** Ids, as `["B8", "E7"]`; default: all that an answer may have and that reach no other. */
  readonly faults?: readonly string[];
  /** Default 3. */
  readonly maxFaults?: number;
  /** Longest time that a fault takes, microseconds; default 20,000. */
  readonly maxTimeUs?: number;
  /** Default 20,000. */
  readonly maxBytes?: number;
}

/** A fault, as users see it. */
export interface FaultKnown {
  /** As in a plan: `B8`. */
  readonly id: string;
  /** Where it acts: `events`, `text`, `coding`, `http`, `segments`, `end`; `client` and `none` cannot be ordered. */
  readonly stage: string;
  /** What is seen on the wire. */
  readonly what: string;
  /** What a correct client does. */
  readonly oracle: string;
  /** The text that says so. "our rule": no text does, and a rule of ours decides. "policy": nobody is judged. */
  readonly text: string;
}

/** All faults by their ids (docs/faults.md). */
export const FAULTS: Readonly<Record<string, FaultKnown>> = Object.fromEntries(
  [...FAULT_ROWS].map(([id, { stage, what, oracle, text }]) => [id, { id, stage, what, oracle, text }]),
);

const COUNT_MOST = 12;
const EVENTS = 20;
const BODY_BYTES = 3000;

/** Lines as `B1@e3;S2#seed=7`. Throws a TypeError for an id that no answer can have. */
export function faultPlans(options: FaultPlansOptions = {}): fc.Arbitrary<string> {
  const { faults, maxFaults = 3 } = options;
  const rows = faults === undefined ? usualRows() : faults.map(rowOf);
  const each = fc.constantFrom(...rows).chain((row) => faultOf(row, options).map((text) => ({ row, text })));
  // An array that may be empty shrinks to any of its elements; with a least length, fast-check keeps the last ones.
  const some = fc.array(each, { maxLength: maxFaults }).filter(({ length }) => length > 0);
  return fc.tuple(some, fc.nat({ max: 2 ** 31 - 1 })).map(([all, seed]) => `${together(all).join(";")}#seed=${seed}`);
}

const isOrdered = (row: FaultRow) => row.stage !== "client" && actsOn(row, "1.1");
const usualRows = () => [...FAULT_ROWS.values()].filter((row) => isOrdered(row) && row.reaches === "answer");

function rowOf(id: string): FaultRow {
  const row = FAULT_ROWS.get(id);
  if (row === undefined || !isOrdered(row)) throw new TypeError(`faults: "${id}" is no fault that an answer can have`);
  return row;
}

/** Without those that exclude one before them. */
function together(all: readonly { readonly row: FaultRow; readonly text: string }[]): string[] {
  const kept = all.filter(
    ({ row }, at) => row.excludes === "" || all.findIndex((other) => other.row.excludes === row.excludes) === at,
  );
  return kept.map(({ text }) => text);
}

function faultOf(row: FaultRow, { maxTimeUs = 20_000, maxBytes = 20_000 }: FaultPlansOptions): fc.Arbitrary<string> {
  const place = fc.constantFrom(...row.positions).chain(placeOf);
  const values = row.parameters.map((one) => {
    const said = anyValueOf(one, maxTimeUs, maxBytes).map((value) => `${one.name}=${value}`);
    // What takes time is always said: its usual time is longer than a test wants to wait.
    return one.type === "time" || one.type === "size" ? said : fc.option(said, { nil: "" });
  });
  return fc
    .tuple(place, fc.tuple(...values))
    .map(([where, given]) => [`${row.id}@${where}`, ...given].filter((one) => one !== "").join(","));
}

function placeOf(kind: PositionKind): fc.Arbitrary<string> {
  const number = (name: string, max: number) => fc.nat({ max }).map((at) => `${name}${at}`);
  if (kind === "event") return number("e", EVENTS);
  if (kind === "byte") return number("b", BODY_BYTES);
  if (kind === "drawn") return fc.integer({ min: 1, max: EVENTS }).map((below) => `?${below}`);
  if (kind === "chance") return fc.integer({ min: 1, max: 9 }).map((tenths) => `~0.${tenths}`);
  return fc.constant(kind === "every" ? "*" : kind);
}

function anyValueOf(one: FaultParameter, maxTimeUs: number, maxBytes: number): fc.Arbitrary<string> {
  if (one.type === "word") return fc.constantFrom(...one.words);
  const most = { time: maxTimeUs, size: maxBytes, count: COUNT_MOST }[one.type];
  const unit = one.type === "time" ? "us" : "";
  return fc.integer({ min: one.least, max: Math.max(one.least, Math.min(one.most, most)) }).map((n) => `${n}${unit}`);
}
