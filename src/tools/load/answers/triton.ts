/** Reads answers of a Triton server over HTTP: `generate`, `generate_stream` and `infer`. */
import { looseList, looseObject } from "../../../base/json-object.ts";
import { quoted } from "../requests/quoted.ts";
import { looseText } from "./answer.ts";
import type { AnswerReader } from "./reader.ts";

/** Name of the text output of TensorRT-LLM's ensemble and of the vLLM backend. */
const TEXT_OUTPUT = "text_output";

/** Reader of `generate` and `generate_stream`. A stream has no last event, so it ends when its body ends. */
export const generateAnswers: AnswerReader = {
  endsWithDone: true,
  event(event, answer) {
    if (answer.failsBy(event) || typeof event.text_output !== "string") return false;
    answer.output(event.text_output);
    return true;
  },
  whole(value, text, answer) {
    if (answer.failsBy(value)) return;
    answer.finished = true;
    if (value.text_output === undefined) answer.fail("malformed", `an answer without output: ${quoted(text)}`);
    else answer.output(looseText(value.text_output));
  },
  missingEnd: () => null,
};

export const inferAnswers: AnswerReader = {
  ...generateAnswers,
  whole(value, text, answer) {
    if (answer.failsBy(value)) return;
    answer.finished = true;
    if (!Array.isArray(value.outputs)) answer.fail("malformed", `an answer without output: ${quoted(text)}`);
    else if (value.outputs.length === 0) answer.fail("no token", "an answer without outputs");
    else {
      const output = value.outputs.map(looseObject).find((candidate) => candidate?.name === TEXT_OUTPUT);
      answer.output(looseText(looseList(output?.data)[0]));
    }
  },
};
