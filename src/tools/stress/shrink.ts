/** Reduces a plan to the faults, positions and parameters that are needed for the same verdict. */
import { parsePlan } from "../../faults/parse.ts";
import type { PlannedFault } from "../../faults/plan/types.ts";

export interface ShrinkResult {
  readonly line: string;
  readonly runs: number;
}

/** A fault, split into its parts. */
interface FaultParts {
  readonly id: string;
  readonly place: string;
  readonly parameters: readonly string[];
}

/** Reduces a plan. `shows`: reports whether a plan still gives the same verdict. `most`: maximum number of calls of `shows`. */
export async function shrinkPlan(
  line: string,
  shows: (line: string) => Promise<boolean>,
  most: number,
): Promise<ShrinkResult> {
  const { faults, seed } = parsePlan(line);
  const plan = new PlanShrinker(faults.map(writtenOf), seed, shows, most);
  // Repeat until nothing changes: a fault at a drawn position may need its neighbours until its position is stated.
  for (let before = ""; before !== plan.line; ) {
    before = plan.line;
    await plan.dropFaults();
    await plan.simplify();
  }
  return { line: plan.line, runs: plan.runs };
}

class PlanShrinker {
  readonly #tried = new Set<string>();
  runs = 0;

  constructor(
    private faults: readonly FaultParts[],
    private readonly seed: number,
    private readonly shows: (line: string) => Promise<boolean>,
    private readonly most: number,
  ) {}

  get line(): string {
    return lineOf(this.faults, this.seed);
  }

  /** Tries each fault alone, then removes halves, then single faults, until all that remain are needed. */
  async dropFaults(): Promise<void> {
    for (const fault of this.faults) if (await this.#keeps([fault])) return;
    for (let size = Math.ceil(this.faults.length / 2); size >= 1; ) {
      let isSmaller = false;
      for (let at = 0; at < this.faults.length && this.faults.length > 1; at += size) {
        const rest = this.faults.filter((_, n) => n < at || n >= at + size);
        if (rest.length === 0 || !(await this.#keeps(rest))) continue;
        isSmaller = true;
        at -= size;
      }
      if (!isSmaller || size > 1) size = size === 1 ? 0 : Math.floor(size / 2);
    }
  }

  /** Simplifies each fault until no simpler form gives the same verdict. */
  async simplify(): Promise<void> {
    for (let at = 0; at < this.faults.length; at++) {
      for (;;) {
        const plainer = plainerThan(this.faults[at]!);
        let isAccepted = false;
        for (const simpler of plainer) {
          isAccepted = await this.#keeps(this.faults.map((fault, n) => (n === at ? simpler : fault)));
          if (isAccepted) break;
        }
        if (!isAccepted) break;
      }
    }
  }

  async #keeps(faults: readonly FaultParts[]): Promise<boolean> {
    const line = lineOf(faults, this.seed);
    if (this.runs >= this.most || this.#tried.has(line)) return false;
    this.#tried.add(line);
    if (!isPlan(line)) return false;
    this.runs++;
    if (!(await this.shows(line))) return false;
    this.faults = faults;
    return true;
  }
}

function writtenOf({ text, row }: PlannedFault): FaultParts {
  const [head = "", ...parameters] = text.split(",");
  return { id: row.id, place: head.slice(row.id.length + 1), parameters };
}

const lineOf = (faults: readonly FaultParts[], seed: number) =>
  `${faults.map(({ id, place, parameters }) => [place === "" ? id : `${id}@${place}`, ...parameters].join(",")).join(";")}#seed=${seed}`;

/** Returns simpler forms of a fault: without a part, or with a smaller number. The simplest come first. */
function plainerThan({ id, place, parameters }: FaultParts): FaultParts[] {
  const without = parameters.map((_, at) => ({ id, place, parameters: parameters.filter((_, n) => n !== at) }));
  const smaller = parameters.flatMap((parameter, at) =>
    withHalf(parameter).map((less) => ({
      id,
      place,
      parameters: parameters.map((other, n) => (n === at ? less : other)),
    })),
  );
  const places = [place.replace(/x\d+$/, ""), place.replace(/\+\d+/, ""), ...withHalf(place)];
  if (place !== "" && !place.includes("x") && !place.includes("+")) places.unshift("");
  return [
    ...places.filter((other) => other !== place).map((other) => ({ id, place: other, parameters })),
    ...without,
    ...smaller,
  ];
}

/** Returns the text with its last number halved. Empty if that is not possible. */
function withHalf(text: string): string[] {
  const match = /^(.*?)(\d+)(\D*)$/.exec(text);
  if (match === null || Number(match[2]) <= 1 || text.includes("~")) return [];
  return [`${match[1]}${Math.floor(Number(match[2]) / 2)}${match[3]}`];
}

function isPlan(line: string): boolean {
  try {
    return parsePlan(line).faults.length > 0;
  } catch {
    return false;
  }
}
