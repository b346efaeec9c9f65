/** Draws random plans from the grammar and the table of faults. */

import { mix, seeded } from "../../src/base/random.ts";
import type { FaultParameter, FaultRow } from "../../src/faults/plan/types.ts";
import { FAULT_ROWS } from "../../src/faults/table.ts";

const rows = [...FAULT_ROWS.values()].filter(({ stage }) => stage !== "client");

/** Draws a plan of 1 to `most` faults that do not exclude each other. */
export function anyPlan(seed: number, most: number): string {
  const next = seeded(mix(seed, 7));
  const below = (end: number) => next() % end;
  const taken: FaultRow[] = [];
  for (let left = 1 + below(most); left > 0; left--) {
    const row = rows[below(rows.length)]!;
    if (row.excludes === "" || taken.every(({ excludes }) => excludes !== row.excludes)) taken.push(row);
  }
  return `${taken.map((row) => anyFault(row, below)).join(";")}#seed=${seed}`;
}

function anyFault(row: FaultRow, below: (end: number) => number): string {
  const kind = row.positions[below(row.positions.length)]!;
  const inside = row.inside && kind !== "byte" && below(3) === 0 ? `+${below(200)}` : "";
  const places = {
    head: "head",
    event: `e${below(12)}`,
    byte: `b${below(3000)}`,
    done: "done",
    every: "*",
    drawn: `?${1 + below(12)}`,
    chance: `~0.${1 + below(9)}`,
  };
  const values = row.parameters
    .filter(() => below(2) === 0)
    .map((parameter) => `${parameter.name}=${anyValue(parameter, below)}`);
  return [`${row.id}@${places[kind]}${inside}${below(8) === 0 ? `x${1 + below(5)}` : ""}`, ...values].join(",");
}

function anyValue(parameter: FaultParameter, below: (end: number) => number): string {
  if (parameter.type === "word") return parameter.words[below(parameter.words.length)]!;
  const value = parameter.least + below(Math.min(parameter.most - parameter.least + 1, 300_000));
  return parameter.type === "time" ? `${value}us` : `${value}`;
}
