/**
 * Would a grammar let a script through? The real scheduler checks every token of a constrained request, and one that does not
 * fit ends it with an error (vLLM 0.33, `v1/core/sched/scheduler.py`): scripts that order tokens are held to the same.
 */

import { SAME_STEP } from "../../../base/core-limits.ts";
import type { Script, Sequence } from "../../../text/canned/script.ts";
import { Prefix } from "../../../text/grammar/prefix.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { toolUseOf } from "../request/output-options.ts";
import type { ChatRequest, CompletionRequest } from "../request/request.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import { readPrefix } from "../tool-calls/json-prefix.ts";
import { forced, type ToolUse } from "../tool-calls/output.ts";

/** `ok`: it may go on so; `complete`: it may end here. */
interface Fit {
  readonly ok: boolean;
  readonly complete: boolean;
}
type Check = (text: string) => Fit;

/** A script as the request's grammar lets it through. */
export function permitted(
  script: Script,
  request: ChatRequest | CompletionRequest,
  { tools, reasoning }: ServerTraits,
  vocabulary: Vocabulary,
): Script {
  // A grammar does not hold for thinking, and where thinking ends is not looked for here.
  if (reasoning) return script;
  const use = request.kind === "chat" && tools ? toolUseOf(request, tools.autoEnabled) : null;
  return obeying(script, checkOf(request.sampling.structure ?? null, use, tools?.kind.name ?? null), vocabulary);
}

/** The script as it is played: each sequence up to the token that its grammar rejects. */
function obeying(script: Script, check: Check | null, vocabulary: Vocabulary): Script {
  if (check === null) return script;
  return { ...script, sequences: script.sequences.map((one) => cut(one, check, vocabulary)) };
}

/** What fits stops fitting once: the token is searched for by halves, since each look reads all of the text. */
function cut(sequence: Sequence, check: Check, vocabulary: Vocabulary): Sequence {
  const ids = Array.from(sequence.ids, (id) => (id >= SAME_STEP ? id - SAME_STEP : id));
  const end = ids.indexOf(vocabulary.eosId);
  const said = end < 0 ? ids : ids.slice(0, end);
  const bytes = said.map((id) => vocabulary.bytesOf(id).slice());
  const fitOf = (tokens: number) =>
    check(
      Buffer.concat(bytes.slice(0, tokens))
        .toString()
        .replace(/\ufffd+$/, ""),
    );
  let [fits, wrong] = [0, said.length + 1];
  while (wrong - fits > 1) {
    const middle = (fits + wrong) >> 1;
    if (fitOf(middle).ok) fits = middle;
    else wrong = middle;
  }
  if (fits === said.length && (end < 0 || fitOf(fits).complete)) return sequence;
  // The rejected token is the one behind those that fit: the end of sequence, too, where it comes too early.
  let last = fits;
  while (sequence.ids[last]! >= SAME_STEP) last++;
  const kept = sequence.ids.slice(0, last + 1);
  return { ...sequence, ids: kept, steps: kept.filter((id) => id < SAME_STEP).length, finish: "rejected" };
}

/** What the texts of a request are held to; null: nothing that is looked at. Tool calls in the form of `hermes` alone. */
function checkOf(structure: Structure | null, use: ToolUse | null, form: string | null): Check | null {
  if (use !== null && forced(use)) return form === "hermes" ? (text) => hermesFit(text, use) : null;
  switch (structure?.kind) {
    case "choice": {
      const { choices } = structure;
      return (text) => ({ ok: choices.some((one) => one.startsWith(text)), complete: choices.includes(text) });
    }
    case "regex":
      return regexCheck(structure.pattern);
    case "json":
    case "object":
      return (text) => jsonFit(text, structure.kind === "object");
    default:
      return null;
  }
}

function regexCheck(source: string): Check | null {
  try {
    new Prefix(source);
  } catch {
    return null; // of another dialect, or too large: it is not looked at
  }
  return (text) => {
    const prefix = new Prefix(source);
    return { ok: prefix.push(text), complete: prefix.complete };
  };
}

/** The syntax alone. */
function jsonFit(text: string, object: boolean): Fit {
  if (object && !/^\s*(?:\{|$)/.test(text)) return { ok: false, complete: false };
  try {
    const { end, complete } = readPrefix(text, 0, true);
    const whole = complete || /^\s*-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*$/.test(text);
    return { ok: text.slice(end).trim() === "", complete: whole && text.slice(end).trim() === "" };
  } catch {
    return { ok: text.trim() === "", complete: false };
  }
}

/** Calls one after the other, with any JSON as arguments: schemas are not looked at unless they are strict, nor here. */
function hermesFit(text: string, { tools, choice, parallel }: ToolUse): Fit {
  const names = typeof choice === "object" && choice !== null ? [choice.name] : tools.map(({ name }) => name);
  const heads = names.flatMap((name) =>
    ["\n", ""].map((line) => ({ line, head: `<tool_call>${line}{"name": ${JSON.stringify(name)}, "arguments": ` })),
  );
  let rest = text;
  for (let calls = 0; rest !== ""; calls++) {
    if (calls > 0 && (!parallel || choice !== "required")) return { ok: false, complete: false };
    const begun = heads.find(({ head }) => rest.startsWith(head));
    if (begun === undefined) return { ok: heads.some(({ head }) => head.startsWith(rest)), complete: false };
    const end = argumentsEnd(rest, begun.head.length);
    if (end < 0) return { ok: end === OPEN, complete: false };
    const tail = `}${begun.line}</tool_call>`;
    const after = rest.slice(end);
    if (!after.startsWith(tail)) return { ok: tail.startsWith(after), complete: false };
    rest = after.slice(tail.length);
  }
  return { ok: true, complete: text !== "" };
}

const OPEN = -1;
const BROKEN = -2;

function argumentsEnd(text: string, from: number): number {
  if (from === text.length) return OPEN;
  try {
    const { end, complete } = readPrefix(text, from, true);
    return complete ? end : OPEN;
  } catch {
    return BROKEN;
  }
}
