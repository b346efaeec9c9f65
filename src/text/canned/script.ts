/**
 * What has somebody ordered as an answer, token by token? The form of a script (docs/how-to/scripts.md), in a request or in the
 * file of `--script`. Reading checks everything: a script that is taken can be played.
 */

import { SAME_STEP, STEP_IDS_MOST } from "../../base/core-limits.ts";
import { type AnswerPart, answerPartsIn, textOfParts } from "../answers/answer-parts.ts";
import { CALLS_MAX, type GivenCall } from "../answers/given-calls.ts";

/** What one generation says. */
export interface Sequence {
  /** Ids as the core takes them: SAME_STEP is added to those that another of their step follows; after the last one the end of sequence. */
  readonly ids: Uint32Array;
  /** Largest id that somebody has ordered one by one; -1: none is. */
  readonly largest: number;
  /** Steps of the engine, each of 1 to 32 of them. */
  readonly steps: number;
  /**
   * What becomes of it after its last step: the end of sequence follows, its limit is reached, the engine gives it up, or the
   * scheduler rejects its last token, which no script can ask for.
   */
  readonly finish: "stop" | "length" | "error" | "rejected";
  /** Output positions, from 0, whose log probability is minus infinity. */
  readonly minusInfinityAt: ArrayLike<number>;
  /** When each step leaves at the earliest, in milliseconds after the request came; later ones with the last. Empty: at once. */
  readonly timesMs: readonly number[];
}

/** One request's answers: prompts in their order, and of each its choices in theirs. */
export interface Script {
  readonly sequences: readonly Sequence[];
  /** All steps reach the client's side at once, and are merged. */
  readonly burst: boolean;
  /** The engine stands still after so many steps of this request, for so many seconds or until it is released; null: never. */
  readonly holdAfter: number | null;
  readonly releaseAfterS: number | null;
  /** The engine dies in this step, from 0; null: never. */
  readonly diesAtStep: number | null;
  /** Log probabilities by the formula of docs/how-to/scripts.md, in place of made-up ones. */
  readonly ranked: boolean;
  /**
   * The answer in parts of reasoning and content. Its tokens are those of the parts' text, and the first sequence says how
   * they are played. Absent: the sequences have the tokens.
   */
  readonly parts?: readonly AnswerPart[];
}

/** What a request asks for. */
export interface Order {
  readonly kind: "echo" | "text" | "script" | "play" | "none";
  /** The text, or the name of a script of the file. */
  readonly text: string;
  /** With a text or an echo: how it is played; its first sequence says what becomes of each. null: plainly. */
  readonly script: Script | null;
  /** When this request has been answered, an engine that a script made stand still goes on. */
  readonly releases: boolean;
  /** Whether a tool is called where the request leaves that open, or which ones are, in their order; absent: as it comes. */
  readonly calls?: boolean | readonly string[];
  /** Calls that follow the text, in the form of the tool parser; absent: none. */
  readonly toolCalls?: readonly GivenCall[];
  /** True if the answer is JSON as the prompt asks for it. */
  readonly promptedJson?: boolean;
  /** Tokens of thinking, with a reasoning parser; absent: drawn. */
  readonly reasoningTokens?: number;
  /** A plan of faults (docs/reference/faults.md), not yet read; absent: none. */
  readonly fault?: string;
}

/** The scripts of a file. */
export interface Plays {
  readonly named: ReadonlyMap<string, Script>;
  /** Those without a name: for requests without an order, one each as they come. */
  readonly queue: readonly Script[];
}

/** What is wrong, and where in it. */
export class BrokenScript extends Error {
  override readonly name = "BrokenScript";
}

export const NO_PLAYS: Plays = { named: new Map(), queue: [] };

const ID_MAX = 2 ** 31 - 1;
/** As long as any context. */
const STEPS_MAX = 2 ** 20;

type Json = Readonly<Record<string, unknown>>;

/** The file's text. Throws `BrokenScript`. */
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

