/** Hands the choices of a request to the engine in their order, and puts receivers between the engine and a choice. */

import type { Pieces } from "../../../base/pieces.ts";
import type { Choices, Receiver } from "../../../engine/interface/types.ts";
import type { JointOutputs } from "../overrides/play.ts";
import { RepetitionWatch } from "../overrides/repetition.ts";
import { generationOf, type RequestPlan } from "../request/generation.ts";
import { choiceSeed, headerInt } from "../request/sampling.ts";
import { CacheJudge, leastShare } from "./cache-threshold.ts";
import { type AnswerChoice, takeBack } from "./choice.ts";
import { type AnswerContext, adapterOf, engineId, promptId } from "./context.ts";
import { type FittedRequest, RANK_HEADER } from "./prepare.ts";
import { receivedLine } from "./request-log.ts";
import type { Received, Serving } from "./serving.ts";
import { TimedReceiver } from "./truth-summary.ts";

/** Wins over the body. */
const PRIORITY_HEADER = "x-vllm-priority";

/** A request that goes to the engine now. */
export interface Job {
  readonly received: Received;
  readonly fitted: FittedRequest;
  readonly context: AnswerContext;
  /** When its prompt went to the encoder; the engine's clock. */
  readonly encodedFromUs: number;
}

/** Why the engine has not all of a request's choices: it did not take one, and they were taken back, or the client left. */
export type NotTaken = "busy" | "paused" | "left";

/** A choice takes as long as so many tokens of its prompt. */
const CHOICE_TOKENS = 500;
/** Tokens between two looks at the clock. */
const TOKENS_OF_A_PIECE = 16_384;

/**
 * Hands all choices of all prompts to the engine, in pieces; null: it took them, or the answer ended meanwhile. Other
 * requests, and outputs of the first choices, may come between: `taken` is called before. vLLM 0.33 submits the choices of
 * a request one by one, too, with turns of its event loop between (`v1/engine/async_llm.py`, `add_request`).
 */
export function* submitChoices(
  serving: Serving,
  job: Job,
  choices: readonly AnswerChoice[],
  taken: () => void,
): Pieces<NotTaken | null> {
  const { queue } = serving;
  const { context, received } = job;
  const { request, http } = received;
  const { n } = request;
  const shared = sharedOf(serving, job, choices.length);
  let siblings: Choices | undefined;
  let tokens = 0;
  /** Tokens of the prompts of the choices that are not handed over. */
  let left = n * job.fitted.cut.reduce((sum, { ids }) => sum + ids.length, 0);
  for (let index = 0; index < choices.length; index++) {
    const choice = choices[index]!;
    if (n > 1 && index % n === 0) siblings = { count: n, left: n, longest: 0 };
    const refused = submitChoice(serving, job, shared, choice, siblings);
    if (refused !== null) {
      takeBack(choices, context.server);
      return refused;
    }
    if (index === 0) taken();
    const promptTokens = job.fitted.cut[Math.floor(index / n)]!.ids.length;
    left -= promptTokens;
    tokens += CHOICE_TOKENS + promptTokens;
    if (tokens < TOKENS_OF_A_PIECE || index === choices.length - 1) continue;
    tokens = 0;
    const coming = choices.length - index - 1;
    queue.coming(coming, left);
    yield;
    queue.coming(-coming, -left);
    if (http.signal.aborted) return "left";
    // One of them failed, and the next was taken back before the engine had it.
    if (choices[index + 1]!.finish !== null) return null;
  }
  return null;
}

/** As `submitChoices`, for the only choice of a request: without a generator, nor a look at the clock. */
export function submitOnly(
  serving: Serving,
  job: Job,
  choices: readonly AnswerChoice[],
  taken: () => void,
): NotTaken | null {
  const refused = submitChoice(serving, job, sharedOf(serving, job, 1), choices[0]!, undefined);
  if (refused === null) taken();
  else takeBack(choices, job.context.server);
  return refused;
}

/** What the choices of a request have in common. */
interface Shared {
  readonly plan: RequestPlan;
  /** The share of the prompt that must be in the prefix cache. */
  readonly least: number;
  /** Gathers outputs that are to pile up; null: none are. */
  readonly together: JointOutputs | null;
}

function sharedOf(serving: Serving, job: Job, count: number): Shared {
  const { orders, kernel } = serving;
  const { request, http, form } = job.received;
  const { script } = job.fitted;
  const plan = planOf(serving, job);
  logReceived(serving, job, plan.adapter);
  const { cacheHitThreshold } = kernel.config.queue;
  const least = cacheHitThreshold === undefined ? 0 : leastShare(cacheHitThreshold, kernel.config, request, http, form);
  return { plan, least, together: script && orders.begins(script, count) };
}

/** `siblings`: the choices of the prompt; undefined if there is one. */
function submitChoice(
  { kernel, orders, queue }: Serving,
  { context, fitted, received }: Job,
  { plan, least, together }: Shared,
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
  const played = fitted.script && orders.play(fitted.script, choice, generation, repetition, together);
  let heard: Receiver = played?.receiver ?? (repetition === null ? choice : new RepetitionWatch(choice, repetition));
  if (least > 0) heard = new CacheJudge(choice, heard, cut.ids.length, least);
  if (context.truthUs) heard = new TimedReceiver(choice, heard, context.truthUs);
  const submitted = queue.submit(cut.ids.length, heard, (receiver) =>
    kernel.backend.submit(played?.generation ?? generation, receiver),
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
    adapter: adapterOf(limits, request),
    // A header that is no number says nothing.
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
