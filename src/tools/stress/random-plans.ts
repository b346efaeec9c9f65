/** Draws random plans for `--random`: several faults at once. Only faults with a required reaction, and only with short times. */

import { mix, seeded } from "../../base/random.ts";
import type { FaultParameter, FaultRow } from "../../faults/plan/types.ts";
import { actsOn } from "../../faults/rows/row.ts";
import { FAULT_ROWS } from "../../faults/table.ts";
import { isOpenRow } from "./cases.ts";

type Below = (end: number) => number;

const TIME_MOST_US = 30_000;
const SIZE_MOST = 20_000;
const COUNT_MOST = 12;
/** Approximate number of events of an answer. */
const EVENTS = 24;

const ROWS = [...FAULT_ROWS.values()].filter(
  (row) =>
    !["client", "instead"].includes(row.stage) && row.reaches === "answer" && actsOn(row, "1.1") && !isOpenRow(row),
);

/** Returns the text of a plan with `least` to `most` faults. It may have fewer, because some faults exclude each other. */
export function randomPlan(seed: number, least: number, most: number): string {
  const next = seeded(mix(seed, 11));
  const below: Below = (end) => next() % end;
  const faults: FaultRow[] = [];
  for (let left = least + below(most - least + 1); left > 0; left--) {
    const row = ROWS[below(ROWS.length)]!;
    const fits = faults.every(
      (other) => other.id !== row.id && (row.excludes === "" || other.excludes !== row.excludes),
    );
    if (fits) faults.push(row);
  }
  return `${faults.map((row) => faultText(row, below)).join(";")}#seed=${seed}`;
}

function faultText(row: FaultRow, below: Below): string {
  const kind = row.positions[below(row.positions.length)]!;
  const inside = row.inside && kind !== "byte" && below(3) === 0 ? `+${below(100)}` : "";
  const places = {
    head: "head",
    event: `e${below(EVENTS)}`,
    byte: `b${below(4000)}`,
    done: "done",
    every: "*",
    drawn: `?${1 + below(EVENTS)}`,
    chance: `~0.${1 + below(9)}`,
  };
  const times = kind === "event" && below(4) === 0 ? `x${1 + below(5)}` : "";
  const values = row.parameters.flatMap((parameter) =>
    parameter.type === "time" || parameter.type === "size" || below(2) === 0
      ? [`${parameter.name}=${valueText(parameter, below)}`]
      : [],
  );
  return [`${row.id}@${places[kind]}${inside}${times}`, ...values].join(",");
}

function valueText(parameter: FaultParameter, below: Below): string {
  if (parameter.type === "word") return parameter.words[below(parameter.words.length)]!;
  const limit = { time: TIME_MOST_US, size: SIZE_MOST, count: COUNT_MOST }[parameter.type];
  const value = parameter.least + below(Math.max(1, Math.min(parameter.most, limit) - parameter.least));
  return parameter.type === "time" ? `${value}us` : `${value}`;
}
