/** Which tools may an answer call? From a request to what its parsers and its plan must know. */

import { atOnce, mapped, type Pieces } from "../../../base/pieces.ts";
import type { ToolShape, ToolUse } from "../tool-calls/output.ts";
import type { ChatRequest } from "./request.ts";
import type { ServerTraits } from "./server-traits.ts";

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

type Tools = readonly unknown[];

/** Shapes of the tools of a request, which its parser, its constraint and its plan ask for in turn. */
const shapes = new WeakMap<Tools, readonly ToolShape[]>();

function shapesOf(tools: Tools | null): readonly ToolShape[] {
  return tools === null ? [] : atOnce(toolShapes(tools));
}

/** Makes the shapes of tools, of which there may be a hundred thousand, or returns those that were made before. */
export function* toolShapes(tools: Tools): Pieces<readonly ToolShape[]> {
  const made = shapes.get(tools) ?? (yield* mapped(tools, shapeOf));
  shapes.set(tools, made);
  return made;
}

function shapeOf(tool: unknown): ToolShape {
  const { function: shape } = tool as { readonly function: { readonly name: string; readonly parameters?: unknown } };
  return { name: shape.name, parameters: shape.parameters ?? null };
}

/** Tool calls of the conversation so far, which some formats number. */
export function callsBefore({ messages }: Pick<ChatRequest, "messages">): number {
  return messages.reduce((sum, { toolCalls }) => sum + (toolCalls?.length ?? 0), 0);
}

/** `tool_choice` names one. */
export function isNamed({ toolChoice }: ChatRequest): boolean {
  return typeof toolChoice === "object" && toolChoice !== null;
}

export function apiOf({ sampling }: ChatRequest): "Responses" | "Chat" {
  // Only /v1/responses has this field.
  return sampling.maxTokensParam === "max_output_tokens" ? "Responses" : "Chat";
}

/** The text is shown as it is: the form of a chat makes a call of it, that of a response does not. */
export function namedIsText(request: ChatRequest, tools: NonNullable<ServerTraits["tools"]>): boolean {
  return tools.namedIsText === true && apiOf(request) === "Chat" && isNamed(request);
}
