/** Converts a generation to the core's request: numbers by the names of `Submit`. Applies the rules on ends and scripts. */
import {
  FEED,
  SUBMIT_BLOCKED,
  SUBMIT_CHOICE,
  SUBMIT_ELSEWHERE,
  SUBMIT_HASHED,
  SUBMIT_IGNORE_EOS,
  SUBMIT_SKIP_READING,
  SUBMIT_UNREAD,
  Submit,
} from "../../assembly/layout.ts";
import type { Generation } from "./interface/types.ts";
import { saltWords } from "./salt.ts";

/** Names of `Submit` with a small first letter. */
type SubmitName = Uncapitalize<Exclude<keyof typeof Submit, "Count">>;
/** Numbers that follow from the lengths of the lists. */
type Length = "promptWords" | "stops";

/** Names of the row that the core reads, in order. */
export const SUBMIT_NAMES = Object.keys(
  Object.fromEntries(
    Array.from({ length: Submit.Count }, (_, at) => [Submit[at]![0]!.toLowerCase() + Submit[at]!.slice(1), at]),
  ),
) as SubmitName[];

/** A request for the core: the numbers of `Submit` and lists. */
export interface CoreRequest extends Readonly<Record<Exclude<SubmitName, Length>, number>> {
  /** Token ids, or with SUBMIT_HASHED the hashes of the full blocks as words (lo, hi). */
  readonly prompt: ArrayLike<number>;
  readonly stopTokenIds: readonly number[];
  /** The salt as the request has it. Absent: none. */
  readonly cacheSalt?: string;
  /** First ids of a script, at most FEED. */
  readonly fed?: ArrayLike<number>;
}

/** Names of the numbers of a `CoreRequest` and their indices in the row. */
export const REQUEST_NUMBERS = SUBMIT_NAMES.flatMap((name, at) =>
  name === "promptWords" || name === "stops" ? [] : [{ name, at }],
);

/** Numbers that every request has. */
type PerRequestNumber = "promptTokens" | "maxTokens" | "seed" | "order" | "arrivalUs" | "queuedUs";
/** Numbers of a request without special wishes. Unset numbers are 0. */
export const PLAIN = {
  ...Object.fromEntries(REQUEST_NUMBERS.map(({ name }) => [name, 0])),
  stopTokenIds: [],
} as unknown as Omit<CoreRequest, PerRequestNumber | "prompt" | "fed">;

/** vLLM's priorities have 64 bits, the core's 32. Larger priorities count as equal. */
const PRIORITY_MAX = 2 ** 31 - 1;

/** Converts a generation. `unread`: the receiver reads no tokens. `order`: order of submission, from 0. */
export function coreRequest(generation: Generation, unread: boolean, order: number): CoreRequest {
  const salt = saltWords(generation.cacheSalt);
  const { script } = generation;
  const end = script ? script.length + 1 : (generation.plannedTokens ?? 0);
  // A script is the whole answer, so min_tokens and ignore_eos cannot make it longer.
  const minTokens = script ? Math.min(generation.minTokens, script.length) : generation.minTokens;
  const noEos = generation.ignoreEos && script?.length !== 0;
  const request = {
    prompt: generation.promptIds,
    promptTokens: generation.promptTokens ?? generation.promptIds.length,
    maxTokens: script && noEos ? Math.min(generation.maxTokens, script.length) : generation.maxTokens,
    minTokens,
    eosAt: noEos ? 0 : Math.max(end, end === 0 ? 0 : minTokens + 1),
    stopTokenIds: generation.stopTokenIds,
    cacheSalt: generation.cacheSalt,
    seed: generation.seed | 0,
    priority: Math.max(-PRIORITY_MAX, Math.min(PRIORITY_MAX, generation.priority)),
    adapter: generation.adapter ?? 0,
    saltLo: salt.lo,
    saltHi: salt.hi,
    flags:
      (generation.skipReadingPrefixCache ? SUBMIT_SKIP_READING : 0) |
      (generation.blocked ? SUBMIT_BLOCKED : 0) |
      (generation.choices ? SUBMIT_CHOICE : 0) |
      (generation.transferUs === undefined ? 0 : SUBMIT_ELSEWHERE) |
      (noEos ? SUBMIT_IGNORE_EOS : 0) |
      (generation.promptTokens === undefined ? 0 : SUBMIT_HASHED | (unread ? SUBMIT_UNREAD : 0)),
    order,
    arrivalUs: generation.arrivalUs,
    queuedUs: 0,
  };
  // Copied only if necessary, because in short replays the work per request determines the total time.
  return script ? { ...request, fed: script.subarray(0, FEED) } : request;
}
