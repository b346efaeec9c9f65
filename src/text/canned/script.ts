/**
 * Reads orders and scripts: answers that a request or the file of `--script` determines token by token (docs/how-to/scripts.md). All
 * checks are made here, so that an accepted script can be played.
 */

import { SAME_STEP, STEP_IDS_MOST } from "../../base/core-limits.ts";
import { type AnswerPart, answerPartsIn, textOfParts } from "../answers/answer-parts.ts";
import { CALLS_MAX, type GivenCall } from "../answers/given-calls.ts";

/** The output of one generation. */
export interface Sequence {
  /** Token IDs as the core reads them: SAME_STEP is added to each ID that another of the same step follows. */
  readonly ids: Uint32Array;
  /** Largest token ID that the order has, or -1 if it has none. */
  readonly largest: number;
  /** Number of engine steps. Each has 1 to 32 tokens. */
  readonly steps: number;
  /**
   * The end after the last step: the end of sequence, the limit of tokens, an error of the engine, or a token that the scheduler
   * rejects. Scripts cannot set the last one.
   */
  readonly finish: "stop" | "length" | "error" | "rejected";
  /** Output positions (from 0) whose log probability is minus infinity. */
  readonly minusInfinityAt: ArrayLike<number>;
  /** Earliest time of each step, in milliseconds after the request's arrival. Later steps have the last time. Empty: none. */
  readonly timesMs: readonly number[];
}

/** The answers to one request. */
export interface Script {
  /** One sequence per choice, prompt by prompt. */
  readonly sequences: readonly Sequence[];
  /** True if all steps arrive at once and are merged into one output. */
  readonly burst: boolean;
  /** Number of steps of this request after which the engine stops. Null: never. */
  readonly holdAfter: number | null;
  /** Seconds until a stopped engine continues. Null: until an order releases it. */
  readonly releaseAfterS: number | null;
  /** Step (from 0) in which the engine dies. Null: never. */
  readonly diesAtStep: number | null;
  /** True if log probabilities follow the formula of docs/how-to/scripts.md, instead of the seed. */
  readonly ranked: boolean;
  /**
   * The answer in parts of reasoning and content. Their text is encoded to the tokens, and the first sequence has the other
   * properties. Absent: the sequences have the tokens.
   */
  readonly parts?: readonly AnswerPart[];
}

/** An order that a request has for its answer. */
export interface Order {
  readonly kind: "echo" | "text" | "script" | "play" | "none";
  /** The text of the answer, or the name of a script in the file. */
  readonly text: string;
  /** The script. For a text or an echo it lacks tokens, and its first sequence has the end and the times. Null: none. */
  readonly script: Script | null;
  /** True if a stopped engine continues when this request has been answered. */
  readonly releases: boolean;
  /** The tools to call, in order, or whether to call one if the request leaves that open. Absent: drawn. */
  readonly calls?: boolean | readonly string[];
  /** Tool calls after the text, to be written in the form of the tool parser. Absent: none. */
  readonly toolCalls?: readonly GivenCall[];
  /** True if the answer is the JSON that the prompt asks for in words. */
  readonly promptedJson?: boolean;
  /** Number of tokens of reasoning, with a reasoning parser. Absent: drawn. */
  readonly reasoningTokens?: number;
  /** Text of a plan of faults (docs/reference/faults.md). Absent: none. */
  readonly fault?: string;
}

/** The scripts of a file. */
export interface Plays {
  readonly named: ReadonlyMap<string, Script>;
  /** Scripts without a name. Each answers one request without an order, in order of arrival. */
  readonly queue: readonly Script[];
}

/** An error in a script or an order. The message says what is wrong and where. */
export class BrokenScript extends Error {
  override readonly name = "BrokenScript";
}

export const NO_PLAYS: Plays = { named: new Map(), queue: [] };

/** Largest token ID, which is a 31-bit number. */
const ID_MAX = 2 ** 31 - 1;
/** Most steps of a sequence. No context is longer. */
const STEPS_MAX = 2 ** 20;

type Json = Readonly<Record<string, unknown>>;

/** Reads the text of a file of scripts. Throws `BrokenScript`. */
export function readPlays(text: string): Plays {
  const { scripts } = object(parse(text), "the file", ["scripts"]);
  if (!Array.isArray(scripts)) throw new BrokenScript('"scripts" must be a list');
  const named = new Map<string, Script>();
  const queue: Script[] = [];
  for (const [at, entry] of scripts.entries()) {
    const where = `scripts[${at}]`;
    const { name, ...rest } = object(entry, where, ["name", ...SCRIPT_KEYS]);
    const script = readScript(rest, where);
    if (name === undefined) queue.push(script);
    else if (typeof name !== "string" || name === "") throw new BrokenScript(`${where}.name must be a text`);
    else if (named.has(name)) throw new BrokenScript(`${where}.name: "${name}" is named twice`);
    else named.set(name, script);
  }
  return { named, queue };
}

