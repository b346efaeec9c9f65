/** Submits the choices of a request to the engine in order, and chains the receivers between the engine and a choice. */

import type { Pieces } from "../../../base/pieces.ts";
import type { Choices, Receiver } from "../../../engine/interface/types.ts";
import type { JointOutputs } from "../overrides/play.ts";
import { RepetitionWatch } from "../overrides/repetition.ts";
import { generationOf, type RequestPlan } from "../request/generation.ts";
import { apiOf, promptLogprobCount } from "../request/output-options.ts";
import { choiceSeed, headerInt } from "../request/sampling.ts";
import { CacheJudge, leastShare } from "./cache-threshold.ts";
import { type AnswerChoice, cancelChoices } from "./choice.ts";
import { type AnswerContext, adapterOf, engineId, promptId } from "./context.ts";
import { type FittedRequest, RANK_HEADER } from "./prepare.ts";
import { receivedLine } from "./request-log.ts";
import type { ReceivedRequest, Serving } from "./serving.ts";
import { TimedReceiver } from "./truth-summary.ts";

/** Request header with the priority. Overrides the body's field. */
const PRIORITY_HEADER = "x-vllm-priority";

/** A request that is ready for the engine. */
export interface Job {
  readonly received: ReceivedRequest;
  readonly fitted: FittedRequest;
  readonly context: AnswerContext;
  /** Time when its prompt was handed to the encoder. */
  readonly encodedFromUs: number;
}

/** Reason for cancelling a request's choices: the engine refused one (`busy`, `paused`), or the client disconnected (`left`). */
export type SubmitFailure = "busy" | "paused" | "left";

/** Number of prompt tokens that take about as long as submitting a choice. */
const CHOICE_TOKENS = 500;
/** Tokens after which the work yields. */
const TOKENS_PER_PIECE = 16_384;

/**
 * Submits all choices of all prompts, in pieces. Returns null if the engine accepted them or the answer has ended meanwhile.
 *
 * Between pieces, other requests may be submitted and the first choices may get outputs, so `onAccepted` is called after the
 * first choice. vLLM 0.33 also yields to its event loop between choices (`v1/engine/async_llm.py`, `add_request`).
 */
export function* submitChoices(
  serving: Serving,
  job: Job,
  choices: readonly AnswerChoice[],
  onAccepted: () => void,
): Pieces<SubmitFailure | null> {
  const { queue } = serving;
  const { context, received } = job;
  const { request, http } = received;
  const { n } = request;
  const shared = sharedOf(serving, job, choices.length);
  let siblings: Choices | undefined;
  let tokens = 0;
  /** Prompt tokens of the choices that are not submitted yet. */
  let left = n * job.fitted.cut.reduce((sum, { ids }) => sum + ids.length, 0);
  for (let index = 0; index < choices.length; index++) {
    const choice = choices[index]!;
    if (n > 1 && index % n === 0) siblings = { count: n, left: n, longest: 0 };
    const refused = submitChoice(serving, job, shared, choice, siblings);
    if (refused !== null) {
      cancelChoices(choices, context.server);
      return refused;
    }
    if (index === 0) onAccepted();
    const promptTokens = job.fitted.cut[Math.floor(index / n)]!.ids.length;
    left -= promptTokens;
    tokens += CHOICE_TOKENS + promptTokens;
    if (tokens < TOKENS_PER_PIECE || index === choices.length - 1) continue;
    tokens = 0;
    const coming = choices.length - index - 1;
    queue.coming(coming, left);
    yield;
    queue.coming(-coming, -left);
    if (http.signal.aborted) return "left";
    // A submitted choice failed, which cancelled the choices that were not submitted yet.
    if (choices[index + 1]!.finish !== null) return null;
  }
  return null;
}

