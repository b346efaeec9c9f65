/**
 * Reads answers of OpenAI's `/v1/responses` (openai-node 7.57, `resources/responses/responses.d.ts`). Output is any non-empty
 * delta of text, reasoning, a refusal or a call, as in chat. A stream is complete only if its last event says so. vllm's own
 * `openai-responses` backend also requires that event, and takes the end time of the request from it.
 */
import { type LooseObject, looseList, looseObject, shownJson } from "../../../base/json-object.ts";
import { quoted } from "../requests/quoted.ts";
import { type Answer, countIn, looseText } from "./answer.ts";
import { messageOf } from "./error-forms.ts";
import type { AnswerReader } from "./reader.ts";

/** Matches the API's own events. Any other object is checked for an error, which a gateway may send in place of an event. */
const OWN_EVENT = /^response\./;
const TEXT_DELTA = "response.output_text.delta";
/** Matches deltas with generated output. The output of a shell is not generated. */
const DELTA = /^response\.(?!shell_call_output).+\.delta$/;
/** Events that end a stream. Each contains the whole response. */
const ENDS = ["response.completed", "response.incomplete", "response.failed", "response.cancelled"];
/** Matches items that are calls. The name of a call is generated, even if its arguments are empty. */
const CALL = /_call$/;
/**
 * Reason of a response that reached its maximum length. Assumed if the server gives no reason, because vLLM's responses are
 * only incomplete for this reason.
 */
const LENGTH_REASON = "max_output_tokens";

export const responseAnswers: AnswerReader = {
  endsWithDone: false,
  event(event, answer) {
    const { type, delta } = event;
    if (typeof type !== "string" || !OWN_EVENT.test(type)) {
      answer.failsBy(event);
      return false;
    }
    const response = looseObject(event.response) ?? {};
    answer.name(response.id);
    if (ENDS.includes(type)) {
      takeEnd(response, statusOf(type, response), answer);
      answer.done = true;
      return false;
    }
    if (type === "response.output_item.added") {
      const item = looseObject(event.item);
      if (CALL.test(looseText(item?.type)) && looseText(item?.name) !== "") answer.output("");
      return false;
    }
    if (!DELTA.test(type) || typeof delta !== "string" || delta === "") return false;
    const isText = type === TEXT_DELTA;
    answer.output(isText ? delta : "");
    return isText;
  },
  whole(value, text, answer) {
    const isResponse = value.object === "response" || Array.isArray(value.output);
    if (!isResponse) {
      if (!answer.failsBy(value)) answer.fail("malformed", `an answer without output: ${quoted(text)}`);
      return;
    }
    answer.name(value.id);
    takeEnd(value, looseText(value.status) || "completed", answer);
    if (answer.failure !== null) return;
    const items = looseList(value.output).map(looseObject);
    const parts = items.flatMap((item) => looseList(item?.content)).map((part) => looseObject(part));
    const texts = parts.filter((part) => part?.type === "output_text").map((part) => looseText(part?.text));
    if (items.some((item) => item !== null)) answer.output(texts.join(""), answer.outputTokens);
    else answer.fail("no token", "a response without output");
  },
  missingEnd: ({ finished }) =>
    finished ? null : { kind: "incomplete", message: "the stream ended without response.completed" },
};

/**
 * Returns the status of the response. It may differ from its event, because vLLM reports some incomplete responses with a
 * completed event.
 */
function statusOf(type: string, { status }: LooseObject): string {
  const eventStatus = type.slice("response.".length);
  return eventStatus === "completed" && typeof status === "string" ? status : eventStatus;
}

/** Records usage and status of a response that has ended. */
function takeEnd({ usage, error, incomplete_details: details }: LooseObject, status: string, answer: Answer): void {
  const { input_tokens: input, output_tokens: output, input_tokens_details: inputDetails } = looseObject(usage) ?? {};
  answer.count(countIn(input), countIn(output), countIn(looseObject(inputDetails)?.cached_tokens));
  const reason = looseObject(details)?.reason ?? LENGTH_REASON;
  if (error !== undefined && error !== null) answer.fail("error event", messageOf(error));
  else if (status === "completed" || (status === "incomplete" && reason === LENGTH_REASON)) answer.finish();
  else if (status === "incomplete")
    answer.fail("incomplete", `the response is incomplete: ${quoted(shownJson(reason))}`);
  else answer.fail("error event", `the response has the status ${quoted(status)}`);
}
