/**
 * A fast-check arbitrary of fault plans, for property tests. It shrinks to fewer faults at simpler positions, as `understudy
 * stress --random` does.
 */
import fc from "fast-check";
import type { FaultParameter, FaultRow, PositionKind } from "../../faults/plan/types.ts";
import { actsOn } from "../../faults/rows/row.ts";
import { FAULT_ROWS } from "../../faults/table.ts";

/** Bounds of the generated plans. */
export interface FaultPlansOptions {
  /** Ids of the faults, such as `["B8", "E7"]`. Default: all that affect only their own answer. */
  readonly faults?: readonly string[];
  /** Maximum number of faults of a plan. Default 3. */
  readonly maxFaults?: number;
  /** Longest time that a fault takes, in microseconds. Default 20,000. */
  readonly maxTimeUs?: number;
  /** Largest size that a fault has, in bytes. Default 20,000. */
  readonly maxBytes?: number;
}

/** A fault with its documentation. */
export interface FaultDescription {
  /** Id as in a plan, such as `B8`. */
  readonly id: string;
  /**
   * Stage at which it acts: `events`, `text`, `coding`, `http`, `segments`, `end`. Faults of `client` and `none` cannot be
   * ordered.
   */
  readonly stage: string;
  /** The effect on the wire. */
  readonly what: string;
  /** The reaction of a correct client. */
  readonly oracle: string;
  /**
   * The standard or reference that requires this reaction. "our rule": none does, and we decided. "policy": clients are not
   * judged.
   */
  readonly text: string;
}

/** All faults by id (docs/reference/faults.md). */
export const FAULTS: Readonly<Record<string, FaultDescription>> = Object.fromEntries(
  [...FAULT_ROWS].map(([id, { stage, what, oracle, text }]) => [id, { id, stage, what, oracle, text }]),
);

const COUNT_MOST = 12;
const EVENTS = 20;
const BODY_BYTES = 3000;

/** Returns an arbitrary of plans such as `B1@e3;S2#seed=7`. Throws a TypeError for an id that is not a fault of an answer. */
export function faultPlans(options: FaultPlansOptions = {}): fc.Arbitrary<string> {
  const { faults, maxFaults = 3 } = options;
  const rows = faults === undefined ? usualRows() : faults.map(rowOf);
  const each = fc.constantFrom(...rows).chain((row) => faultOf(row, options).map((text) => ({ row, text })));
  // An array that may be empty can shrink to any of its elements. With a minimum length, fast-check would keep the last ones.
  const faultLists = fc.array(each, { maxLength: maxFaults }).filter(({ length }) => length > 0);
  return fc
    .tuple(faultLists, fc.nat({ max: 2 ** 31 - 1 }))
    .map(([all, seed]) => `${together(all).join(";")}#seed=${seed}`);
}

const isOrdered = (row: FaultRow) => row.stage !== "client" && actsOn(row, "1.1");
const usualRows = () => [...FAULT_ROWS.values()].filter((row) => isOrdered(row) && row.reaches === "answer");

function rowOf(id: string): FaultRow {
  const row = FAULT_ROWS.get(id);
  if (row === undefined || !isOrdered(row))
    throw new TypeError(`faults: "${id}" is not a fault that an answer can have`);
  return row;
}

/** Removes faults that an earlier fault excludes. */
function together(all: readonly { readonly row: FaultRow; readonly text: string }[]): string[] {
  const compatible = all.filter(
    ({ row }, at) => row.excludes === "" || all.findIndex((other) => other.row.excludes === row.excludes) === at,
  );
  return compatible.map(({ text }) => text);
}

function faultOf(row: FaultRow, { maxTimeUs = 20_000, maxBytes = 20_000 }: FaultPlansOptions): fc.Arbitrary<string> {
  const place = fc.constantFrom(...row.positions).chain(placeOf);
  const values = row.parameters.map((parameter) => {
    const text = anyValueOf(parameter, maxTimeUs, maxBytes).map((value) => `${parameter.name}=${value}`);
    // Always state times and sizes, because their default times are longer than a test should wait.
    return parameter.type === "time" || parameter.type === "size" ? text : fc.option(text, { nil: "" });
  });
  return fc
    .tuple(place, fc.tuple(...values))
    .map(([position, parameters]) => [`${row.id}@${position}`, ...parameters].filter((part) => part !== "").join(","));
}

function placeOf(kind: PositionKind): fc.Arbitrary<string> {
  const number = (name: string, max: number) => fc.nat({ max }).map((at) => `${name}${at}`);
  if (kind === "event") return number("e", EVENTS);
  if (kind === "byte") return number("b", BODY_BYTES);
  if (kind === "drawn") return fc.integer({ min: 1, max: EVENTS }).map((below) => `?${below}`);
  if (kind === "chance") return fc.integer({ min: 1, max: 9 }).map((tenths) => `~0.${tenths}`);
  return fc.constant(kind === "every" ? "*" : kind);
}

function anyValueOf(parameter: FaultParameter, maxTimeUs: number, maxBytes: number): fc.Arbitrary<string> {
  if (parameter.type === "word") return fc.constantFrom(...parameter.words);
  const most = { time: maxTimeUs, size: maxBytes, count: COUNT_MOST }[parameter.type];
  const unit = parameter.type === "time" ? "us" : "";
  return fc
    .integer({ min: parameter.least, max: Math.max(parameter.least, Math.min(parameter.most, most)) })
    .map((n) => `${n}${unit}`);
}
