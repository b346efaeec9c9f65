/** Finds out two properties of a chat template by rendering test messages. Like vLLM, does so once, when first needed. */
import { resultOrError } from "../../../base/result-or-error.ts";
import { type RenderChat, TemplateRefusal } from "../../../text/tokens/chat-template.ts";
import type { ReadingHost } from "./dialect.ts";

/** `ofModel`: the template belongs to a model. The built-in template counts as one that can switch reasoning off. */
export function templateHabits(
  renderChat: RenderChat,
  ofModel: boolean,
): Pick<ReadingHost, "mergesSystem" | "thinksAnyway"> {
  let mergesSystem: boolean | null = null;
  let thinksAnyway: boolean | null = null;
  return {
    mergesSystem: () => {
      mergesSystem ??= refusesInlineSystem(renderChat);
      return mergesSystem;
    },
    thinksAnyway: () => {
      thinksAnyway ??= ofModel && ignoresEffort(renderChat);
      return thinksAnyway;
    },
  };
}

/** Reports whether the template refuses a system message after the first message. */
function refusesInlineSystem(renderChat: RenderChat): boolean {
  const message = (role: string) => ({ role, content: "t" });
  const messages = ["system", "user", "system", "user"].map(message);
  return resultOrError(TemplateRefusal, () => renderChat(messages, false, false, null)) instanceof TemplateRefusal;
}

const EFFORTS = ["low", "medium", "high", "xhigh", "max"];

/** Reports whether the template refuses reasoning effort "none", or renders it like one of the other efforts. */
function ignoresEffort(renderChat: RenderChat): boolean {
  const rendered = (effort: string): string | null => {
    const names = { reasoning_effort: effort, enable_thinking: effort !== "none" };
    const messages = [{ role: "user", content: "Hi" }];
    const parts = resultOrError(TemplateRefusal, () => renderChat(messages, true, false, null, names));
    return parts instanceof TemplateRefusal ? null : JSON.stringify(parts);
  };
  const without = rendered("none");
  return without === null || EFFORTS.some((effort) => rendered(effort) === without);
}
