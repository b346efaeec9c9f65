/** What does a dialect know of the chat template? vLLM tries it once, when somebody asks. */
import { type RenderChat, TemplateRefusal } from "../../../text/tokens/chat-template.ts";
import type { ReadingHost } from "./dialect.ts";

/** `ofModel`: it is a model's; the built-in template stands for one that listens. */
export function templateHabits(
  renderChat: RenderChat,
  ofModel: boolean,
): Pick<ReadingHost, "mergesSystem" | "thinksAnyway"> {
  let merges: boolean | null = null;
  let insists: boolean | null = null;
  return {
    mergesSystem: () => {
      merges ??= refusesInlineSystem(renderChat);
      return merges;
    },
    thinksAnyway: () => {
      insists ??= ofModel && ignoresEffort(renderChat);
      return insists;
    },
  };
}

function refusesInlineSystem(renderChat: RenderChat): boolean {
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

/** The prompt without effort is refused, or that of one of the efforts. */
function ignoresEffort(renderChat: RenderChat): boolean {
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
