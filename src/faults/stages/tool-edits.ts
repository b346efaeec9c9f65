/** What do faults do to the deltas of tool calls? */
import { added, type EventJson, jsonOf, type StreamEvent } from "../event.ts";
import { before, changed, choiceOf, copied, only } from "./editing.ts";
import type { Edit } from "./events.ts";

const callsOf = (json: EventJson): EventJson[] | null => {
  const calls = choiceOf(json)?.delta?.tool_calls;
  return Array.isArray(calls) && calls.length > 0 ? calls : null;
};

const eachCall = (event: StreamEvent, change: (call: EventJson) => unknown) =>
  only(
    changed(
      event,
      (json) =>
        callsOf(json)
          ?.map(change)
          .some((done) => done !== false) ?? false,
    ),
  );

export const toolEdit: Edit = (event, { firing, kept }) => {
  const calls = callsOf(jsonOf(event));
  if (calls === null) return null;
  const [first] = calls;
  switch (firing.word()) {
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

/** The name's second half comes in a delta of its own. */
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

/** Arguments "" before those that say something. */
function emptyFirst(event: StreamEvent, first: EventJson): readonly StreamEvent[] | null {
  if (!first.function?.arguments) return null;
  const empty = copied(event, (json) => {
    choiceOf(json).delta.tool_calls = [{ index: first.index, function: { arguments: "" } }];
  });
  return before(empty, event);
}

/** A part of the call before comes once more behind the beginning of the next one: an empty one, so that nothing changes. */
function inTurn(event: StreamEvent, first: EventJson, kept: Record<string, unknown>): readonly StreamEvent[] | null {
  const last = (kept.last as number | undefined) ?? first.index;
  kept.last = first.index;
  if (last === first.index) return null;
  const json = jsonOf(event);
  choiceOf(json).delta = { tool_calls: [{ index: last, function: { arguments: "" } }] };
  choiceOf(json).finish_reason = null;
  return [event, added(event, JSON.stringify(json), null)];
}