/** An order, from the JSON text of a header. Throws `BrokenScript`. */
export function parseOrder(text: string): Order {
  return readOrder(parse(text));
}

/** An order as it stands in a body. Throws `BrokenScript`. */
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
  if ([echo, script, play, call].filter((one) => one !== undefined && one !== false).length > 1)
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

/** Returns the order of a script, which is one of a text if the script has parts. */
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

/** Says nothing. */
export const SILENT: Sequence = {
  ...{ ids: new Uint32Array(), largest: -1, steps: 0, finish: "stop" },
  ...{ minusInfinityAt: [], timesMs: [] },
};

/** The first id beyond a vocabulary of this size; undefined: none is. */
export function unknownIn({ sequences }: Script, size: number): number | undefined {
  for (const { ids, largest } of sequences)
    if (largest >= size) return [...ids].map((id) => id & ID_MAX).find((id) => id >= size);
  return undefined;
}

/** A script of one sequence, a token a step. */
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

/** Script with the tokens of the first, played as `shape` says. */
export function shapedScript({ sequences }: Script, shape: Script): Script {
  return {
    ...shape,
    sequences: sequences.map((one) => ({
      ...one,
      finish: shape.sequences[0]!.finish,
      minusInfinityAt: shape.sequences[0]!.minusInfinityAt,
      timesMs: shape.sequences[0]!.timesMs,
    })),
  };
}

/** Does it reach other requests too? Then it is not for every client to send. */
export const touchesEngine = ({ holdAfter, diesAtStep }: Script): boolean => holdAfter !== null || diesAtStep !== null;

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

/** A script; `where` it stands, for messages. Throws `BrokenScript`. */
export function readScript(value: unknown, where: string): Script {
  const hasParts = typeof value === "object" && value !== null && "parts" in value;
  const given = object(value, where, hasParts ? [...SCRIPT_KEYS, ...SEQUENCE_KEYS] : SCRIPT_KEYS);
  const { parts: givenParts, logprobs } = given;
  const parts = givenParts === undefined ? undefined : answerPartsIn(givenParts);
  if (typeof parts === "string") throw new BrokenScript(`${where}.parts${parts.startsWith("[") ? "" : ": "}${parts}`);
  if (parts !== undefined && given.sequences !== undefined)
    throw new BrokenScript(`${where}: only one of "parts" and "sequences" can be ordered`);
  const shape = Object.fromEntries(SEQUENCE_KEYS.flatMap((key) => (key in given ? [[key, given[key]]] : [])));
  const sequences = parts === undefined ? given.sequences : [{ steps: [], ...shape }];
  if (!Array.isArray(sequences)) throw new BrokenScript(`${where}.sequences must be a list`);
  if (logprobs !== undefined && logprobs !== "ranked") throw new BrokenScript(`${where}.logprobs takes "ranked"`);
  const whole = (name: string) => count(given[name], `${where}.${name}`);
  const release = given.release_after_s;
  if (release !== undefined && !(typeof release === "number" && release >= 0 && release <= 86_400))
    throw new BrokenScript(`${where}.release_after_s must be a number of seconds, up to 86400`);
  const read = sequences.map((sequence, i) => readSequence(sequence, `${where}.sequences[${i}]`));
  const burst = flag(given.burst, `${where}.burst`);
  if (burst && read.some(({ timesMs }) => timesMs.length > 0))
    throw new BrokenScript(`${where}.burst: not beside times_ms`);
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
      `${where}.times_ms must be a list of milliseconds up to 86400000, none before the one in front of it`,
    );
  // No output has a position beyond.
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

/** Keys of a sequence beside its steps. */
export const SEQUENCE_KEYS = ["finish", "minus_infinity_at", "times_ms"];

const areTimes = (value: unknown): value is number[] =>
  Array.isArray(value) &&
  value.every((ms, at) => ms >= (value[at - 1] ?? 0) && ms <= 86_400_000 && typeof ms === "number");

const isId = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= ID_MAX;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BrokenScript(`no JSON: ${(error as Error).message}`);
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
