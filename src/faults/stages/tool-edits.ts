/** Functions that change the deltas of tool calls, for the faults of the first stage. */
import { parsedJson } from "../../base/json-object.ts";
import { added, type EventJson, jsonOf, type StreamEvent, withData } from "../plan/event.ts";
import { before, changed, choiceOf, copied, edited, preceded, reasonOf } from "./editing.ts";
import type { Edit } from "./events.ts";

const callsOf = (json: EventJson): EventJson[] | null => {
  const calls = choiceOf(json)?.delta?.tool_calls;
  return Array.isArray(calls) && calls.length > 0 ? calls : null;
};

const eachCall = (event: StreamEvent, change: (call: EventJson) => unknown) =>
  edited(
    event,
    (json) =>
      callsOf(json)
        ?.map(change)
        .some((done) => done !== false) ?? false,
  );

export const toolEdit: Edit = (event, { run, kept }) => {
  const calls = callsOf(jsonOf(event));
  if (calls === null) return null;
  const [first] = calls;
  switch (run.word()) {
    case "no-index":
      return eachCall(event, (call) => void delete call.index);
    case "zero":
      return eachCall(event, (call) => call.index !== 0 && Object.assign(call, { index: 0 }));
    case "repeat": {
      kept.ids ??= {};
      const ids = kept.ids as Record<number, string>;
      if (first.id) ids[first.index] = first.id;
      return eachCall(
        event,
        (call) => !call.id && ids[call.index] !== undefined && Object.assign(call, { id: ids[call.index] }),
      );
    }
    case "split":
      return nameSplit(event, first);
    case "empty":
      return emptyFirst(event, first);
    default:
      return inTurn(event, first, kept);
  }
};

/** Sends the second half of a function's name in an additional delta. */
function nameSplit(event: StreamEvent, first: EventJson): readonly StreamEvent[] | null {
  const name: string | undefined = first.function?.name;
  if (!name || name.length < 2) return null;
  const half = Math.floor(name.length / 2);
  const opening = copied(event, (json) => {
    const [call] = callsOf(json)!;
    choiceOf(json).delta.tool_calls = [
      { ...call, function: { ...call.function, name: name.slice(0, half), arguments: "" } },
    ];
  });
  const rest = changed(event, (json) => {
    const [call] = callsOf(json)!;
    call.function.name = name.slice(half);
    delete call.id;
    delete call.type;
  });
  return rest && before(opening, rest);
}

/** Sends a delta with empty arguments before the first delta with arguments. */
function emptyFirst(event: StreamEvent, first: EventJson): readonly StreamEvent[] | null {
  if (!first.function?.arguments) return null;
  return preceded(event, (json) => {
    choiceOf(json).delta.tool_calls = [{ index: first.index, function: { arguments: "" } }];
  });
}

/**
 * Repeats an empty part of the previous call's arguments after the next call has started. The repetition changes no arguments.
 */
function inTurn(event: StreamEvent, first: EventJson, kept: Record<string, unknown>): readonly StreamEvent[] | null {
  const last = (kept.last as number | undefined) ?? first.index;
  kept.last = first.index;
  if (last === first.index) return null;
  const json = jsonOf(event);
  choiceOf(json).delta = { tool_calls: [{ index: last, function: { arguments: "" } }] };
  choiceOf(json).finish_reason = null;
  return [event, added(event, JSON.stringify(json), null)];
}

/** Tool call whose deltas are still arriving. */
interface PartialCall {
  readonly opening: EventJson;
  arguments: string;
  sent: boolean;
}

/** Edit for J16: fields in the deltas of tool calls are missing, repeated or of another type. */
export const toolFieldsEdit: Edit = (event, { run, kept }) => {
  const json = jsonOf(event);
  const calls = callsOf(json) ?? [];
  kept.calls ??= new Map<number, PartialCall>();
  const known = kept.calls as Map<number, PartialCall>;
  const how = run.word();
  if (how === "object") return withObjects(event, json, calls, known);
  if (calls.length === 0) return null;
  if (how === "no-function") return functionLater(event, calls);
  remember(calls, known);
  return eachCall(event, (call) => {
    const opening = known.get(call.index)?.opening;
    if (call.function?.name || opening === undefined) return false;
    const empty = how === "null" ? null : "";
    const { id, type, name } =
      how === "each" ? { ...opening, name: opening.function.name } : { id: empty, type: empty, name: empty };
    Object.assign(call, { id, type, function: { name, ...withoutName(call.function ?? {}) } });
  });
};

const withoutName = ({ name: _, ...rest }: EventJson): EventJson => rest;

/** Remembers the tool calls that start in this event. */
function remember(calls: readonly EventJson[], known: Map<number, PartialCall>): void {
  for (const call of calls)
    if (call.function?.name) known.set(call.index, { opening: call, arguments: "", sent: false });
}

/** Sends the id and the type of a call first, and its `function` in an additional delta. */
function functionLater(event: StreamEvent, calls: readonly EventJson[]): readonly StreamEvent[] | null {
  if (!calls.some((call) => call.id && call.function)) return null;
  const opening = copied(event, (json) => {
    choiceOf(json).delta.tool_calls = calls.map(({ function: _, ...call }) => call);
    choiceOf(json).finish_reason = null;
  });
  const rest = eachCall(event, (call) => {
    delete call.id;
    delete call.type;
  });
  return opening && rest && [opening, ...rest];
}

/**
 * Delays the deltas of a tool call until the arguments are complete. Then sends the call in one delta, with the arguments as an
 * object.
 */
function withObjects(
  event: StreamEvent,
  json: EventJson,
  calls: readonly EventJson[],
  known: Map<number, PartialCall>,
): readonly StreamEvent[] | null {
  const choice = choiceOf(json);
  if (choice === undefined) return null;
  remember(calls, known);
  for (const call of calls) {
    const partial = known.get(call.index);
    if (partial !== undefined) partial.arguments += call.function?.arguments ?? "";
  }
  const ends = reasonOf(json) !== null;
  const whole: EventJson[] = [];
  for (const partial of known.values()) {
    const value = partial.sent ? null : (objectIn(partial.arguments) ?? (ends ? {} : null));
    if (value === null) continue;
    partial.sent = true;
    whole.push({ ...partial.opening, function: { name: partial.opening.function.name, arguments: value } });
  }
  if (calls.length === 0 && whole.length === 0) return null;
  const { tool_calls: _, ...delta } = choice.delta ?? {};
  if (whole.length === 0 && Object.keys(delta).length === 0 && !ends) return [];
  choice.delta = whole.length === 0 ? delta : { ...delta, tool_calls: whole };
  return [withData(event, JSON.stringify(json))];
}

/** Parses a JSON object or list. Returns null for every other text, such as the beginning of an object. */
function objectIn(text: string): object | null {
  const value = parsedJson(text);
  return typeof value === "object" ? value : null;
}
