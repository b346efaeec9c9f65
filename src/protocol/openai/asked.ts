/** What is known of a request when it goes to the engine: its prompts, its name, what its answer carries. */

import { randomHex } from "../../random.ts";
import type { Form } from "../form.ts";
import type { ChatRequest, CompletionRequest } from "../request.ts";
import type { Asked, Prompt } from "./answer.ts";
import type { OpenAiOptions } from "./front.ts";
import type { Cut } from "./generation.ts";
import { outputOptions, promptLogprobCount } from "./output-options.ts";
import { decoded, promptText } from "./prompts.ts";
import { seedOf } from "./seeds.ts";
import type { ServerTraits } from "./server-traits.ts";
import { isOver } from "./thinking.ts";
import type { Ticket } from "./ticket.ts";
import { wantsTruth } from "./truth-summary.ts";

/** `seeds`: of the prompts where they are drawn already; `logprobs`: a script's own. */
export function askedOf(
  options: OpenAiOptions,
  server: ServerTraits,
  request: ChatRequest | CompletionRequest,
  http: Request,
  cut: readonly Cut[],
  ticket: Ticket,
  form: Form | null,
  model: string,
  seeds: readonly number[] | null,
  logprobs: Asked["logprobs"],
  queuedUs: number,
): Asked {
  const header = http.headers.get("x-request-id");
  const base = header ?? request.requestId ?? randomHex(8);
  const echoes = request.kind === "completion" && request.echo;
  const keepIds = request.returnTokenIds || echoes || promptLogprobCount(request) !== null;
  const prompts = cut.map(({ ids }, i): Prompt => {
    const given = request.kind === "completion" ? request.prompts[i] : undefined;
    return {
      tokens: ids.length,
      ids: keepIds ? [...ids] : null,
      echo: !echoes ? null : typeof given === "string" ? given : decoded(options.vocabulary, ids),
      seed: seeds?.[i] ?? seedOf(request, ids, options.nextSeed),
      thinkingIsOver: isOver(server, request, ids),
    };
  });
  return {
    server,
    wishes: outputOptions(request, server),
    prompts,
    id: form?.id(header) ?? `${request.kind === "chat" ? "chatcmpl" : "cmpl"}-${base}`,
    created: Math.floor(options.epochSeconds()),
    model,
    promptText: promptText(request, options),
    ticket,
    batch: request.kind === "chat" && request.conversations !== undefined,
    truthUs: wantsTruth(http.headers) ? options.backend.nowUs : null,
    remoteDecode: request.kvTransfer?.remoteDecode === true,
    form,
    logprobs,
    queuedUs,
  };
}