/** Reads an order from the JSON of a header. Throws `BrokenScript`. */
export function parseOrder(text: string): Order {
  return readOrder(parse(text));
}

/** Reads an order from a member of a body. Throws `BrokenScript`. */
export function readOrder(value: unknown): Order {
  const { echo, script, play, release, call, reasoning, fault } = object(value, "the order", [
    "echo",
    "script",
    "play",
    "release",
    "call",
    "reasoning",
    "fault",
  ]);
  if ([echo, script, play, call].filter((kind) => kind !== undefined && kind !== false).length > 1)
    throw new BrokenScript('only one of "echo", "script", "play" and "call" can be ordered');
  const releases = flag(release, "release");
  const tokens = count(reasoning, "reasoning");
  const thinking = tokens === null ? {} : { reasoningTokens: tokens };
  if (fault !== undefined && typeof fault !== "string")
    throw new BrokenScript('"fault" must be a plan, as "B8;E7@e10"');
  const plan = fault === undefined ? {} : { fault };
  const none = { text: "", script: null, releases, ...readCalls(call), ...thinking, ...plan };
  if (flag(echo, "echo")) return { ...none, kind: "echo" };
  if (typeof play === "string") return { ...none, kind: "play", text: play };
  if (play !== undefined) throw new BrokenScript('"play" must be the name of a script');
  if (script === undefined) return { ...none, kind: "none" };
  if (typeof script === "string") return { ...none, kind: "text", text: script };
  const whole = Array.isArray(script) ? { sequences: [{ steps: script }] } : script;
  return { ...none, ...playedScript(readScript(whole, "script")) };
}

/** Returns the order of a script. It is the order of a text if the script has parts. */
export function playedScript(script: Script): Pick<Order, "kind" | "text" | "script"> {
  const { parts } = script;
  return parts === undefined
    ? { kind: "script", text: "", script }
    : { kind: "text", text: textOfParts(parts), script };
}

function readCalls(value: unknown): Pick<Order, "calls"> {
  if (value === undefined) return {};
  if (typeof value === "boolean") return { calls: value };
  const names = [value].flat();
  if (names.length > 0 && names.length <= CALLS_MAX && names.every((name) => typeof name === "string"))
    return { calls: names };
  throw new BrokenScript(`"call" must be true, false, the name of a tool, or a list of up to ${CALLS_MAX} names`);
}

/** The token sequence of an empty answer. Other sequences are made from it. */
export const SILENT: Sequence = {
  ...{ ids: new Uint32Array(), largest: -1, steps: 0, finish: "stop" },
  ...{ minusInfinityAt: [], timesMs: [] },
};

/** Returns the first ordered ID outside of a vocabulary of this size, or undefined. */
export function unknownIn({ sequences }: Script, size: number): number | undefined {
  for (const { ids, largest } of sequences)
    if (largest >= size) return [...ids].map((id) => id & ID_MAX).find((id) => id >= size);
  return undefined;
}

/** Returns a script with the same tokens for each of `sequences` choices, one token per step. */
export function plainScript(ids: ArrayLike<number>, sequences: number): Script {
  const sequence: Sequence = { ...SILENT, ids: Uint32Array.from(ids), steps: ids.length };
  return {
    sequences: Array.from({ length: sequences }, () => sequence),
    burst: false,
    holdAfter: null,
    releaseAfterS: null,
    diesAtStep: null,
    ranked: false,
  };
}

/** Returns a script with the tokens of the first script and the other properties of `shape`. */
export function shapedScript({ sequences }: Script, shape: Script): Script {
  const { finish, minusInfinityAt, timesMs } = shape.sequences[0]!;
  return { ...shape, sequences: sequences.map((sequence) => ({ ...sequence, finish, minusInfinityAt, timesMs })) };
}

/** Reports whether the script can stop or kill the engine, which affects other requests. */
export const touchesEngine = ({ holdAfter, diesAtStep }: Script): boolean => holdAfter !== null || diesAtStep !== null;

/** Keys of a script. */
export const SCRIPT_KEYS = [
  "sequences",
  "parts",
  "expected",
  "burst",
  "hold_after",
  "release_after_s",
  "engine_dies_at_step",
  "logprobs",
];

