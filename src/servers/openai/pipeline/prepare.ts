/** Prepares a request for the engine: ids of its prompts, the text that its answer must have, tokens that are forced or forbidden. */

import { REQUESTS_MOST } from "../../../base/core-limits.ts";
import { atOnce, inTurns, isLarge } from "../../../base/pieces.ts";
import type { Steering } from "../../../text/answers/steered.ts";
import type { Script } from "../../../text/canned/script.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { fromDataset } from "../overrides/dataset.ts";
import { type Ordered, type Ordering, sayableParts } from "../overrides/orders.ts";
import { type ChoiceWriter, checkingOf, type WrittenChoices, writingOf } from "../request/constrained.ts";
import { engineBusy } from "../request/errors.ts";
import type { Cut } from "../request/generation.ts";
import {
  type Encoding,
  echoPieces,
  encodeInTurns,
  encodePrompts,
  packedPieces,
  truncatePrompt,
} from "../request/prompts.ts";
import {
  checkDataParallelRank,
  checkIds,
  checkPrompt,
  checkSampling,
  choiceSeeds,
  isByPrompt,
  seedOf,
  seedPieces,
} from "../request/sampling.ts";
import { checkBadWords, encodeBadWords, steeringOf } from "../request/steering.ts";
import type { Admitted } from "./read-request.ts";
import type { Declined, Received, Serving } from "./serving.ts";

export const RANK_HEADER = "x-data-parallel-rank";
/** Hashing less than this is too short to be seen in a step's lateness. */
const LONG_PROMPT_TOKENS = 16_384;

/** What other threads have made of a request. */
export interface PreparedRequest {
  readonly prompts: readonly Uint32Array[];
  /** Token sequences of `bad_words`; null: there are none. */
  readonly badWords: readonly Uint32Array[] | null;
  /** Ids of the text that the answer was ordered to be; null: none was. */
  readonly orderedIds: Uint32Array | null;
  /** Seeds by prompt, where they were needed already or follow from long prompts; null: they are still to be drawn. */
  readonly seeds: readonly number[] | null;
  /** What is wrong with prompts of ids, where these are long; undefined: nobody has looked. */
  readonly idsError: ErrorAnswer | null | undefined;
  /** Prompts of ids as texts, where they are echoed, by prompt; null: they are still to be made. */
  readonly echoes: readonly (string | null)[] | null;
  /** Answers that a constraint, a tool call or a dataset makes; null: none does. */
  readonly written: WrittenChoices | null;
  /** Holds a script to the request's grammar; null: it has none. Loaded when somebody asks, as it brings a parser of expressions. */
  readonly permitted: Permitted | null;
}

type Permitted = typeof import("../overrides/script-grammar.ts")["permitted"];

/** What the engine is told of a request. */
export interface FittedRequest {
  readonly cut: readonly Cut[];
  /** By prompt, for its first choice. */
  readonly seeds: readonly number[];
  readonly steering: Steering | null;
  readonly script: Script | null;
  /** By choice; null: all are drawn. */
  readonly answers: readonly (Uint32Array | null)[] | null;
}

/** The prompts' ids, or promises of them. */
export function encode({ kernel, limits }: Serving, received: Received): Encoding | Promise<Encoding> {
  const { request, body, prompts } = received;
  const { backend, text } = kernel;
  if (prompts !== undefined) return inTurns(packedPieces(request, prompts, text.model.encoder), backend);
  return isLarge(body)
    ? encodeInTurns(request, text.model, limits, backend)
    : encodePrompts(request, text.model, limits);
}

