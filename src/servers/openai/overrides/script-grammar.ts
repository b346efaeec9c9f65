/**
 * Ends scripts at the first token that the request's grammar forbids. The real scheduler checks every token of a constrained
 * request, and ends it with an error at one that does not fit (vLLM 0.33, `v1/core/sched/scheduler.py`).
 */

import { SAME_STEP } from "../../../base/core-limits.ts";
import { parsedJson } from "../../../base/json-object.ts";
import type { Script, Sequence } from "../../../text/canned/script.ts";
import { Prefix } from "../../../text/grammar/prefix.ts";
import { isKeywords, type Keywords } from "../../../text/grammar/schema.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { toolUseOf } from "../request/output-options.ts";
import type { GenerationRequest } from "../request/request.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import { readPrefix } from "../tool-calls/json-prefix.ts";
import { forced, type ToolUse } from "../tool-calls/output.ts";

/** `ok`: the text is a valid beginning. `complete`: it is a valid whole text. */
interface Fit {
  readonly ok: boolean;
  readonly complete: boolean;
}
type Check = (text: string) => Fit;

/** Returns the script as far as the grammar of the request permits it. */
export function permitted(
  script: Script,
  request: GenerationRequest,
  { tools, reasoning }: ServerTraits,
  vocabulary: Vocabulary,
): Script {
  // A grammar does not apply to thinking, and this file does not find the end of thinking.
  if (reasoning) return script;
  const use = request.kind === "chat" && tools ? toolUseOf(request, tools.autoEnabled) : null;
  return obeying(script, checkOf(request.sampling.structure ?? null, use, tools?.kind.name ?? null), vocabulary);
}

/** Returns the script as far as a constraint permits it, for a server that sees neither messages nor tools. */
export const permittedBy = (script: Script, structure: Structure, vocabulary: Vocabulary): Script =>
  obeying(script, structureCheck(structure), vocabulary);

/** Returns the script with each sequence cut after the first token that the grammar rejects. */
function obeying(script: Script, check: Check | null, vocabulary: Vocabulary): Script {
  if (check === null) return script;
  return { ...script, sequences: script.sequences.map((sequence) => cut(sequence, check, vocabulary)) };
}

/**
 * Cuts a sequence after the first token that does not fit. Searches by halves, because each check reads the whole text, and no
 * text fits again after a beginning that does not.
 */
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
  // The rejected token follows those that fit. It may be an end-of-sequence that comes too early.
  let last = fits;
  while (sequence.ids[last]! >= SAME_STEP) last++;
  const kept = sequence.ids.slice(0, last + 1);
  return { ...sequence, ids: kept, steps: kept.filter((id) => id < SAME_STEP).length, finish: "rejected" };
}

/** Returns the check for the texts of a request, or null for none. Tool calls are checked only in the format of `hermes`. */
function checkOf(structure: Structure | null, use: ToolUse | null, form: string | null): Check | null {
  if (use !== null && forced(use)) return form === "hermes" ? hermesCheck(use) : null;
  return structure === null ? null : structureCheck(structure);
}

function structureCheck(structure: Structure): Check | null {
  switch (structure.kind) {
    case "choice": {
      const { choices } = structure;
      return (text) => ({ ok: choices.some((choice) => choice.startsWith(text)), complete: choices.includes(text) });
    }
    case "regex":
      return regexCheck(structure.pattern);
    case "json":
    case "object":
      return (text) => jsonFit(text, structure.kind === "object");
    case "tags":
      return tagsCheck(structure.tags);
    default:
      return null;
  }
}

function regexCheck(source: string): Check | null {
  try {
    new Prefix(source);
  } catch {
    return null; // not checked, because the expression is of another dialect or too large
  }
  return (text) => {
    const prefix = new Prefix(source);
    return { ok: prefix.push(text), complete: prefix.complete };
  };
}

/** Checks only the syntax of JSON, not the schema. */
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

/** A tag around a value. */
interface Tag {
  readonly begin: string;
  readonly end: string;
}

/** Checks one or more calls with any JSON as arguments. Ignores schemas, like vLLM unless they are strict. */
function hermesCheck({ tools, choice, parallel }: ToolUse): Check {
  const names = typeof choice === "object" && choice !== null ? [choice.name] : tools.map(({ name }) => name);
  const tags = names.flatMap((name) =>
    ["\n", ""].map((line) => ({
      begin: `<tool_call>${line}{"name": ${JSON.stringify(name)}, "arguments": `,
      end: `}${line}</tool_call>`,
    })),
  );
  const isOne = !parallel || choice !== "required";
  return (text) => tagsFit(text, tags, isOne);
}

/** Checks tags around JSON without a separator, the form of forced tool calls. Other forms are not checked. */
function tagsCheck(source: string): Check | null {
  const whole = parsedJson(source);
  const format = isKeywords(whole) ? whole.format : undefined;
  if (!isKeywords(format) || format.type !== "tags_with_separator" || format.separator !== "") return null;
  const tags = (Array.isArray(format.tags) ? format.tags : []).filter(isJsonTag);
  if (format.at_least_one !== true || tags.length === 0 || tags.length !== (format.tags as unknown[]).length)
    return null;
  return (text) => tagsFit(text, tags, format.stop_after_first === true);
}

const isJsonTag = (tag: unknown): tag is Keywords & Tag =>
  isKeywords(tag) &&
  typeof tag.begin === "string" &&
  typeof tag.end === "string" &&
  isKeywords(tag.content) &&
  tag.content.type === "json_schema";

/** Checks one or more tags around any JSON. `isOne`: only one tag may come. */
function tagsFit(text: string, tags: readonly Tag[], isOne: boolean): Fit {
  let rest = text;
  for (let count = 0; rest !== ""; count++) {
    if (count > 0 && isOne) return { ok: false, complete: false };
    const tag = tags.find(({ begin }) => rest.startsWith(begin));
    if (tag === undefined) return { ok: tags.some(({ begin }) => begin.startsWith(rest)), complete: false };
    const end = argumentsEnd(rest, tag.begin.length);
    if (end < 0) return { ok: end === OPEN, complete: false };
    const after = rest.slice(end);
    if (!after.startsWith(tag.end)) return { ok: tag.end.startsWith(after), complete: false };
    rest = after.slice(tag.end.length);
  }
  return { ok: true, complete: text !== "" };
}

const OPEN = -1;
const BROKEN = -2;

/** Returns the offset after the JSON at `from`, or `OPEN` if it is incomplete, or `BROKEN`. */
function argumentsEnd(text: string, from: number): number {
  if (from === text.length) return OPEN;
  try {
    const { end, complete } = readPrefix(text, from, true);
    return complete ? end : OPEN;
  } catch {
    return BROKEN;
  }
}
