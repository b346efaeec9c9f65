/** What do dialects find that read their bodies into chats? The rules of a chat, its prompts, its answers. */
import { TemplateRefusal } from "../content/chat-template.ts";
import { Bodies } from "../front/body.ts";
import type { OpenAiOptions } from "../front/front.ts";
import { checkModel } from "../front/models.ts";
import { BodyReading } from "../front/reading/thread.ts";
import { checkPrompt } from "../generation/limits.ts";
import { encodeInTurns } from "../generation/prompts.ts";
import { internalError, Refused } from "../python/errors.ts";
import { inTurns } from "../python/pieces.ts";
import type { DialectHost } from "./dialect.ts";
import { follow } from "./follow.ts";
import type { Generator } from "./generate.ts";

/** `chat`: makes a request of a chat's body. */
export function dialectHost(generator: Generator, chat: DialectHost["chat"]): DialectHost {
  const { options, http, limits, server, thread } = generator.serving;
  const bodies = new Bodies(options);
  let merges: boolean | null = null;
  let insists: boolean | null = null;
  return {
    limits,
    parses: Boolean(server.reasoning || server.tools),
    checkModel: (model) => checkModel(model, limits),
    epochSeconds: options.epochSeconds,
    chat,
    mergesSystem: () => {
      merges ??= refusesInlineSystem(options);
      return merges;
    },
    thinksAnyway: () => {
      insists ??= ignoresEffort(options);
      return insists;
    },
    answer: (context, reader) => generator.answer(context, reader),
    async body(context) {
      const contentType = context.request.headers.get("content-type");
      const came = await bodies.read(context, () => thread?.begin({ kind: "text", contentType, limits }) ?? null);
      const answer = came instanceof BodyReading ? await came.answer() : { text: came };
      if ("text" in answer) return answer.text;
      return "error" in answer ? answer.error : internalError;
    },
    inTurns: (work) => inTurns(work, options.backend),
    async promptTokens(request) {
      const encoding = await encodeInTurns(request, options, limits);
      if ("error" in encoding) throw new Refused(encoding.error);
      const [ids] = await Promise.all(encoding.prompts);
      if (ids === undefined) throw new Refused(internalError);
      const checked = checkPrompt(request, ids.length, true, limits);
      if ("error" in checked) throw new Refused(checked.error);
      return ids.length;
    },
    follow: (context, log, from) => follow(http, context, log, from),
    json: (context, body) => http.json(context, body),
    error: (context, error) => http.error(context, error),
  };
}

/** As vLLM tries its template once. */
function refusesInlineSystem({ renderChat }: OpenAiOptions): boolean {
  const said = (role: string) => ({ role, content: "t" });
  try {
    renderChat([said("system"), said("user"), said("system"), said("user")], false, false, null);
    return false;
  } catch (error) {
    if (error instanceof TemplateRefusal) return true;
    throw error;
  }
}

const EFFORTS = ["low", "medium", "high", "xhigh", "max"];

/** As vLLM tries it once: the prompt without effort is refused, or that of one of the efforts. The built-in template stands for one that listens. */
function ignoresEffort({ config, renderChat }: OpenAiOptions): boolean {
  if (config.wire?.tokenizer === undefined) return false;
  const rendered = (effort: string): string | null => {
    const names = { reasoning_effort: effort, enable_thinking: effort !== "none" };
    try {
      return JSON.stringify(renderChat([{ role: "user", content: "Hi" }], true, false, null, names));
    } catch (error) {
      if (error instanceof TemplateRefusal) return null;
      throw error;
    }
  };
  const without = rendered("none");
  return without === null || EFFORTS.some((effort) => rendered(effort) === without);
}
