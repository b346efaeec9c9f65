/** Which plans are tried by chance? Several faults at once, none of which leaves open what is right, with times that nobody has to wait for. */

import { mix, seeded } from "../../base/random.ts";
import type { FaultParameter, FaultRow } from "../../faults/plan/types.ts";
import { actsOn } from "../../faults/rows/row.ts";
import { FAULT_ROWS } from "../../faults/table.ts";
import { isOpenRow } from "./cases.ts";

type Below = (end: number) => number;

const TIME_MOST_US = 30_000;
const SIZE_MOST = 20_000;
const COUNT_MOST = 12;
/** Events of an answer, more or less. */
const EVENTS = 24;

const ROWS = [...FAULT_ROWS.values()].filter(
  (row) =>
    !["client", "instead"].includes(row.stage) && row.reaches === "answer" && actsOn(row, "1.1") && !isOpenRow(row),
);

/** A line of `least` to `most` faults; of fewer where they exclude each other. */
export function randomPlan(seed: number, least: number, most: number): string {
  const next = seeded(mix(seed, 11));
  const below: Below = (end) => next() % end;
  const taken: FaultRow[] = [];
  for (let left = least + below(most - least + 1); left > 0; left--) {
    const row = ROWS[below(ROWS.length)]!;
    const fits = taken.every(
      (other) => other.id !== row.id && (row.excludes === "" || other.excludes !== row.excludes),
    );
    if (fits) taken.push(row);
  }
  return `${taken.map((row) => faultText(row, below)).join(";")}#seed=${seed}`;
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
  const values = row.parameters.flatMap((one) =>
    one.type === "time" || one.type === "size" || below(2) === 0 ? [`${one.name}=${valueText(one, below)}`] : [],
  );
  return [`${row.id}@${places[kind]}${inside}${times}`, ...values].join(",");
}

function valueText(one: FaultParameter, below: Below): string {
  if (one.type === "word") return one.words[below(one.words.length)]!;
  const most = { time: TIME_MOST_US, size: SIZE_MOST, count: COUNT_MOST }[one.type];
  const value = one.least + below(Math.max(1, Math.min(one.most, most) - one.least));
  return one.type === "time" ? `${value}us` : `${value}`;
}
