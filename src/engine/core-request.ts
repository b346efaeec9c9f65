/** What does the core get of a generation? Numbers by the names of its `Submit`; rules on ends and scripts are resolved here. */
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

/** The core's names with a small first letter. */
type SubmitName = Uncapitalize<Exclude<keyof typeof Submit, "Count">>;
/** Those that follow from the lists. */
type Length = "promptWords" | "stops";

/** Names of the row that the core reads, in its order. */
export const SUBMIT_NAMES = Object.keys(
  Object.fromEntries(
    Array.from({ length: Submit.Count }, (_, at) => [Submit[at]![0]!.toLowerCase() + Submit[at]!.slice(1), at]),
  ),
) as SubmitName[];

/** A request as the core takes it: the numbers of `Submit`, and lists. */
export interface CoreRequest extends Readonly<Record<Exclude<SubmitName, Length>, number>> {
  /** Token ids, or with SUBMIT_HASHED the words (lo, hi) of the full blocks' hashes. */
  readonly prompt: ArrayLike<number>;
  readonly stopTokenIds: readonly number[];
  /** The first ids of a script, at most FEED. */
  readonly fed?: ArrayLike<number>;
}

/** The names that a `CoreRequest` has numbers for, and their places in the row. */
export const REQUEST_NUMBERS = SUBMIT_NAMES.flatMap((name, at) =>
  name === "promptWords" || name === "stops" ? [] : [{ name, at }],
);

/** What every request says of itself. */
type Own = "promptTokens" | "maxTokens" | "seed" | "order" | "arrivalUs" | "queuedUs";
/** What a request has that asks for nothing special: 0 wherever nothing is said. */
export const PLAIN = {
  ...Object.fromEntries(REQUEST_NUMBERS.map(({ name }) => [name, 0])),
  stopTokenIds: [],
} as unknown as Omit<CoreRequest, Own | "prompt" | "fed">;

/** vLLM's priorities have 64 bits, the core's 32: beyond this they are equal. */
const PRIORITY_MAX = 2 ** 31 - 1;

/** `unread`: the receiver looks at no token. `order`: of submission, from 0. */
export function coreRequest(generation: Generation, unread: boolean, order: number): CoreRequest {
  const salt = saltWords(generation.cacheSalt);
  const { script } = generation;
  const end = script ? script.length + 1 : (generation.plannedTokens ?? 0);
  // A script is all there is: neither min_tokens nor ignore_eos can ask for more.
  const minTokens = script ? Math.min(generation.minTokens, script.length) : generation.minTokens;
  const noEos = generation.ignoreEos && script?.length !== 0;
  const request = {
    prompt: generation.promptIds,
    promptTokens: generation.promptTokens ?? generation.promptIds.length,
    maxTokens: script && noEos ? Math.min(generation.maxTokens, script.length) : generation.maxTokens,
    minTokens,
    eosAt: noEos ? 0 : Math.max(end, end === 0 ? 0 : minTokens + 1),
    stopTokenIds: generation.stopTokenIds,
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
  // Copied only where it must be: a short replay's time goes into what is done once per request.
  return script ? { ...request, fed: script.subarray(0, FEED) } : request;
}