/** At once where no other thread is asked and no earlier request waits. null: the encoder died. */
export function prepare(
  serving: Serving,
  received: Received,
  { ordered, ordering }: Admitted,
  encoding: Exclude<Encoding, Declined>,
): PreparedRequest | Promise<PreparedRequest | null> {
  const { request } = received;
  const { encoder } = serving.kernel.text.model;
  const isText = ordered !== null && ordered.text !== null;
  const orderedIds = isText ? encoder.encode(sayable(serving, request, ordered), false) : null;
  const badWords = request.sampling.badWords.list.length === 0 ? null : encodeBadWords(request, encoder);
  const { structure } = request.sampling;
  const checking = structure ? checkingOf(structure, encoder) : null;
  const writing = ordered === null ? writingFor(serving, received, ordering) : checking;
  const isHeld = ordered !== null && isByToken(ordered) && hasGrammar(request);
  const isReady =
    writing === null && badWords === null && orderedIds === null && !isHeld && serving.queue.arrivals.clear;
  if (isReady && !encoding.pending && !isLong(encoding.prompts)) return plain(encoding.prompts);
  const grammar = isHeld ? import("../overrides/script-grammar.ts").then(({ permitted }) => permitted) : null;
  const pending = Promise.all([Promise.all(encoding.prompts), badWords, orderedIds, grammar]);
  return serving.queue.arrivals.pass(awaited(serving, received, writing, pending));
}

/** Nothing but its prompts is to be prepared. */
const plain = (prompts: readonly Uint32Array[]): PreparedRequest => ({
  prompts,
  badWords: null,
  orderedIds: null,
  seeds: null,
  idsError: undefined,
  echoes: null,
  written: null,
  permitted: null,
});

const isByToken = ({ order }: Ordered) => order.kind === "script" || order.kind === "play";
/** What its answer must look like, or tools that it must call. */
const hasGrammar = (request: Received["request"]) =>
  Boolean(request.sampling.structure) || (request.kind === "chat" && request.tools !== null);

function sayable(
  { kernel: { config, text } }: Serving,
  { maxTokens }: Received["request"],
  ordered: Ordered,
): string[] {
  const tokensMost = Math.min(Number(maxTokens ?? Number.POSITIVE_INFINITY), config.engine.maxModelLen);
  return sayableParts(ordered, tokensMost, text.model.vocabulary.maxTokenBytes);
}

const isLong = (prompts: readonly Uint32Array[]) =>
  prompts.reduce((sum, { length }) => sum + length, 0) > LONG_PROMPT_TOKENS;

async function awaited(
  serving: Serving,
  { request }: Received,
  writing: ChoiceWriter | null,
  pending: Promise<[Uint32Array[], Uint32Array[] | null, Uint32Array | null, Permitted | null]>,
): Promise<PreparedRequest> {
  const { limits } = serving;
  const { backend, chance, text } = serving.kernel;
  const [prompts, badWords, orderedIds, permitted] = await pending;
  const areLong = isLong(prompts);
  // More choices than there is room for are refused further on, and nothing is written for them.
  const isWritten = writing !== null && prompts.length * request.n <= REQUESTS_MOST;
  // Where chance decides, it is drawn in the order of arrival, further on.
  const isGreedyAndLong = areLong && isByPrompt(request);
  const kept = () => prompts.map((_, i) => keptIds(serving, request, prompts, i));
  const drawnFrom = isWritten ? prompts : isGreedyAndLong ? kept() : null;
  const seeds = drawnFrom && (await inTurns(seedPieces(request, drawnFrom, chance.nextSeed), backend));
  const all = (isWritten ? seeds! : []).flatMap((seed) => choiceSeeds(seed, request.n));
  const written = isWritten ? await writing(all, prompts) : null;
  const idsError = areLong ? await inTurns(checkIds(request, limits), backend) : undefined;
  const echoes = areLong ? await inTurns(echoPieces(request, prompts, text.model.vocabulary), backend) : null;
  // Hashing a long prompt takes its time too.
  if (prompts.some((ids) => ids.length > LONG_PROMPT_TOKENS)) await backend.spare();
  return { prompts, badWords, orderedIds, seeds, idsError, echoes, written, permitted };
}

