/** Parses a plan such as `B1@e3+17;T1@e10,2s;E7@e40#seed=7`: faults, each with a position and parameters, then the seed. */

import type { FaultParameter, FaultRow, Plan, PlannedFault, Position, PositionKind } from "./plan/types.ts";
import { FAULT_ROWS } from "./table.ts";

/** Error in the text of a plan. Gives the position of the wrong character, counted from 1. */
export class BrokenPlan extends Error {
  override readonly name = "BrokenPlan";
  constructor(at: number, why: string) {
    super(`fault plan, character ${at + 1}: ${why}`);
  }
}

const PLAN_CHARACTERS = 2000;
const PLAN_FAULTS = 32;
const KEY_CHARACTERS = 200;
/** Longest time that a fault may wait, in microseconds: one hour. The word `forever` in a plan means this time. */
const FOREVER_US = 3600e6;
const POSITION = /^(?:(head|done|\*)|([eb?])(\d{0,9})|~([\d.]{1,12}))(?:\+(\d{1,8}))?(?:x(\d{1,7}))?$/;
const POSITIONS = "head, e3, e3+17, b100, done, *, ?, ?20, ~0.01, each with x4 to act on 4 events in a row";
const TIMES: Readonly<Record<string, number>> = { us: 1, ms: 1e3, s: 1e6, m: 60e6, h: 3600e6 };
const SIZES: Readonly<Record<string, number>> = { B: 1, KB: 1e3, MB: 1e6, KiB: 2 ** 10, MiB: 2 ** 20 };
/** Number of first events from which a random event is drawn if the plan gives no number. */
const DRAWN_BELOW = 8;

/** Parses the text of a plan. Throws `BrokenPlan`. */
export function parsePlan(text: string): Plan {
  if (text.length > PLAN_CHARACTERS)
    throw new BrokenPlan(PLAN_CHARACTERS, `a plan has at most ${PLAN_CHARACTERS} characters`);
  const hash = text.indexOf("#");
  const list = hash === -1 ? text : text.slice(0, hash);
  const faults: PlannedFault[] = [];
  let at = 0;
  for (const text of list.split(";")) {
    faults.push(readFault(text, at));
    at += text.length + 1;
  }
  if (faults.length > PLAN_FAULTS)
    throw new BrokenPlan(0, `${faults.length} faults; a plan has at most ${PLAN_FAULTS}`);
  checkTogether(faults);
  return { faults, ...readOptions(hash === -1 ? "" : text.slice(hash + 1), hash + 1) };
}

/** Returns the text of a plan that reproduces the same faults as `plan` does for a request with this key. */
export function planText({ faults, seed }: Plan, key: string): string {
  return `${faults.map(({ text }) => text).join(";")}#seed=${seed},key=${encodeURIComponent(key)}`;
}

/** Returns a planned fault with the default position and parameters of its row. */
export function plainFault(row: FaultRow): PlannedFault {
  return readFault(row.id, 0);
}

function readFault(text: string, at: number): PlannedFault {
  const [head = "", ...parameters] = text.split(",");
  const [id = "", place, ...more] = head.split("@");
  const row = FAULT_ROWS.get(id.trim());
  if (row === undefined)
    throw new BrokenPlan(at, `"${id.trim()}" is not a fault; understudy fault list prints them, B1 to C3`);
  if (row.stage === "client") throw new BrokenPlan(at, `${row.id} is an act of a client, which no plan can order`);
  if (more.length > 0) throw new BrokenPlan(at, `"${head}" has several positions`);
  const position = readPosition(place ?? row.position, row, at + id.length + 1);
  const values = readValues(parameters, row, at + head.length + 1);
  return { row, position, values, text: [`${row.id}@${place ?? row.position}`, ...parameters].join(",") };
}

