/**
 * Writes answers that must have a form: text that fits a schema or a grammar (`response_format`, `structured_outputs`), or tool
 * calls. The seed of a choice decides its text and its calls, before the request goes to the engine.
 */

import { mix } from "../../../base/random.ts";
import { written } from "../../../text/answers/written.ts";
import { BrokenStructure } from "../../../text/grammar/broken.ts";
import type { CallPlan } from "../../../text/grammar/calls.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import type { Encoder } from "../../../text/tokens/types.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { forced, type ToolShape, type ToolUse } from "../tool-calls/output.ts";
import { badRequest } from "./errors.ts";
import { callsBefore, namedIsText, toolUseOf } from "./output-options.ts";
import { type PromptedJsonOptions, promptedJson } from "./prompted.ts";
import type { ChatRequest, GenerationRequest } from "./request.ts";
import type { ServerTraits } from "./server-traits.ts";

/** Token ids of each choice, null for a choice without a form. Or the engine's refusal of the constraint. */
export type WrittenChoices = { readonly answers: readonly (Uint32Array | null)[] } | { readonly error: ErrorAnswer };

/** Calls that an order wants: true for some, false for none, or the names of the tools. Null: it leaves them open. */
export type OrderedCalls = boolean | readonly string[] | null;

/** Writes the answers of a request from a seed for each choice. The choices of a prompt are adjacent. */
export type ChoiceWriter = (seeds: readonly number[], prompts: readonly Uint32Array[]) => Promise<WrittenChoices>;

/** Share of answers that call a tool if the request leaves it open. */
const CALL_SHARE = 0.5;
/** Share of answers with two calls, among those that may have several. */
const SECOND_CALL = 0.25;
const DRAW_RANGE = 2 ** 32;
/** Salts that make these draws independent of each other and of those for the text. */
const [CALLS, SECOND, WHICH] = [0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
/** Most characters of a tool's parameters in JSON. A tool with longer ones is called without arguments. */
const PARAMETERS_MOST = 262_144;

/**
 * Returns the writer of a request's answers, or null if their text is free. `share`: of answers that call a tool if that is open.
 * `jsonOptions`: null if prompts are not searched for JSON.
 */
export function choiceWriterOf(
  request: GenerationRequest,
  server: ServerTraits,
  encoder: Encoder,
  share: number = CALL_SHARE,
  calls: OrderedCalls = null,
  jsonOptions: PromptedJsonOptions | null = null,
): ChoiceWriter | null {
  const structure = request.sampling.structure ?? null;
  const plan = request.kind === "chat" ? planner(request, server, share, calls) : null;
  const isOpen = structure === null || structure.kind === "object";
  const prompted = jsonOptions && isOpen ? promptedJson(request, jsonOptions, structure !== null, share, calls) : [];
  if (structure === null && plan === null && prompted.every((structured) => structured === null)) return null;
  return async (seeds) => {
    const plans = seeds.map((seed) => plan?.(seed) ?? null);
    const calling = seeds.flatMap((_, i) => (plans[i] === null ? [] : [i]));
    const others = seeds.flatMap((_, i) => (plans[i] === null ? [i] : []));
    const answers: (Uint32Array | null)[] = seeds.map(() => null);
    const fill = async (what: Structure, at: readonly number[]) => {
      const ids = await written(
        encoder,
        what,
        at.map((i) => seeds[i]!),
      );
      for (const [k, i] of at.entries()) answers[i] = ids[k]!;
    };
    try {
      if (calling.length > 0) await fill({ kind: "calls", plans: calling.map((i) => plans[i]!) }, calling);
      // Check the constraint even if all choices call tools, so that a broken one is refused.
      if (structure !== null && prompted.length === 0) await fill(structure, others);
      for (const [at, wanted] of prompted.entries()) {
        const ofPrompt = others.filter((i) => Math.floor(i / request.n) === at);
        const broken = wanted === null ? null : await fill(wanted, ofPrompt).then(() => null, brokenIn);
        if (broken !== null) jsonOptions!.notice(broken);
        if (structure !== null && (wanted === null || broken !== null)) await fill(structure, ofPrompt);
      }
      return { answers };
    } catch (error) {
      return { error: badRequest(brokenIn(error)) };
    }
  };
}

/** Returns the reason why a constraint is broken. Throws any other error. */
function brokenIn(error: unknown): string {
  if (error instanceof BrokenStructure) return error.message;
  throw error;
}

/** Returns a writer that only checks the constraint, for a request whose answer is ordered. */
export function constraintCheckerOf(structure: Structure, encoder: Encoder): ChoiceWriter {
  return async () => {
    const broken = await written(encoder, structure, []).then(() => null, brokenIn);
    return broken === null ? { answers: [] } : { error: badRequest(broken) };
  };
}

/** Returns a function that plans the calls of a choice from its seed. Returns null if no tool can be called. */
function planner(
  request: ChatRequest,
  { tools }: ServerTraits,
  share: number,
  calls: OrderedCalls,
): ((seed: number) => CallPlan | null) | null {
  if (!tools) return null;
  const use = toolUseOf(request, tools.autoEnabled);
  const free = use.choice === "auto" && use.autoEnabled;
  if (use.tools.length === 0 || !(free || forced(use))) return null;
  // The server does not parse the text of a named call. If the request also asks for a format, that decides the text.
  if (namedIsText(request, tools) && request.sampling.structure) return null;
  // After the result of a tool a model tells what it got, rather than call again.
  const answered = request.messages.at(-1)?.role === "tool";
  return (seed) => {
    const wanted = calls === null ? !answered && drawn(seed, CALLS) < share : calls !== false;
    if (free && !wanted) return null;
    const { habits, kind } = tools;
    const called = calledOf(use, seed, calls, habits?.another);
    if (called.length === 0) return null;
    return {
      form: kind.name,
      text: "",
      spaced: free,
      calls: called.map(planned),
      callsBefore: callsBefore(request),
      ...(habits ? { habits } : {}),
    };
  };
}

/** Returns the tools that a choice calls. `another`: share of calls that are followed by another one. */
function calledOf(
  { tools, choice, parallel }: ToolUse,
  seed: number,
  calls: OrderedCalls,
  another: number | undefined,
): readonly ToolShape[] {
  if (typeof choice === "object" && choice !== null)
    return tools.filter(({ name }) => name === choice.name).slice(0, 1);
  const ordered = Array.isArray(calls)
    ? calls.flatMap((name) => tools.filter((tool) => tool.name === name).slice(0, 1))
    : [];
  if (ordered.length > 0) return parallel ? ordered : ordered.slice(0, 1);
  const most = !parallel ? 1 : another === undefined ? 2 : tools.length;
  let count = 1;
  while (count < most && drawn(seed, SECOND + count - 1) < (another ?? SECOND_CALL)) count++;
  return Array.from({ length: count }, (_, i) => tools[Math.floor(drawn(seed, WHICH + i) * tools.length)]!);
}

function planned({ name, parameters }: ToolShape): CallPlan["calls"][number] {
  const text = parameters === null ? null : JSON.stringify(parameters);
  return { name, parameters: text === null || text.length > PARAMETERS_MOST ? null : text };
}

function drawn(seed: number, salt: number): number {
  return mix(seed ^ salt, 0) / DRAW_RANGE;
}
