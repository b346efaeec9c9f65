/**
 * Reads answers of Anthropic's `/v1/messages` (Anthropic's TypeScript SDK 1.12, `resources/messages/messages.d.ts`). Output is
 * any non-empty delta of text, thinking or a tool call's input. A stream is complete if it has a `stop_reason` and ends with
 * `message_stop`. `ping` and unknown events are ignored, as Anthropic requires of clients.
 */
import { type LooseObject, looseList, looseObject } from "../../../base/json-object.ts";
import { quoted } from "../requests/quoted.ts";
import { type Answer, countIn, looseText } from "./answer.ts";
import type { AnswerReader } from "./reader.ts";

/** Members of a delta with generated output. A `signature` is not generated. */
const DELTA_OUTPUTS = ["text", "thinking", "partial_json"];
/** Members of a content block with output before its first delta: the name of a tool call, the data of hidden thinking. */
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
    // The first event states output tokens, but none were generated yet, so they are ignored.
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

/** Records a chunk if one of the members is not empty. */
function takeOutput(from: LooseObject, members: readonly string[], answer: Answer): boolean {
  const hasOutput = members.some((name) => looseText(from[name]) !== "");
  if (hasOutput) answer.output(looseText(from.text));
  return hasOutput;
}

/** Records usage. `input_tokens` excludes tokens that were read from the cache or written to it, so they are added. */
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