/** Like `submitChoices`, for a request with a single choice. Needs no generator. */
export function submitOnly(
  serving: Serving,
  job: Job,
  choices: readonly AnswerChoice[],
  onAccepted: () => void,
): SubmitFailure | null {
  const refused = submitChoice(serving, job, sharedOf(serving, job, 1), choices[0]!, undefined);
  if (refused === null) onAccepted();
  else cancelChoices(choices, job.context.server);
  return refused;
}

/** The parts that all choices of a request share. */
interface SharedParts {
  readonly plan: RequestPlan;
  /** The share of the prompt that must be in the prefix cache (see cache-threshold.ts). */
  readonly leastCached: number;
  /** Holds outputs back and delivers them together. null: the request does not order this. */
  readonly together: JointOutputs | null;
}

function sharedOf(serving: Serving, job: Job, count: number): SharedParts {
  const { orders, kernel } = serving;
  const { request, http, form } = job.received;
  const { script } = job.fitted;
  const plan = planOf(serving, job);
  logReceived(serving, job, plan.adapter);
  const { cacheHitThreshold } = kernel.config.queue;
  const leastCached =
    cacheHitThreshold === undefined ? 0 : leastShare(cacheHitThreshold, kernel.config, request, http, form);
  return { plan, leastCached, together: script && orders.player.begins(script, count) };
}

/** Submits one choice. Returns the reason if the engine refuses it. `siblings`: all choices of its prompt, if several. */
function submitChoice(
  { kernel, orders, queue }: Serving,
  { context, fitted, received }: Job,
  { plan, leastCached, together }: SharedParts,
  choice: AnswerChoice,
  siblings: Choices | undefined,
): "busy" | "paused" | null {
  const { index } = choice;
  const { n } = context.output;
  const at = Math.floor(index / n);
  const cut = fitted.cut[at]!;
  const generation = generationOf(plan, {
    id: engineId(promptId(context, at), index % n, n),
    cut,
    seed: choiceSeed(context.prompts[at]!.seed, index % n),
    written: fitted.answers?.[index] ?? null,
    siblings,
  });
  const { repetition } = received.request;
  const played = fitted.script && orders.player.play(fitted.script, choice, generation, repetition, together);
  let receiver: Receiver = played?.receiver ?? (repetition === null ? choice : new RepetitionWatch(choice, repetition));
  if (leastCached > 0) receiver = new CacheJudge(choice, receiver, cut.ids.length, leastCached);
  if (context.truthUs) receiver = new TimedReceiver(choice, receiver, context.truthUs);
  const submitted = queue.submit(cut.ids.length, receiver, (queued) =>
    kernel.backend.submit(played?.generation ?? generation, queued),
  );
  if ("refused" in submitted) return submitted.refused;
  choice.submission = submitted;
  return null;
}

function planOf({ kernel, server, limits }: Serving, { received, fitted, encodedFromUs }: Job): RequestPlan {
  const { request, http, arrivalUs } = received;
  const rank = headerInt(http.headers.get(RANK_HEADER));
  return {
    text: kernel.text,
    meanReasoningTokens: kernel.config.openai.answers.meanReasoningTokens,
    reasoning: server.reasoning,
    request,
    steering: fitted.steering,
    skipReadingPrefixCache: promptLogprobCount(request) !== null,
    ...(request.kind === "chat" && apiOf(request) === "Responses" ? { ofResponses: true } : {}),
    adapter: adapterOf(limits, request),
    // A header that is not a number is ignored.
    priority: Number(headerInt(http.headers.get(PRIORITY_HEADER)) ?? request.priority),
    rank: rank === null ? undefined : Number(rank),
    arrivalUs,
    encodedFromUs,
  };
}

function logReceived({ server, adapters }: Serving, { received, fitted, context }: Job, adapter: number): void {
  const { requestLog: log } = server;
  if (!log?.isOn.get()) return;
  const lora = adapter === 0 ? null : { ...adapters.byNumber(adapter), number: adapter };
  for (const [i, { maxTokens }] of fitted.cut.entries())
    log.write(receivedLine(promptId(context, i), received.request, maxTokens, lora));
}
