/**
 * What must an answer's text be, and does it call a tool? Decided by choice from its seed, before the request goes to the
 * engine: a schema or a grammar (`response_format`, `structured_outputs`), tool calls, or nothing of the kind.
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
import { type PromptedWish, promptedJson } from "./prompted.ts";
import type { ChatRequest, CompletionRequest } from "./request.ts";
import type { ServerTraits } from "./server-traits.ts";

type Asking = ChatRequest | CompletionRequest;

/** Ids by choice; null: it says what it likes. Or what the engine says of the constraint. */
export type Written = { readonly answers: readonly (Uint32Array | null)[] } | { readonly error: ErrorAnswer };

/** What an order says of calls; null: nothing. */
export type OrderedCalls = boolean | readonly string[] | null;

/** Makes the answers, from a seed for each choice; the choices of a prompt stand together. */
export type Writing = (seeds: readonly number[], prompts: readonly Uint32Array[]) => Promise<Written>;

/** Share of the answers that call where the request leaves it open. */
const CALL_SHARE = 0.5;
/** Share that calls two tools, among the answers that may call several. */
const SECOND_CALL = 0.25;
const DRAW_RANGE = 2 ** 32;
/** Separates these draws from each other and from those of the text. */
const [CALLS, SECOND, WHICH] = [0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
/** Longest parameters of one tool; beyond, it is called without arguments. */
const PARAMETERS_MOST = 262_144;

/** Returns null if nothing is asked of the text. `calls`: what an order says of them; `wish`: null if prompts are not looked into. */
export function writingOf(
  request: Asking,
  server: ServerTraits,
  encoder: Encoder,
  share: number = CALL_SHARE,
  calls: OrderedCalls = null,
  wish: PromptedWish | null = null,
): Writing | null {
  const structure = request.sampling.structure ?? null;
  const plan = request.kind === "chat" ? planner(request, server, share, calls) : null;
  const isOpen = structure === null || structure.kind === "object";
  const prompted = wish && isOpen ? promptedJson(request, wish, structure !== null, share, calls) : [];
  if (structure === null && plan === null && prompted.every((one) => one === null)) return null;
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
      // A constraint that is broken is refused although all choices call.
      if (structure !== null && prompted.length === 0) await fill(structure, others);
      for (const [at, asked] of prompted.entries()) {
        const own = others.filter((i) => Math.floor(i / request.n) === at);
        const broken = asked === null ? null : await fill(asked, own).then(() => null, brokenIn);
        if (broken !== null) wish!.notice(broken);
        if (structure !== null && (asked === null || broken !== null)) await fill(structure, own);
      }
      return { answers };
    } catch (error) {
      if (error instanceof BrokenStructure) return { error: badRequest(error.message) };
      throw error;
    }
  };
}

/** Why a constraint is broken. Throws any other error. */
function brokenIn(error: unknown): string {
  if (error instanceof BrokenStructure) return error.message;
  throw error;
}

/** Checks the constraint of a request whose answer is ordered. Writes nothing. */
export function checkingOf(structure: Structure, encoder: Encoder): Writing {
  return async () => {
    try {
      await written(encoder, structure, []);
      return { answers: [] };
    } catch (error) {
      if (error instanceof BrokenStructure) return { error: badRequest(error.message) };
      throw error;
    }
  };
}

/** What a choice calls, from its seed; null: no tool can be called. */
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
  // The text of a named one is shown as it is: a format decides what it looks like.
  if (namedIsText(request, tools) && request.sampling.structure) return null;
  // Who has been told what a tool gave says so, rather than ask again.
  const answered = request.messages.at(-1)?.role === "tool";
  return (seed) => {
    const wanted = calls === null ? !answered && drawn(seed, CALLS) < share : calls !== false;
    if (free && !wanted) return null;
    const { habits, kind } = tools;
    const called = calledOf(use, seed, calls, habits?.another);
    if (called.length === 0) return null;
    const plan = {
      form: kind.name,
      text: "",
      spaced: free,
      calls: called.map(planned),
      callsBefore: callsBefore(request),
    };
    return { ...plan, ...(habits ? { habits } : {}) };
  };
}

/** `another`: the share of calls after which one more follows. */
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
