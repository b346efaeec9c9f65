/** Rows of faults that change the JSON in the events. */
import type { AnswerDialect } from "../plan/types.ts";
import { EITHER, faultRow, JSON_TEXT, OPENAI_CHUNK, OUR_RULE, POLICY, SSE_READING } from "./row.ts";

const OPENAI: readonly AnswerDialect[] = ["chat", "completions"];
const CHAT: readonly AnswerDialect[] = ["chat"];

export const jsonRows = [
  faultRow("J1", "events", "an error inside the stream, which ends", {
    oracle: "an error",
    text: OUR_RULE,
    ways: {
      own: "an error inside the stream, as the dialect writes it",
      event: "an error inside the stream as `event: error` with a bare object",
      bare: "an error inside the stream as bare JSON without `data:`",
    },
  }),
  faultRow("J2", "events", "an error as plain text (`data: error: …`), which ends the stream", {
    oracle: "an error",
    text: OUR_RULE,
  }),
  faultRow("J3", "events", "a chunk with usage and empty `choices`", {
    oracle: "the usage is kept",
    text: "OpenAI API reference, `stream_options`",
    position: "done",
    dialects: OPENAI,
  }),
  faultRow("J4", "events", "an additional chunk without text", {
    oracle: "skipped, or an error",
    ...EITHER,
    ways: {
      "no-choices": "an additional chunk without `choices`",
      empty: "an additional chunk with empty `choices`",
      "no-delta": "an additional chunk without `delta`",
      "null-delta": "an additional chunk whose `delta` is null",
      "null-text": "an additional chunk whose text is null",
    },
    dialects: OPENAI,
  }),
  faultRow("J5", "events", "an unusual role", {
    oracle: "one role, same text",
    text: OPENAI_CHUNK,
    ways: {
      each: "the role in each chunk",
      empty: { what: "an empty role in each chunk", oracle: "ignored, or an error", ...EITHER },
      none: "no role in any chunk",
    },
    position: "*",
    dialects: CHAT,
  }),
  faultRow("J6", "events", "an unusual finish reason", {
    oracle: "the text and one end, or an error",
    ...EITHER,
    ways: {
      text: {
        what: "text in the chunk with the finish reason",
        oracle: "the text is kept",
        text: OPENAI_CHUNK,
        allows: null,
      },
      empty: "an empty finish reason in each chunk before the last",
      twice: "the chunk with the finish reason twice",
      length: "the finish reason `length`",
    },
    position: "*",
    dialects: OPENAI,
  }),
  faultRow("J7", "events", "tool-call deltas that are hard to put together", {
    oracle: "the calls as they were meant, or an error",
    ...EITHER,
    ways: {
      "no-index": { what: "tool-call deltas without an index", oracle: "the API requires it", text: POLICY },
      zero: {
        what: "tool-call deltas of two calls that all have index 0",
        oracle: "by the API they are one call",
        text: POLICY,
      },
      repeat: "the id of a tool call in each of its deltas",
      split: "the name of a tool call in two deltas",
      empty: "empty arguments before those of a tool call",
      interleaved: "deltas of two tool calls in turn",
    },
    position: "*",
    dialects: CHAT,
  }),
  faultRow("J8", "events", "a log probability that is not JSON", {
    oracle: "the text, or an error",
    text: `${JSON_TEXT}, 6 and 9`,
    ways: {
      nan: "a log probability that is NaN",
      infinity: "a log probability that is -Infinity",
    },
    dialects: OPENAI,
    allows: "either",
  }),
  faultRow("J9", "events", "a delta that repeats the end of the one before", {
    oracle: "both are kept",
    text: OPENAI_CHUNK,
  }),
  faultRow("J10", "events", "a second choice between the deltas of the first", {
    oracle: "the text of the choice with index 0, or an error",
    ...EITHER,
    position: "*",
    dialects: OPENAI,
  }),
  faultRow("J11", "events", "unusual usage", {
    oracle: "the last usage counts",
    text: POLICY,
    ways: {
      each: "usage in each chunk",
      falling: "usage in each chunk, with falling numbers",
      after: "usage in a chunk of its own after the finish reason",
      wrong: "usage with a wrong total",
    },
    position: "*",
    dialects: OPENAI,
  }),
  faultRow("J12", "events", "another answer's fields", {
    oracle: "no text says that a client must compare them",
    text: POLICY,
    ways: {
      id: "another id in a chunk",
      model: "another model in a chunk",
      created: "another creation time in a chunk",
      stream: "a chunk of another answer",
    },
    dialects: OPENAI,
  }),
  faultRow("J13", "events", "JSON with more than was asked for", {
    oracle: "ignored",
    text: "OpenAI API reference, backward compatibility",
    ways: {
      unknown: "unknown fields in a chunk",
      reasoning: "a `reasoning_content` field in a chunk",
      deep: {
        what: "500 nested arrays in a chunk",
        oracle: "ignored, or an error",
        text: `${JSON_TEXT}, 9`,
        allows: "either",
      },
      large: {
        what: "numbers in a chunk that no double can hold",
        oracle: "ignored, or an error",
        text: `${JSON_TEXT}, 6`,
        allows: "either",
      },
      twice: {
        what: "keys that a chunk has twice",
        oracle: "unpredictable (RFC 8259, 4)",
        text: POLICY,
      },
    },
  }),
  faultRow("J14", "events", "an answer without words", {
    oracle: "an answer like any other",
    text: OPENAI_CHUNK,
    ways: {
      empty: "an answer without text",
      blank: "an answer that is only spaces",
    },
    position: "*",
  }),
  faultRow("J15", "events", "text with `[DONE]`, `data:` and line ends in it", {
    oracle: "same text",
    text: `${JSON_TEXT}, 7; ${SSE_READING}`,
  }),
  faultRow("J16", "events", "tool-call deltas with unusual fields", {
    oracle: "the calls as they were meant, or an error",
    ...EITHER,
    ways: {
      "no-function": {
        what: "a tool-call delta without `function`",
        oracle: "the calls as they were meant: only `index` is required",
        text: OPENAI_CHUNK,
        allows: null,
      },
      blank: "an empty `id`, `type` and `name` in later tool-call deltas",
      null: "null as `id`, `type` and `name` in later tool-call deltas",
      each: "`id`, `type` and `name` in each tool-call delta",
      object: "tool-call arguments as an object instead of a text",
    },
    positions: ["every"],
    position: "*",
    dialects: CHAT,
  }),
  faultRow("J17", "events", "chunks that hold the whole text so far", {
    oracle: "the text as sent or as meant, or an error",
    ...EITHER,
    positions: ["every"],
    position: "*",
  }),
  faultRow("J18", "events", "reasoning between the deltas of the text", {
    oracle: "same text, same reasoning",
    text: OUR_RULE,
    position: "*",
    dialects: CHAT,
  }),
  faultRow("J19", "events", "the field that holds reasoning", {
    oracle: "same text; the reasoning once, or none",
    text: OUR_RULE,
    ways: {
      old: "reasoning in the old field `reasoning_content`",
      both: "reasoning in both fields, `reasoning` and `reasoning_content`",
    },
    position: "*",
    dialects: CHAT,
  }),
];
