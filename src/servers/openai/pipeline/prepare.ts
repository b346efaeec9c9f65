/** Prepares a request for the engine: the ids of its prompts, the text its answer must have, forced and forbidden tokens. */

import { REQUESTS_MOST } from "../../../base/core-limits.ts";
import { atOnce, inTurns, isLarge } from "../../../base/pieces.ts";
import type { Steering } from "../../../text/answers/steered.ts";
import type { Script } from "../../../text/canned/script.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { fromDataset } from "../overrides/dataset.ts";
import { type AnswerOrders, type OrderedAnswer, sayableParts } from "../overrides/orders.ts";
import { type ChoiceWriter, choiceWriterOf, constraintCheckerOf, type WrittenChoices } from "../request/constrained.ts";
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
import type { AdmittedRequest } from "./read-request.ts";
import type { DeclinedRequest, ReceivedRequest, Serving } from "./serving.ts";

/** Request header with the rank of the engine that must run the request. */
export const RANK_HEADER = "x-data-parallel-rank";
/** Tokens above which prompts are hashed and checked in pieces. The work on fewer tokens delays no step noticeably. */
const LONG_PROMPT_TOKENS = 16_384;

/** The parts of a request that other threads or slow work have made. */
export interface PreparedRequest {
  readonly prompts: readonly Uint32Array[];
  /** Token sequences of `bad_words`. null: the request has none. */
  readonly badWords: readonly Uint32Array[] | null;
  /** Ids of the text that the answer must be. null: no text was ordered. */
  readonly orderedIds: Uint32Array | null;
  /** Seeds by prompt, if already needed or if computed from long prompts. null: not drawn yet. */
  readonly seeds: readonly number[] | null;
  /** The error in long prompts given as ids, or null. undefined: not checked yet. */
  readonly idsError: ErrorAnswer | null | undefined;
  /** Texts of prompts given as ids, by prompt, if the answer repeats them. null: not decoded yet. */
  readonly echoes: readonly (string | null)[] | null;
  /** Answers made from a constraint, a tool call or a dataset. null: none. */
  readonly written: WrittenChoices | null;
  /** Applies the request's grammar to a script. null: no grammar. Loaded on demand, because it needs a parser of expressions. */
  readonly permitted: PermittedTokens | null;
}

type PermittedTokens = typeof import("../overrides/script-grammar.ts")["permitted"];

/** The data from which the engine's generations of a request are made. */
export interface FittedRequest {
  readonly cut: readonly Cut[];
  /** Seed of the first choice, by prompt. */
  readonly seeds: readonly number[];
  readonly steering: Steering | null;
  readonly script: Script | null;
  /** Ids of prepared answers, by choice. null: the engine generates all answers. */
  readonly answers: readonly (Uint32Array | null)[] | null;
}

/** Returns the prompts' ids, or promises of them. */
export function encode({ kernel, limits }: Serving, received: ReceivedRequest): Encoding | Promise<Encoding> {
  const { request, body, prompts } = received;
  const { backend, text } = kernel;
  if (prompts !== undefined) return inTurns(packedPieces(request, prompts, text.model.encoder), backend);
  return isLarge(body)
    ? encodeInTurns(request, text.model, limits, backend)
    : encodePrompts(request, text.model, limits);
}

/**
 * Prepares a request. Returns a promise only if another thread must work or an earlier request waits. Resolves with null if
 * the encoder died.
 */
export function prepare(
  serving: Serving,
  received: ReceivedRequest,
  { ordered, ordering }: AdmittedRequest,
  encoding: Exclude<Encoding, DeclinedRequest>,
): PreparedRequest | Promise<PreparedRequest | null> {
  const { request } = received;
  const { encoder } = serving.kernel.text.model;
  const isText = ordered !== null && ordered.text !== null;
  const orderedIds = isText ? encoder.encode(orderedTexts(serving, request, ordered), false) : null;
  const badWords = request.sampling.badWords.list.length === 0 ? null : encodeBadWords(request, encoder);
  const { structure } = request.sampling;
  const checking = structure ? constraintCheckerOf(structure, encoder) : null;
  const writing = ordered === null ? writingFor(serving, received, ordering) : checking;
  const isChecked = ordered !== null && isByToken(ordered) && hasGrammar(request);
  const isReady =
    writing === null && badWords === null && orderedIds === null && !isChecked && serving.queue.arrivals.clear;
  if (isReady && !encoding.pending && !isLong(encoding.prompts)) return withPromptsOnly(encoding.prompts);
  const grammar = isChecked ? import("../overrides/script-grammar.ts").then(({ permitted }) => permitted) : null;
  const pending = Promise.all([Promise.all(encoding.prompts), badWords, orderedIds, grammar]);
  return serving.queue.arrivals.pass(prepareLater(serving, received, writing, pending));
}

/** Returns the prepared request if nothing except its prompts needs preparation. */
const withPromptsOnly = (prompts: readonly Uint32Array[]): PreparedRequest => ({
  prompts,
  badWords: null,
  orderedIds: null,
  seeds: null,
  idsError: undefined,
  echoes: null,
  written: null,
  permitted: null,
});

