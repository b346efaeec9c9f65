/** What does a line say? `B1@e3+17;T1@e10,2s;E7@e40#seed=7`: faults, each with a position and parameters; then the seed. */

import type { FaultParameter, FaultRow, Plan, PlannedFault, Position, PositionKind } from "./plan/types.ts";
import { FAULT_ROWS } from "./table.ts";

/** What is wrong with a plan, and at which character, from 1. */
export class BrokenPlan extends Error {
  override readonly name = "BrokenPlan";
  constructor(at: number, why: string) {
    super(`fault plan, character ${at + 1}: ${why}`);
  }
}

const PLAN_CHARACTERS = 2000;
const PLAN_FAULTS = 32;
const KEY_CHARACTERS = 200;
/** A year; what is longer is called that. */
export const FOREVER_US = 3600e6;
const POSITION = /^(?:(head|done|\*)|([eb?])(\d{0,9})|~([\d.]{1,12}))(?:\+(\d{1,8}))?(?:x(\d{1,7}))?$/;
const POSITIONS = "head, e3, e3+17, b100, done, *, ?, ?20, ~0.01, with x4 for so many in a row";
const TIMES: Readonly<Record<string, number>> = { us: 1, ms: 1e3, s: 1e6, m: 60e6, h: 3600e6 };
const SIZES: Readonly<Record<string, number>> = { B: 1, KB: 1e3, MB: 1e6, KiB: 2 ** 10, MiB: 2 ** 20 };
/** Events among which one is drawn where the plan does not say. */
const DRAWN_BELOW = 8;

/** Throws `BrokenPlan`. */
export function parsePlan(text: string): Plan {
  if (text.length > PLAN_CHARACTERS) throw new BrokenPlan(PLAN_CHARACTERS, `at most ${PLAN_CHARACTERS} are taken`);
  const hash = text.indexOf("#");
  const list = hash === -1 ? text : text.slice(0, hash);
  const faults: PlannedFault[] = [];
  let at = 0;
  for (const one of list.split(";")) {
    faults.push(readFault(one, at));
    at += one.length + 1;
  }
  if (faults.length > PLAN_FAULTS) throw new BrokenPlan(0, `${faults.length} faults, at most ${PLAN_FAULTS} are taken`);
  checkTogether(faults);
  return { faults, ...readOptions(hash === -1 ? "" : text.slice(hash + 1), hash + 1) };
}

/** The line that orders the same again. */
export function planText({ faults, seed }: Plan, key: string): string {
  return `${faults.map(({ text }) => text).join(";")}#seed=${seed},key=${encodeURIComponent(key)}`;
}

/** A fault with what it has where nothing is said. */
export function plainFault(row: FaultRow): PlannedFault {
  return readFault(row.id, 0);
}

function readFault(text: string, at: number): PlannedFault {
  const [head = "", ...given] = text.split(",");
  const [id = "", place, ...more] = head.split("@");
  const row = FAULT_ROWS.get(id.trim());
  if (row === undefined) throw new BrokenPlan(at, `"${id.trim()}" is no fault; B1 to C3 of docs/faults.md are taken`);
  if (row.stage === "client") throw new BrokenPlan(at, `${row.id} is what a client does; no answer can be ordered to`);
  if (more.length > 0) throw new BrokenPlan(at, `"${head}" has several positions`);
  const position = readPosition(place ?? row.position, row, at + id.length + 1);
  const values = readValues(given, row, at + head.length + 1);
  return { row, position, values, text: [`${row.id}@${place ?? row.position}`, ...given].join(",") };
}

function readPosition(text: string, row: FaultRow, at: number): Position {
  const found = POSITION.exec(text);
  if (found === null) throw new BrokenPlan(at, `"${text}" is no position; ${POSITIONS} are taken`);
  const [, word, letter, digits = "", chance, offset, count] = found;
  const kind: PositionKind =
    word === "*"
      ? "every"
      : word
        ? (word as "head" | "done")
        : letter === "e"
          ? "event"
          : letter === "b"
            ? "byte"
            : letter
              ? "drawn"
              : "chance";
  const number = chance !== undefined ? Number(chance) : digits === "" ? DRAWN_BELOW : Number(digits);
  const numbered = kind !== "event" && kind !== "byte" ? true : digits !== "";
  if (!numbered || Number.isNaN(number) || (kind === "chance" && number > 1) || number < 0)
    throw new BrokenPlan(at, `"${text}" is no position; ${POSITIONS} are taken`);
  if (!row.positions.includes(kind))
    throw new BrokenPlan(
      at,
      `${row.id} cannot be at "${text}"; ${row.positions.map((one) => EXAMPLES[one]).join(", ")}`,
    );
  if (offset !== undefined && !row.inside) throw new BrokenPlan(at, `${row.id} takes no byte inside an event`);
  return { kind, at: number, offset: offset === undefined ? null : Number(offset), count: Number(count ?? 1) };
}

