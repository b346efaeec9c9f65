/**
 * Faults of an engine, as its front end sees them: the table of their kinds, and the reader of plans such as
 * `output-lost@3;stats-frozen@10`. How the front ends of vLLM 0.33 react is in docs/reference/front-end-faults.md.
 */

/** When a fault of a kind can occur: at an output of a request, at a message with the outputs of a step, or at a call. */
type Occasion = "output" | "step" | "call" | "always";

interface FaultKind {
  readonly at: Occasion;
  /** True if it goes on once it has occurred. */
  readonly stays?: true;
  /** Sentence about its effect, for the docs. */
  readonly does: string;
}

export const FRONT_FAULTS = {
  "engine-dead": { at: "step", does: "The engine says that it has failed (`ENGINE_CORE_DEAD`), and leaves." },
  "engine-gone": { at: "step", does: "The engine leaves without a word." },
  "output-lost": { at: "output", does: "An output is not sent." },
  "output-twice": { at: "output", does: "An output is sent a second time." },
  "outputs-swapped": { at: "output", does: "An output is sent after the next one of its request." },
  "output-after-finish": { at: "output", does: "A request gets one more output after its last one." },
  "message-broken": { at: "step", does: "A message is not MessagePack." },
  "message-wrong": { at: "step", does: "A message has null where the number of the engine belongs." },
  "utility-unanswered": { at: "call", does: "A call of a function is not answered." },
  "utility-unknown-id": { at: "call", does: "A call of a function is answered with the number of no call." },
  "stats-frozen": { at: "step", stays: true, does: "The scheduler's statistics stay as they are." },
  "stats-absent": { at: "step", stays: true, does: "Messages have no statistics." },
  "stats-impossible": { at: "step", stays: true, does: "750 % of the KV cache are in use, by a billion requests." },
  "rank-slow": { at: "always", does: "All steps of a rank take longer." },
} as const satisfies Readonly<Record<string, FaultKind>>;

export type FrontFaultName = keyof typeof FRONT_FAULTS;
export const FRONT_FAULT_NAMES = Object.keys(FRONT_FAULTS) as readonly FrontFaultName[];
export const kindOf = (name: FrontFaultName): FaultKind => FRONT_FAULTS[name];

export interface FrontFault {
  readonly name: FrontFaultName;
  /** The occasion at which it occurs, from 1. Of `rank-slow`: the rank. Null: any. */
  readonly at: number | null;
  /** Chance at each occasion, above 0 and at most 1. Of `rank-slow`: how many times as long steps take. */
  readonly value: number;
}

/** Most faults of a plan. */
const FAULTS_MOST = 64;
const FAULT = /^([a-z-]+)(?:@(\d{1,9}))?(?:=(\d+(?:\.\d+)?))?$/;
const SLOWNESS_MOST = 1000;
const SLOWNESS = 3;

/** Form of a plan, for messages. */
export const FRONT_FAULTS_ACCEPTS = `NAME[@N][=CHANCE], several with ";", and the names ${FRONT_FAULT_NAMES.join(", ")}`;

/** Reads a plan. Returns undefined if it is wrong. */
export function readFrontFaults(text: string): readonly FrontFault[] | undefined {
  const parts = text.split(";").map((part) => part.trim());
  const faults = parts.map(readFault);
  return faults.length <= FAULTS_MOST && faults.every((fault) => fault !== undefined) ? faults : undefined;
}

function readFault(text: string): FrontFault | undefined {
  const [, name, at, value] = FAULT.exec(text) ?? [];
  if (name === undefined || !Object.hasOwn(FRONT_FAULTS, name)) return undefined;
  const isSlow = name === "rank-slow";
  const given = value === undefined ? (isSlow ? SLOWNESS : 1) : Number(value);
  if (given === 0 || given > (isSlow ? SLOWNESS_MOST : 1)) return undefined;
  if (at !== undefined && Number(at) === 0 && !isSlow) return undefined;
  return { name: name as FrontFaultName, at: at === undefined ? null : Number(at), value: given };
}

/** Returns how many times as long the steps of a rank take. */
export const slownessOf = (faults: readonly FrontFault[], rank: number): number =>
  faults
    .filter(({ name, at }) => name === "rank-slow" && (at === null || at === rank))
    .reduce((product, { value }) => product * value, 1);
