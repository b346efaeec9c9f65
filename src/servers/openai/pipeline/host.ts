/** Creates the host of dialects that translate their bodies into chats (see dialect.ts). */

import { inTurns } from "../../../base/pieces.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { checkModel } from "../front/models.ts";
import { BodyReading } from "../front/reading/thread.ts";
import { internalError } from "../request/errors.ts";
import { encodeInTurns } from "../request/prompts.ts";
import { checkPrompt } from "../request/sampling.ts";
import type { DialectHost } from "./dialect.ts";
import { follow } from "./follow.ts";
import type { Generator } from "./generate.ts";
import { templateHabits } from "./template-habits.ts";

/** Returns the host that answers through `generator`. `chat`: translates a chat's body into a request. */
export function dialectHost(generator: Generator, chat: DialectHost["chat"]): DialectHost {
  const { kernel, http, limits, bodies, server, thread } = generator.serving;
  const { backend, config, text, time } = kernel;
  return {
    limits,
    parses: Boolean(server.reasoning || server.tools),
    checkModel: (model) => checkModel(model, limits),
    epochSeconds: time.epochSeconds,
    chat,
    ...templateHabits(text.model.renderChat, config.text.tokenizer !== undefined),
    answer: (context, reader) => generator.answer(context, reader),
    async body(context) {
      const contentType = context.request.headers.get("content-type");
      const received = await bodies.read(context, () => thread?.begin({ kind: "text", contentType, limits }) ?? null);
      const answer = received instanceof BodyReading ? await received.answer() : { text: received };
      if ("text" in answer) return answer.text;
      return "error" in answer ? answer.error : internalError;
    },
    inTurns: (work) => inTurns(work, backend),
    async promptTokens(request) {
      const encoding = await encodeInTurns(request, text.model, limits, backend);
      if ("error" in encoding) refuse(encoding.error);
      const [ids] = await Promise.all(encoding.prompts);
      if (ids === undefined) refuse(internalError);
      const checked = checkPrompt(request, ids.length, true, limits);
      if ("error" in checked) refuse(checked.error);
      return ids.length;
    },
    follow: (context, log, from) => follow(http, context, log, from),
    json: (context, body) => http.json(context, body),
    error: (context, error) => http.error(context, error),
  };
}
