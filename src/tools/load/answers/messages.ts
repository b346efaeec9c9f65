/**
 * Reads answers of Anthropic's `/v1/messages` (Anthropic's TypeScript SDK 1.12, `resources/messages/messages.d.ts`). Output is any
 * non-empty delta of text, thinking or a call's input. A stream is complete if it has a `stop_reason` and ends with
 * `message_stop`. `ping` and unknown events are ignored, as Anthropic asks of clients.
 */
import { type LooseObject, looseList, looseObject } from "../../../base/json-object.ts";
import { quoted } from "../requests/quoted.ts";
import { type Answer, countIn, looseText } from "./answer.ts";
import type { AnswerReader } from "./reader.ts";

/** Members of a delta that are generated. A `signature` is not. */
const DELTA_OUTPUTS = ["text", "thinking", "partial_json"];
/** Members of a block that are generated before its first delta: a call has its name, hidden thinking its data. */
const BLOCK_OUTPUTS = ["text", "thinking", "name", "data"];
const OWN_EVENT = /^(message_(start|delta|stop)|content_block_(start|delta|stop)|ping)$/;

export const messageAnswers: AnswerReader = {
  endsWithDone: false,
  event(event, answer) {
    const { type } = event;
    if (typeof type !== "string" || !OWN_EVENT.test(type)) {
      answer.failsBy(event);
      return false;
    }
    if (type === "content_block_delta") {
      const delta = looseObject(event.delta) ?? {};
      return takeOutput(delta, DELTA_OUTPUTS, answer) && delta.type === "text_delta";
    }
    if (type === "content_block_start") takeOutput(looseObject(event.content_block) ?? {}, BLOCK_OUTPUTS, answer);
    // The first event counts no output yet, whatever it says of it.
    else if (type === "message_start")
      takeUsage({ ...looseObject(looseObject(event.message)?.usage), output_tokens: null }, answer);
    else if (type === "message_delta") {
      takeUsage(looseObject(event.usage), answer);
      if (typeof looseObject(event.delta)?.stop_reason === "string") answer.finished = true;
    } else if (type === "message_stop") answer.done = true;
    return false;
  },
  whole(value, text, answer) {
    if (!Array.isArray(value.content)) {
      if (!answer.failsBy(value)) answer.fail("malformed", `an answer without content: ${quoted(text)}`);
      return;
    }
    takeUsage(looseObject(value.usage), answer);
    const blocks = looseList(value.content).map(looseObject);
    const texts = blocks.filter((block) => block?.type === "text").map((block) => looseText(block?.text));
    if (!blocks.some((block) => block !== null)) answer.fail("no token", "a message without content");
    else if (typeof value.stop_reason !== "string") answer.fail("incomplete", "a message without a stop_reason");
    else {
      answer.finished = true;
      answer.output(texts.join(""), answer.outputTokens);
    }
  },
  missingEnd({ done, finished }) {
    if (!done) return { kind: "incomplete", message: "the stream ended without message_stop" };
    return finished
      ? null
      : { kind: "incomplete", message: "the stream ended with message_stop, but without a stop_reason" };
  },
};

/** Counts a piece of output if one of the members has some. */
function takeOutput(from: LooseObject, members: readonly string[], answer: Answer): boolean {
  const hasOutput = members.some((name) => looseText(from[name]) !== "");
  if (hasOutput) answer.output(looseText(from.text));
  return hasOutput;
}

/** `input_tokens` are those that neither came from the cache nor went into it. */
function takeUsage(usage: LooseObject | null, answer: Answer): void {
  if (usage === null) return;
  const [input, read, created] = [
    usage.input_tokens,
    usage.cache_read_input_tokens,
    usage.cache_creation_input_tokens,
  ].map(countIn);
  const prompt = input! < 0 ? -1 : input! + Math.max(0, read!) + Math.max(0, created!);
  answer.count(countIn(prompt), countIn(usage.output_tokens), read!);
}
