/** What is known of a request when it goes to the engine? Its prompts, its name, what its answer carries. */

import type { Ticket } from "../../../kernel/accounting.ts";
import type { AnswerPart } from "../../../text/answers/answer-parts.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { type Cut, seedOf } from "../request/generation.ts";
import { outputOptions, promptLogprobCount } from "../request/output-options.ts";
import { decoded, promptText } from "../request/prompts.ts";
import type { CompletionRequest } from "../request/request.ts";
import { isOver } from "../request/thinking.ts";
import type { AnswerContext, Prompt } from "./context.ts";
import { adapterOf, type Received, type Serving } from "./serving.ts";
import { wantsTruth } from "./truth-summary.ts";

/** An answer that is about to begin. */
export interface Beginning {
  readonly received: Received;
  readonly cut: readonly Cut[];
  readonly ticket: Ticket;
  /** Seeds of the prompts, where they are drawn already. */
  readonly seeds: readonly number[] | null;
  /** Prompts of ids as texts, where that is done already. */
  readonly echoes: readonly (string | null)[] | null;
  /** A script's own, by choice. */
  readonly logprobs: AnswerContext["logprobs"];
  /** Parts of an ordered answer; null: the parsers decide what is reasoning. */
  readonly parts: readonly AnswerPart[] | null;
  /** The engine's clock. */
  readonly queuedUs: number;
}

/** The text of a prompt as the request gave it, or `made` of its ids; what was cut off is not said. */
function echoOf(
  { prompts }: CompletionRequest,
  i: number,
  ids: Uint32Array,
  made: string | null,
  vocabulary: Vocabulary,
): string {
  const given = prompts[i]!;
  if (typeof given === "string") return given;
  return (given.length === ids.length ? made : null) ?? decoded(vocabulary, ids);
}

export function answerContext({ options, server, limits }: Serving, beginning: Beginning): AnswerContext {
  const { received, cut, ticket, seeds, echoes, logprobs, parts, queuedUs } = beginning;
  const { request, form, http } = received;
  const isEchoed = request.kind === "completion" && request.echo;
  const keepIds = request.returnTokenIds || isEchoed || promptLogprobCount(request) !== null;
  const prompts: Prompt[] = [];
  for (let i = 0; i < cut.length; i++) {
    const { ids } = cut[i]!;
    prompts.push({
      tokens: ids.length,
      ids: keepIds ? ids : null,
      echo: isEchoed ? echoOf(request, i, ids, echoes?.[i] ?? null, options.vocabulary) : null,
      seed: seeds?.[i] ?? seedOf(request, ids, options.nextSeed),
      thinkingIsOver: !server.reasoning || isOver(server.reasoning, request, ids),
    });
  }
  return {
    server,
    output: outputOptions(request, server, parts),
    prompts,
    id: form.id(http.headers.get("x-request-id"), options.newId),
    newId: options.newId,
    created: Math.floor(options.epochSeconds()),
    model: adapterOf(limits, request) > 0 ? request.model! : options.config.models.servedModelNames[0]!,
    promptText: promptText(request, options, received.prompts?.[0]),
    ticket,
    batch: request.kind === "chat" && request.conversations !== undefined,
    truthUs: wantsTruth(http.headers) ? options.backend.nowUs : null,
    remoteDecode: request.kvTransfer?.remoteDecode === true,
    form,
    maxTokens: cut[0]!.maxTokens,
    logprobs,
    queuedUs,
  };
}
