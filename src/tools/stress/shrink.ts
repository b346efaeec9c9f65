/** Which part of a plan is it? A plan that shows something is made smaller as long as the same shows: faults, positions, parameters. */
import { parsePlan } from "../../faults/parse.ts";
import type { PlannedFault } from "../../faults/plan/types.ts";

export interface Shrunk {
  readonly line: string;
  readonly runs: number;
}

/** A fault in its parts. */
interface Written {
  readonly id: string;
  readonly place: string;
  readonly given: readonly string[];
}

/** `shows`: whether a plan's line shows the same. So many runs at most. */
export async function shrinkPlan(
  line: string,
  shows: (line: string) => Promise<boolean>,
  most: number,
): Promise<Shrunk> {
  const { faults, seed } = parsePlan(line);
  const plan = new Shrinking(faults.map(writtenOf), seed, shows, most);
  // What was drawn by a fault's place may need its neighbours, until it is said plainly.
  for (let before = ""; before !== plan.line; ) {
    before = plan.line;
    await plan.dropFaults();
    await plan.simplify();
  }
  return { line: plan.line, runs: plan.runs };
}

class Shrinking {
  #faults: readonly Written[];
  readonly #seed: number;
  readonly #shows: (line: string) => Promise<boolean>;
  readonly #most: number;
  readonly #tried = new Set<string>();
  runs = 0;

  constructor(faults: readonly Written[], seed: number, shows: (line: string) => Promise<boolean>, most: number) {
    this.#faults = faults;
    this.#seed = seed;
    this.#shows = shows;
    this.#most = most;
  }

  get line(): string {
    return lineOf(this.#faults, this.#seed);
  }

  /** One of them alone, halves, then each by itself until all that are left are needed. */
  async dropFaults(): Promise<void> {
    for (const one of this.#faults) if (await this.#keeps([one])) return;
    for (let size = Math.ceil(this.#faults.length / 2); size >= 1; ) {
      let isSmaller = false;
      for (let at = 0; at < this.#faults.length && this.#faults.length > 1; at += size) {
        const rest = this.#faults.filter((_, n) => n < at || n >= at + size);
        if (rest.length === 0 || !(await this.#keeps(rest))) continue;
        isSmaller = true;
        at -= size;
      }
      if (!isSmaller || size > 1) size = size === 1 ? 0 : Math.floor(size / 2);
    }
  }

  /** Every fault in a plainer way, over and over until none is taken. */
  async simplify(): Promise<void> {
    for (let at = 0; at < this.#faults.length; at++) {
      for (;;) {
        const plainer = plainerThan(this.#faults[at]!);
        let taken = false;
        for (const one of plainer) {
          taken = await this.#keeps(this.#faults.map((fault, n) => (n === at ? one : fault)));
          if (taken) break;
        }
        if (!taken) break;
      }
    }
  }

  async #keeps(faults: readonly Written[]): Promise<boolean> {
    const line = lineOf(faults, this.#seed);
    if (this.runs >= this.#most || this.#tried.has(line)) return false;
    this.#tried.add(line);
    if (!isPlan(line)) return false;
    this.runs++;
    if (!(await this.#shows(line))) return false;
    this.#faults = faults;
    return true;
  }
}

function writtenOf({ text, row }: PlannedFault): Written {
  const [head = "", ...given] = text.split(",");
  return { id: row.id, place: head.slice(row.id.length + 1), given };
}

const lineOf = (faults: readonly Written[], seed: number) =>
  `${faults.map(({ id, place, given }) => [place === "" ? id : `${id}@${place}`, ...given].join(",")).join(";")}#seed=${seed}`;

/** A fault with less said of it, or smaller numbers; the plainest first. */
function plainerThan({ id, place, given }: Written): Written[] {
  const without = given.map((_, at) => ({ id, place, given: given.filter((_, n) => n !== at) }));
  const smaller = given.flatMap((one, at) =>
    halved(one).map((less) => ({ id, place, given: given.map((other, n) => (n === at ? less : other)) })),
  );
  const places = [place.replace(/x\d+$/, ""), place.replace(/\+\d+/, ""), ...halved(place)];
  if (place !== "" && !place.includes("x") && !place.includes("+")) places.unshift("");
  return [...places.filter((one) => one !== place).map((one) => ({ id, place: one, given })), ...without, ...smaller];
}

/** With its last number halved. */
function halved(text: string): string[] {
  const found = /^(.*?)(\d+)(\D*)$/.exec(text);
  if (found === null || Number(found[2]) <= 1 || text.includes("~")) return [];
  return [`${found[1]}${Math.floor(Number(found[2]) / 2)}${found[3]}`];
}

function isPlan(line: string): boolean {
  try {
    return parsePlan(line).faults.length > 0;
  } catch {
    return false;
  }
}