/** Reads a script. `where`: its place, for messages. Throws `BrokenScript`. */
export function readScript(value: unknown, where: string): Script {
  const hasParts = typeof value === "object" && value !== null && "parts" in value;
  const members = object(value, where, hasParts ? [...SCRIPT_KEYS, ...SEQUENCE_KEYS] : SCRIPT_KEYS);
  const { parts: givenParts, logprobs } = members;
  const parts = givenParts === undefined ? undefined : answerPartsIn(givenParts);
  if (typeof parts === "string") throw new BrokenScript(`${where}.parts${parts.startsWith("[") ? "" : ": "}${parts}`);
  if (parts !== undefined && members.sequences !== undefined)
    throw new BrokenScript(`${where}: only one of "parts" and "sequences" can be ordered`);
  const shape = Object.fromEntries(SEQUENCE_KEYS.flatMap((key) => (key in members ? [[key, members[key]]] : [])));
  const sequences = parts === undefined ? members.sequences : [{ steps: [], ...shape }];
  if (!Array.isArray(sequences)) throw new BrokenScript(`${where}.sequences must be a list`);
  if (logprobs !== undefined && logprobs !== "ranked") throw new BrokenScript(`${where}.logprobs takes "ranked"`);
  const whole = (name: string) => count(members[name], `${where}.${name}`);
  const release = members.release_after_s;
  if (release !== undefined && !(typeof release === "number" && release >= 0 && release <= 86_400))
    throw new BrokenScript(`${where}.release_after_s must be a number of seconds, up to 86400`);
  const read = sequences.map((sequence, i) => readSequence(sequence, `${where}.sequences[${i}]`));
  const burst = flag(members.burst, `${where}.burst`);
  if (burst && read.some(({ timesMs }) => timesMs.length > 0))
    throw new BrokenScript(`${where}.burst: cannot be set with times_ms`);
  return {
    sequences: read,
    burst,
    holdAfter: whole("hold_after"),
    releaseAfterS: (release as number | undefined) ?? null,
    diesAtStep: whole("engine_dies_at_step"),
    ranked: logprobs === "ranked",
    ...(parts === undefined ? {} : { parts }),
  };
}

function readSequence(value: unknown, where: string): Sequence {
  const {
    steps,
    finish,
    minus_infinity_at: positions = [],
    times_ms: timesMs = [],
  } = object(value, where, ["steps", ...SEQUENCE_KEYS]);
  if (!Array.isArray(steps) || steps.length > STEPS_MAX) throw new BrokenScript(`${where}.steps must be a list`);
  let [count, largest] = [0, -1];
  for (const [at, step] of steps.entries()) {
    const fits = Array.isArray(step) && step.length > 0 && step.length <= STEP_IDS_MOST && step.every(isId);
    if (!fits) throw new BrokenScript(`${where}.steps[${at}] must be a list of 1 to ${STEP_IDS_MOST} token ids`);
    count += step.length;
    largest = Math.max(largest, ...step);
  }
  if (finish !== undefined && !isFinish(finish)) throw new BrokenScript(`${where}.finish takes ${FINISHES.join(", ")}`);
  if (!Array.isArray(positions) || !positions.every(isId))
    throw new BrokenScript(`${where}.minus_infinity_at must be a list of positions`);
  if (!areTimes(timesMs))
    throw new BrokenScript(
      `${where}.times_ms must be a list of milliseconds up to 86400000, none below the one before it`,
    );
  // No output has positions from STEPS_MAX.
  const minusInfinityAt = positions.filter((at) => at < STEPS_MAX);
  return { ids: idsOf(steps, count), largest, steps: steps.length, finish: finish ?? "stop", minusInfinityAt, timesMs };
}

function idsOf(steps: readonly (readonly number[])[], count: number): Uint32Array {
  const ids = new Uint32Array(count);
  let at = 0;
  for (const step of steps) {
    for (const id of step) ids[at++] = id + SAME_STEP;
    ids[at - 1]! -= SAME_STEP;
  }
  return ids;
}

const FINISHES = ["stop", "length", "error"] as const;
const isFinish = (value: unknown): value is Sequence["finish"] => FINISHES.some((finish) => finish === value);

/** Keys of a sequence in addition to its steps. */
export const SEQUENCE_KEYS = ["finish", "minus_infinity_at", "times_ms"];

const areTimes = (value: unknown): value is number[] =>
  Array.isArray(value) &&
  value.every((ms, at) => ms >= (value[at - 1] ?? 0) && ms <= 86_400_000 && typeof ms === "number");

const isId = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= ID_MAX;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BrokenScript(`not JSON: ${(error as Error).message}`);
  }
}

function object(value: unknown, where: string, keys: readonly string[]): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new BrokenScript(`${where} must be an object`);
  const other = Object.keys(value).find((key) => !keys.includes(key));
  if (other !== undefined) throw new BrokenScript(`${where}: "${other}" is not known; it takes ${keys.join(", ")}`);
  return value as Json;
}

function flag(value: unknown, where: string): boolean {
  if (value === undefined || typeof value === "boolean") return value === true;
  throw new BrokenScript(`${where} must be true or false`);
}

function count(value: unknown, where: string): number | null {
  if (value === undefined) return null;
  if (!isId(value)) throw new BrokenScript(`${where} must be a whole number`);
  return value as number;
}
