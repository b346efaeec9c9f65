/** Which tools may an answer call? From a request to what its parsers and its plan must know. */
import type { ToolShape, ToolUse } from "../parsers/output.ts";
import type { ChatRequest } from "../python/request.ts";

/** `autoEnabled`: `--enable-auto-tool-choice`. */
export function toolUseOf(
  {
    tools,
    toolChoice: choice,
    parallelToolCalls: parallel,
  }: Pick<ChatRequest, "tools" | "toolChoice" | "parallelToolCalls">,
  autoEnabled: boolean,
): ToolUse {
  return { tools: shapesOf(tools), choice, parallel, autoEnabled };
}

function shapesOf(tools: readonly unknown[] | null): ToolShape[] {
  return (tools ?? []).map((tool) => {
    const { function: shape } = tool as { readonly function: { readonly name: string; readonly parameters?: unknown } };
    return { name: shape.name, parameters: shape.parameters ?? null };
  });
}