/** Reports whether a test has ordered the answer token by token. */
const isByToken = ({ order }: OrderedAnswer) => order.kind === "script" || order.kind === "play";
/** Reports whether a constraint or tools limit the answer. */
const hasGrammar = (request: ReceivedRequest["request"]) =>
  Boolean(request.sampling.structure) || (request.kind === "chat" && request.tools !== null);

/** Returns the texts of an ordered answer, as far as the limit of output tokens can reach. */
function orderedTexts(
  { kernel: { config, text } }: Serving,
  { maxTokens }: ReceivedRequest["request"],
  ordered: OrderedAnswer,
): string[] {
  const tokensMost = Math.min(Number(maxTokens ?? Number.POSITIVE_INFINITY), config.engine.maxModelLen);
  return sayableParts(ordered, tokensMost, text.model.vocabulary.maxTokenBytes);
}

const isLong = (prompts: readonly Uint32Array[]) =>
  prompts.reduce((sum, { length }) => sum + length, 0) > LONG_PROMPT_TOKENS;

async function prepareLater(
  serving: Serving,
  { request }: ReceivedRequest,
  writing: ChoiceWriter | null,
  pending: Promise<[Uint32Array[], Uint32Array[] | null, Uint32Array | null, PermittedTokens | null]>,
): Promise<PreparedRequest> {
  const { limits } = serving;
  const { backend, chance, text } = serving.kernel;
  const [prompts, badWords, orderedIds, permitted] = await pending;
  const areLong = isLong(prompts);
  // `fit` refuses a request with too many choices, so no answers are written for it.
  const isWritten = writing !== null && prompts.length * request.n <= REQUESTS_MOST;
  // Random seeds are drawn by `fit`, in the order of arrival.
  const isGreedyAndLong = areLong && isByPrompt(request);
  const kept = () => prompts.map((_, i) => keptIds(serving, request, prompts, i));
  const drawnFrom = isWritten ? prompts : isGreedyAndLong ? kept() : null;
  const seeds = drawnFrom && (await inTurns(seedPieces(request, drawnFrom, chance.nextSeed), backend));
  const eachSeed = (isWritten ? seeds! : []).flatMap((seed) => choiceSeeds(seed, request.n));
  const written = isWritten ? await writing(eachSeed, prompts) : null;
  const idsError = areLong ? await inTurns(checkIds(request, limits), backend) : undefined;
  const echoes = areLong ? await inTurns(echoPieces(request, prompts, text.model.vocabulary), backend) : null;
  // The engine will hash the prompt at once, which takes some time if it is long.
  if (prompts.some((ids) => ids.length > LONG_PROMPT_TOKENS)) await backend.spare();
  return { prompts, badWords, orderedIds, seeds, idsError, echoes, written, permitted };
}

function writingFor(
  { kernel, orders, server, limits }: Serving,
  { http, request }: ReceivedRequest,
  { promptedJson: always = false }: AnswerOrders,
): ChoiceWriter | null {
  const { config, text } = kernel;
  const { dataset } = text.canned;
  const promptedJson = always || config.text.promptedJson ? { always, notice: orders.schemaNotice } : null;
  const mayCall = request.kind === "chat" && request.tools !== null && server.tools;
  const isWritten = mayCall || promptedJson !== null || request.sampling.structure;
  const { encoder } = text.model;
  const share = config.openai.answers.toolCallShare;
  const writing = isWritten
    ? choiceWriterOf(request, server, encoder, share, orders.calls(http, request), promptedJson)
    : null;
  return dataset ? fromDataset(dataset, request, writing, kernel, limits) : writing;
}

/** Makes the checks that need the prompts' ids, in vLLM's order. */
export function fit(
  serving: Serving,
  received: ReceivedRequest,
  admitted: AdmittedRequest,
  prepared: PreparedRequest,
): FittedRequest | DeclinedRequest {
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
  // Refused here, because creating the choices for the core to refuse could take gigabytes.
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

const isFromText = (request: ReceivedRequest["request"], i: number) =>
  request.kind === "chat" || typeof request.prompts[i] === "string";

/** Returns the ids of a prompt after `truncate_prompt_tokens`. */
function keptIds(
  { kernel, limits }: Serving,
  request: ReceivedRequest["request"],
  prompts: readonly Uint32Array[],
  i: number,
): Uint32Array {
  return truncatePrompt(prompts[i]!, request, limits, isFromText(request, i) ? kernel.text.model.encoder.front : 0);
}

/** Truncates the prompts and checks their lengths. */
function cutPrompts(
  serving: Serving,
  { request }: ReceivedRequest,
  { prompts }: PreparedRequest,
): readonly Cut[] | DeclinedRequest {
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

/** Returns the script of an ordered answer, with the request's grammar applied. Returns null if nothing is ordered. */
function scriptOf(
  { kernel, orders, server }: Serving,
  { request }: ReceivedRequest,
  { ordered }: AdmittedRequest,
  { orderedIds, prompts, permitted }: PreparedRequest,
): Script | null {
  if (ordered === null) return null;
  const script = orders.player.script(ordered, orderedIds, prompts, request);
  return permitted === null ? script : permitted(script, request, server, kernel.text.model.vocabulary);
}