const EXAMPLES: Readonly<Record<PositionKind, string>> = {
  head: "head",
  event: "e3",
  byte: "b100",
  done: "done",
  every: "*",
  drawn: "?",
  chance: "~0.01",
};

function readValues(given: readonly string[], row: FaultRow, from: number): PlannedFault["values"] {
  const values: Record<string, string | number> = {};
  let at = from;
  for (const token of given) {
    const named = /^([a-z]+)=(.*)$/.exec(token);
    const free = row.parameters.filter(({ name }) => !(name in values) && (named === null || named[1] === name));
    const taken = free.map((one) => ({ name: one.name, value: readValue(named?.[2] ?? token, one) }));
    const fits = taken.find(({ value }) => value !== null);
    if (fits === undefined) throw new BrokenPlan(at, `"${token}" is nothing that ${row.id} takes; ${takes(row)}`);
    values[fits.name] = fits.value!;
    at += token.length + 1;
  }
  for (const one of row.parameters) values[one.name] ??= one.type === "word" ? one.words[0]! : one.default;
  return values;
}

/** null: it is none. */
function readValue(text: string, one: FaultParameter): string | number | null {
  if (one.type === "word") return one.words.includes(text) ? text : null;
  if (one.type === "time" && text === "forever") return one.most >= FOREVER_US ? FOREVER_US : null;
  const [, digits = "", unit = ""] = /^(\d{1,12}(?:\.\d{1,6})?)([A-Za-z]*)$/.exec(text) ?? [];
  if (digits === "") return null;
  const units = one.type === "time" ? TIMES : one.type === "size" ? { ...SIZES, "": 1 } : { "": 1 };
  const factor = (units as Readonly<Record<string, number>>)[unit];
  if (factor === undefined) return null;
  const value = Math.round(Number(digits) * factor);
  return value >= one.least && value <= one.most ? value : null;
}

/** What a fault takes, in words. */
export function takes({ parameters }: FaultRow): string {
  if (parameters.length === 0) return "it takes nothing";
  const each = parameters.map((one) => {
    if (one.type === "word") return `${one.name}: ${one.words.join(", ")}`;
    const [least, most, usual] = [one.least, one.most, one.default].map((value) => shown(value, one.type));
    return `${one.name}: ${least} to ${most}, else ${usual}`;
  });
  return each.join("; ");
}

function shown(value: number, type: "time" | "size" | "count"): string {
  if (type === "count") return `${value}`;
  const units = Object.entries(type === "time" ? TIMES : SIZES).toSorted(([, a], [, b]) => b - a);
  const [unit, factor] = units.find(([, factor]) => value >= factor && value % factor === 0) ?? units.at(-1)!;
  return `${value / factor}${unit}`;
}

function checkTogether(faults: readonly PlannedFault[]): void {
  const seen = new Map<string, string>();
  for (const { row } of faults) {
    if (row.excludes === "") continue;
    const other = seen.get(row.excludes);
    if (other !== undefined) throw new BrokenPlan(0, `${other} and ${row.id} exclude each other (${row.excludes})`);
    seen.set(row.excludes, row.id);
  }
}

function readOptions(text: string, at: number): { seed: number; key: string | null } {
  let seed = 0;
  let key: string | null = null;
  for (const one of text === "" ? [] : text.split(",")) {
    const [name, value = ""] = one.split("=");
    if (name === "seed" && /^\d{1,10}$/.test(value) && Number(value) < 2 ** 32) seed = Number(value);
    else if (name === "key" && value.length <= KEY_CHARACTERS) key = keyOf(value, at);
    else throw new BrokenPlan(at, `"${one}" behind #; seed=7 and key=TEXT are taken`);
  }
  return { seed, key };
}

function keyOf(text: string, at: number): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new BrokenPlan(at, `"${text}" is no key; % stands before two hexadecimal digits`);
  }
}