function writingFor(
  { kernel, orders, server, limits }: Serving,
  { http, request }: Received,
  { promptedJson: always = false }: Ordering,
): ChoiceWriter | null {
  const { config, text } = kernel;
  const { dataset } = text.canned;
  const wish = always || config.text.promptedJson ? { always, notice: orders.schemaNotice } : null;
  const mayCall = request.kind === "chat" && request.tools !== null && server.tools;
  const isWritten = mayCall || wish !== null || request.sampling.structure;
  const { encoder } = text.model;
  const share = config.openai.answers.toolCallShare;
  const writing = isWritten ? writingOf(request, server, encoder, share, orders.calls(http, request), wish) : null;
  return dataset ? fromDataset(dataset, request, writing, kernel, limits) : writing;
}

/** Checks what needs the prompts' ids, in vLLM's order. */
export function fit(
  serving: Serving,
  received: Received,
  admitted: Admitted,
  prepared: PreparedRequest,
): FittedRequest | Declined {
  const { kernel, limits } = serving;
  const { request, http } = received;
  const { badWords, written } = prepared;
  const cut = cutPrompts(serving, received, prepared);
  if ("error" in cut) return cut;
  const rank = checkDataParallelRank(http.headers.get(RANK_HEADER), kernel.config.dataParallelSize);
  const { idsError = request.kind === "chat" ? null : atOnce(checkIds(request, limits)) } = prepared;
  for (let i = 0; i < cut.length; i++) {
    const { length } = cut[i]!.ids;
    const ofIds = i === 0 ? idsError : null;
    const refused = checkSampling(request, limits, length, rank, ofIds);
    const error = refused ?? (badWords === null ? null : checkBadWords(request, badWords));
    if (error !== null) return { error, cut };
  }
  if (written !== null && "error" in written) return { error: written.error, cut };
  // Choices that are made to be refused by the core would take gigabytes.
  if (cut.length * request.n > REQUESTS_MOST) return { error: engineBusy };
  const { allowedTokenIds, logitBias } = request.sampling;
  const isSteered = allowedTokenIds !== null || logitBias !== null || badWords !== null;
  const steering = isSteered ? steeringOf(request, badWords, kernel.text.model.vocabulary) : null;
  const seeds = prepared.seeds ?? cut.map(({ ids }) => seedOf(request, ids, kernel.chance.nextSeed));
  return {
    cut,
    seeds,
    steering,
    script: scriptOf(serving, received, admitted, prepared),
    answers: written?.answers ?? null,
  };
}

const isFromText = (request: Received["request"], i: number) =>
  request.kind === "chat" || typeof request.prompts[i] === "string";

/** What `truncate_prompt_tokens` leaves of a prompt. */
function keptIds(
  { kernel, limits }: Serving,
  request: Received["request"],
  prompts: readonly Uint32Array[],
  i: number,
): Uint32Array {
  return truncatePrompt(prompts[i]!, request, limits, isFromText(request, i) ? kernel.text.model.encoder.front : 0);
}

function cutPrompts(serving: Serving, { request }: Received, { prompts }: PreparedRequest): readonly Cut[] | Declined {
  const { limits, transfers } = serving;
  const cut: Cut[] = [];
  for (let i = 0; i < prompts.length; i++) {
    const checked = checkPrompt(request, prompts[i]!.length, isFromText(request, i), limits);
    if ("error" in checked) return checked;
    const kept = keptIds(serving, request, prompts, i);
    const transferUs = request.kvTransfer === null ? undefined : transfers.us(request.kvTransfer, kept.length);
    cut.push({ ids: kept, maxTokens: checked.maxTokens, transferUs });
  }
  return cut;
}

/** Tokens that are ordered one by one are held to the request's grammar. */
function scriptOf(
  { kernel, orders, server }: Serving,
  { request }: Received,
  { ordered }: Admitted,
  { orderedIds, prompts, permitted }: PreparedRequest,
): Script | null {
  if (ordered === null) return null;
  const script = orders.script(ordered, orderedIds, prompts, request);
  return permitted === null ? script : permitted(script, request, server, kernel.text.model.vocabulary);
}
