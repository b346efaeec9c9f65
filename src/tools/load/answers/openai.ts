/**
 * Reads answers of OpenAI's chat and completions APIs. The rule on which chunks have output follows vllm 0.33.0,
 * `benchmarks/lib/endpoint_request_func.py`. In chat these are non-empty content, reasoning or tool calls, or empty content
 * without `role`. In completions every event with a choice has output.
 */
import { type LooseObject, looseList, looseObject, shownJson } from "../../../base/json-object.ts";
import { quoted } from "../requests/quoted.ts";
import { type Answer, countIn, looseText } from "./answer.ts";
import type { AnswerReader } from "./reader.ts";

export const chatAnswers = readerOf((choice) => {
  const delta = looseObject(choice.delta);
  return delta !== null && hasOutput(delta) ? delta : null;
});

export const completionAnswers = readerOf((choice) => choice);

/** Makes a reader. `outputOf` returns the object with the text of a streamed choice, or null if the choice has no output. */
function readerOf(outputOf: (choice: LooseObject) => LooseObject | null): AnswerReader {
  return {
    endsWithDone: true,
    event(event, answer) {
      if (answer.failsBy(event)) return false;
      takeUsage(event.usage, answer);
      const choices = looseList(event.choices);
      if (choices.length === 0) return false;
      const choice = looseObject(choices[0]);
      if (choice === null) {
        answer.fail("malformed", `an event whose choice is not a JSON object: ${quoted(shownJson(choices[0]))}`);
        return false;
      }
      const ended = choices.some(hasFinishReason);
      if (ended) answer.finished = true;
      const delta = outputOf(choice);
      if (delta === null) return false;
      const output: unknown = delta.text ?? delta.content;
      answer.output(looseText(output), countIn(looseObject(event.usage)?.completion_tokens));
      const plain = typeof output === "string" && !("role" in delta) && !delta.tool_calls && !delta.function_call;
      return plain && !ended && !delta.reasoning && !delta.reasoning_content;
    },
    whole(value, text, answer) {
      if (answer.failsBy(value)) return;
      const [choice] = looseList(value.choices);
      const fields = looseObject(choice);
      const message = looseObject(fields?.message) ?? fields;
      takeUsage(value.usage, answer);
      answer.finished = true;
      const output = message?.content ?? message?.text;
      if (output === undefined && fields === null)
        answer.fail("malformed", `an answer without output: ${quoted(text)}`);
      else answer.output(looseText(output), answer.outputTokens);
    },
    missingEnd(answer) {
      if (answer.finished) return null;
      if (answer.done)
        return { kind: "incomplete", message: "the stream ended with [DONE], but without a finish_reason" };
      return { kind: "mid-stream end", message: "the answer ended without finish_reason and [DONE]" };
    },
  };
}

function takeUsage(value: unknown, answer: Answer): void {
  const usage = looseObject(value);
  if (usage === null) return;
  const cached = countIn(looseObject(usage.prompt_tokens_details)?.cached_tokens);
  answer.count(countIn(usage.prompt_tokens), countIn(usage.completion_tokens), cached);
}

function hasOutput(delta: LooseObject): boolean {
  const { content, reasoning, reasoning_content: thought, tool_calls: calls, function_call: call } = delta;
  if (content || reasoning || thought || (Array.isArray(calls) ? calls.length > 0 : calls) || call) return true;
  return content === "" && !("role" in delta);
}

function hasFinishReason(choice: unknown): boolean {
  const reason = looseObject(choice)?.finish_reason;
  return reason !== undefined && reason !== null;
}
