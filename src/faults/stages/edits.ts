/** Table of the faults of the first stage, with the function that changes an event for each fault. */
import { added, type EventJson, jsonOf, type StreamEvent, sameDone, textIn, withData } from "../plan/event.ts";
import {
  bareError,
  before,
  changed,
  choiceOf,
  copied,
  edited,
  errorEvent,
  only,
  preceded,
  reasonOf,
  withoutReason,
  withText,
} from "./editing.ts";
import type { Edit } from "./events.ts";
import { toolEdit, toolFieldsEdit } from "./tool-edits.ts";

const LINE_SEPARATORS = "\u2028\u0085";
const HIGH = "\ud83e";
const LOW = "\udd94";
const NESTED = 500;
const TRICKY = ["[DONE]", "data: [DONE]", "data:", "\n\ndata: {}\n\n", "\\n\\n", "event: error\r\n"].join(" ");
const USAGE = { prompt_tokens: 1, total_tokens: 2, completion_tokens: 1 };

/** Returns the usage object of a chunk with this number of completion tokens. */
const usage = (completion: number) => ({ ...USAGE, completion_tokens: completion, total_tokens: completion + 1 });

export const EDITS: Readonly<Record<string, Edit>> = {
  B2: (event, { run }) => (run.word() === "lines" ? only(withText(event, (text) => text + LINE_SEPARATORS)) : [event]),
  B3(event, { run, kept }) {
    const how = run.word();
    if (how === "replaced") return only(withText(event, (text) => `${text}\ufffd`));
    if (how === "lone") return only(withText(event, (text) => text + HIGH));
    const half = withText(event, (text) => (kept.high ? LOW + text : text) + HIGH);
    if (half !== null) kept.high = true;
    return only(half);
  },
  S14(event, { run, kept }) {
    const how = run.word();
    if (how === "twice") return [sameDone(event), event];
    if (how === "swapped") kept.late = [event];
    return [];
  },
  E1(event, { run }) {
    if (run.word() === "bare" && !event.done) return edited(event, withoutReason);
    return event.done ? [] : null;
  },
  E2: (event) => edited(event, withoutReason),
  E4(event, { run, dialect, kept, lastData }) {
    if (run.word() === "error") kept.late = [errorEvent(event, dialect)];
    else kept.late = [added(event, lastData, null)];
    return [event];
  },
  E5(event, { run }) {
    if (run.word() === "twice" || event.data !== "[DONE]") return [event, sameDone(event)];
    const texts = { bare: "[DONE]\n\n", tight: "data:[DONE]\n\n", quoted: 'data: "[DONE]"\n\n' };
    return [{ ...event, text: texts[run.word() as keyof typeof texts] }];
  },
  J1(event, { run, dialect, stop }) {
    if (event.done) return null;
    stop("error");
    if (run.word() === "bare") return [{ ...added(event, bareError()), text: `{"error":${bareError()}}\n\n` }];
    const error = run.word() === "own" ? errorEvent(event, dialect) : added(event, bareError(), "error");
    return dialect === "chat" || dialect === "completions" ? [error, added(event, "[DONE]", null)] : [error];
  },
  J2(event, { stop }) {
    if (event.done) return null;
    stop("gone");
    return [added(event, "error: upstream connect error or disconnect before headers", null)];
  },
  J3: (event, { first }) => (event.data === "[DONE]" ? [usageChunk(event, first), event] : null),
  J4: (event, { run }) => {
    const how = run.word();
    return preceded(event, (json) => {
      const choice = choiceOf(json);
      if (choice === undefined || reasonOf(json) !== null) return false;
      if (how === "no-choices") delete json.choices;
      else if (how === "empty") json.choices = [];
      else if (how === "no-delta") delete choice[choice.delta ? "delta" : "text"];
      else if (how === "null-delta") choice[choice.delta ? "delta" : "text"] = null;
      else if (choice.delta) choice.delta = { content: null };
      else choice.text = null;
      return true;
    });
  },
  J5: (event, { run }) =>
    edited(event, (json) => {
      const delta = choiceOf(json)?.delta;
      if (!delta) return false;
      const how = run.word();
      if (how === "none" && !("role" in delta)) return false;
      if (how === "none") delete delta.role;
      else choiceOf(json).delta = { ...delta, role: how === "each" ? "assistant" : "" };
      return true;
    }),
  J6(event, { run }) {
    const how = run.word();
    const json = jsonOf(event);
    const ends = reasonOf(json) !== null;
    if (choiceOf(json) === undefined || ends === (how === "empty")) return null;
    if (how === "twice") return [event, { ...sameDone(event), ...changed(event, withoutText), isOriginal: false }];
    return edited(event, (chunk) => {
      const choice = choiceOf(chunk);
      if (how === "text") appendText(choice, " And so it ends");
      else choice.finish_reason = how === "empty" ? "" : "length";
    });
  },
  J7: toolEdit,
  J8(event, { run }) {
    const odd = changed(event, (json) => {
      const choice = choiceOf(json);
      const text = textIn(json)?.text;
      if (choice === undefined || text === undefined) return false;
      const token = { token: text, logprob: "\u0001", bytes: null, top_logprobs: [] };
      choice.logprobs = choice.delta
        ? { content: [token] }
        : { text_offset: [0], token_logprobs: ["\u0001"], tokens: [text], top_logprobs: [{}] };
      return true;
    });
    return odd && [withData(odd, odd.data!.replaceAll('"\\u0001"', run.word() === "nan" ? "NaN" : "-Infinity"))];
  },
  J9(event, { lastText }) {
    const tail = lastText.slice(-3);
    return tail === ""
      ? null
      : before(textIn(jsonOf(event)) && copied(event, (json) => textIn(json)!.put(tail)), event);
  },
  J10: (event) =>
    preceded(event, (json) => {
      if (choiceOf(json) === undefined) return false;
      choiceOf(json).index = 1;
      textIn(json)?.put(" other");
      return true;
    }),
  J11(event, { run, kept, first }) {
    const how = run.word();
    if (event.data === "[DONE]") return how === "after" ? [usageChunk(event, first), event] : null;
    const json = jsonOf(event);
    const tokens = ((kept.tokens as number | undefined) ?? 0) + 1;
    kept.tokens = tokens;
    if (how === "after" || (how === "wrong" && !json?.usage && reasonOf(json) === null)) return null;
    return edited(event, (chunk) => {
      if (how === "wrong") chunk.usage = { ...USAGE, ...chunk.usage, total_tokens: 7 };
      else chunk.usage ??= usage(how === "each" ? tokens : 1000 - tokens);
    });
  },
  J12(event, { run }) {
    const how = run.word();
    if (how === "stream")
      return preceded(event, (json) => {
        const place = textIn(json);
        json.id = "another-stream";
        place?.put(" FROM ANOTHER STREAM");
        return place !== null;
      });
    return edited(
      event,
      (json) => how in json && Object.assign(json, { [how]: how === "created" ? 1 : `other-${how}` }),
    );
  },
  J13(event, { run }) {
    const json = jsonOf(event);
    if (json === null || textIn(json) === null) return null;
    const how = run.word();
    if (how === "reasoning")
      return edited(event, (chunk) =>
        Object.assign(choiceOf(chunk)?.delta ?? chunk, { reasoning_content: "thinking" }),
      );
    if (how === "twice")
      return [withData(event, event.data!.replace("{", '{"id":"first","type":"first","model":"first",'))];
    const more = {
      unknown: '"understudy_unknown":{"a":[1,null,true]}',
      deep: `"deep":${"[".repeat(NESTED)}${"]".repeat(NESTED)}`,
      large: '"large":123456789012345678901234567890,"small":1e-400',
    }[how];
    return [withData(event, `${event.data!.slice(0, -1)},${more}}`)];
  },
  J14(event, { run }) {
    const json = jsonOf(event);
    if (textIn(json) === null) return null;
    const blank = run.word() === "blank";
    return blank || reasonOf(json) !== null ? only(withText(event, () => (blank ? " " : ""))) : [];
  },
  J15: (event) => only(withText(event, (text) => text + TRICKY)),
  J16: toolFieldsEdit,
  J17(event, { kept, room }) {
    const json = jsonOf(event);
    const place = textIn(json);
    if (place === null) return null;
    const before = (kept[place.name] as string | undefined) ?? "";
    kept[place.name] = before + place.text;
    if (before === "" || !room(Buffer.byteLength(before))) return null;
    place.put(before + place.text);
    return [withData(event, JSON.stringify(json))];
  },
  J18(event, { kept }) {
    const delta = choiceOf(jsonOf(event))?.delta;
    if (!delta?.content) return null;
    // Use the server's field name, because TensorRT-LLM still has the old name `reasoning_content`.
    const field = "reasoning_content" in delta ? "reasoning_content" : "reasoning";
    const step = ((kept.step as number | undefined) ?? 0) + 1;
    kept.step = step;
    return preceded(event, (json) => {
      choiceOf(json).delta = { [field]: `Step ${step}. ` };
      choiceOf(json).finish_reason = null;
    });
  },
  J19: (event, { run }) =>
    edited(event, (json) => {
      const delta = choiceOf(json)?.delta;
      const text = delta?.reasoning ?? delta?.reasoning_content;
      const fields = run.word() === "old" ? ["reasoning_content"] : ["reasoning", "reasoning_content"];
      const present = ["reasoning", "reasoning_content"].filter((name) => delta?.[name] !== undefined);
      if (typeof text !== "string" || present.join() === fields.join()) return false;
      for (const name of present) delete delta[name];
      for (const name of fields) delta[name] = text;
    }),
};

const withoutText = (json: EventJson) => void textIn(json)?.put("");

function appendText(choice: EventJson, text: string): void {
  if (choice.delta) choice.delta.content = (choice.delta.content ?? "") + text;
  else choice.text += text;
}

function usageChunk(at: StreamEvent, { id, object, created, model }: EventJson): StreamEvent {
  return added(at, JSON.stringify({ id, object, created, model, choices: [], usage: USAGE }), null);
}
