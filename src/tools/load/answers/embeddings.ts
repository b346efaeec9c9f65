/** Reads answers of OpenAI's `/v1/embeddings`. They have no tokens, so only the time of the whole answer is measured. */
import { looseList, looseObject } from "../../../base/json-object.ts";
import { quoted } from "../requests/quoted.ts";
import { countIn } from "./answer.ts";
import type { AnswerReader } from "./reader.ts";

export const embeddingAnswers: AnswerReader = {
  endsWithDone: false,
  event: () => false,
  whole(value, text, answer) {
    if (answer.failsBy(value)) return;
    const [first] = looseList(value.data);
    const vector = looseObject(first)?.embedding;
    // The vector is a list of numbers, or with `encoding_format: base64` a text.
    const isVector = (Array.isArray(vector) || typeof vector === "string") && vector.length > 0;
    if (!isVector) {
      answer.fail("malformed", `an answer without an embedding: ${quoted(text)}`);
      return;
    }
    const tokens = countIn(looseObject(value.usage)?.prompt_tokens);
    answer.count(tokens, tokens < 0 ? -1 : 0, -1);
    answer.finish();
  },
  missingEnd: () => null,
};