function readPosition(text: string, row: FaultRow, at: number): Position {
  const match = POSITION.exec(text);
  if (match === null) throw new BrokenPlan(at, `"${text}" is not a position; accepted: ${POSITIONS}`);
  const [, word, letter, digits = "", chance, offset, count] = match;
  const kind = KINDS[word ?? letter ?? ""] ?? "chance";
  const number = chance !== undefined ? Number(chance) : digits === "" ? DRAWN_BELOW : Number(digits);
  const numbered = kind !== "event" && kind !== "byte" ? true : digits !== "";
  if (!numbered || Number.isNaN(number) || (kind === "chance" && number > 1) || number < 0)
    throw new BrokenPlan(at, `"${text}" is not a position; accepted: ${POSITIONS}`);
  if (!row.positions.includes(kind))
    throw new BrokenPlan(
      at,
      `${row.id} cannot be at "${text}"; accepted: ${row.positions.map((position) => EXAMPLES[position]).join(", ")}`,
    );
  if (offset !== undefined && !row.inside) throw new BrokenPlan(at, `${row.id} cannot act at a byte inside an event`);
  return { kind, at: number, offset: offset === undefined ? null : Number(offset), count: Number(count ?? 1) };
}

/** Kinds of positions by the word or letter with which a plan writes them. A chance, `~0.01`, has neither. */
const KINDS: Readonly<Record<string, PositionKind>> = {
  head: "head",
  done: "done",
  "*": "every",
  e: "event",
  b: "byte",
  "?": "drawn",
};
const EXAMPLES: Readonly<Record<PositionKind, string>> = {
  head: "head",
  event: "e3",
  byte: "b100",
  done: "done",
  every: "*",
  drawn: "?",
  chance: "~0.01",
};

function readValues(tokens: readonly string[], row: FaultRow, from: number): PlannedFault["values"] {
  const values: Record<string, string | number> = {};
  let at = from;
  for (const token of tokens) {
    const named = /^([a-z]+)=(.*)$/.exec(token);
    const free = row.parameters.filter(({ name }) => !(name in values) && (named === null || named[1] === name));
    const candidates = free.map((parameter) => ({
      name: parameter.name,
      value: readValue(named?.[2] ?? token, parameter),
    }));
    const fits = candidates.find(({ value }) => value !== null);
    if (fits === undefined)
      throw new BrokenPlan(at, `"${token}" is not a parameter of ${row.id}; accepted: ${describeParameters(row)}`);
    values[fits.name] = fits.value!;
    at += token.length + 1;
  }
  for (const parameter of row.parameters)
    values[parameter.name] ??= parameter.type === "word" ? parameter.words[0]! : parameter.default;
  return values;
}

/** Parses a parameter's value. Returns null if the text is not a value of the parameter. */
function readValue(text: string, parameter: FaultParameter): string | number | null {
  if (parameter.type === "word") return parameter.words.includes(text) ? text : null;
  if (parameter.type === "time" && text === "forever") return parameter.most >= FOREVER_US ? FOREVER_US : null;
  const [, digits = "", unit = ""] = /^(\d{1,12}(?:\.\d{1,6})?)([A-Za-z]*)$/.exec(text) ?? [];
  if (digits === "") return null;
  const units = parameter.type === "time" ? TIMES : parameter.type === "size" ? { ...SIZES, "": 1 } : { "": 1 };
  const factor = (units as Readonly<Record<string, number>>)[unit];
  if (factor === undefined) return null;
  const value = Math.round(Number(digits) * factor);
  return value >= parameter.least && value <= parameter.most ? value : null;
}

/** Describes the parameters of a fault for the help text and the docs. */
export function describeParameters({ parameters }: FaultRow): string {
  if (parameters.length === 0) return "no parameters";
  const each = parameters.map((parameter) => {
    if (parameter.type === "word") return `${parameter.name}: ${parameter.words.join(", ")}`;
    const [least, most, usual] = [parameter.least, parameter.most, parameter.default].map((value) =>
      formatValue(value, parameter.type),
    );
    return `${parameter.name}: ${least} to ${most}, default ${usual}`;
  });
  return each.join("; ");
}

function formatValue(value: number, type: "time" | "size" | "count"): string {
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
  for (const option of text === "" ? [] : text.split(",")) {
    const [name, value = ""] = option.split("=");
    if (name === "seed" && /^\d{1,10}$/.test(value) && Number(value) < 2 ** 32) seed = Number(value);
    else if (name === "key" && value.length <= KEY_CHARACTERS) key = keyOf(value, at);
    else throw new BrokenPlan(at, `"${option}" after #; accepted: seed=7, key=TEXT`);
  }
  return { seed, key };
}

function keyOf(text: string, at: number): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new BrokenPlan(at, `"${text}" is not a key; % must be followed by two hexadecimal digits`);
  }
}
