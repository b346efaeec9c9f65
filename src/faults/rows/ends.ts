/** Rows of faults that change the end of an answer. */
import {
  AT_LAST,
  count,
  EITHER,
  faultRow,
  OPENAI_STREAM,
  POLICY,
  RFC9110,
  RFC9112,
  RFC9113,
  SSE_READING,
  STREAM_CODES,
  time,
} from "./row.ts";

export const endRows = [
  faultRow("E1", "events", "no last event (`[DONE]`)", {
    oracle: "the text, or an error",
    ...EITHER,
    ways: {
      done: { oracle: "the text, or an error: by OpenAI's reference `[DONE]` ends the stream" },
      bare: "no last event (`[DONE]`), and no finish reason",
    },
    ...AT_LAST,
    excludes: "the last event",
  }),
  faultRow("E2", "events", "no finish reason, then `[DONE]`", {
    oracle: "it says that the reason is missing: a null reason means incomplete, but no text asks for an error",
    text: POLICY,
    position: "*",
    dialects: ["chat", "completions", "messages"],
  }),
  faultRow("E3", "end", "a body that stays open after the last event", {
    oracle: "returns at once",
    text: OPENAI_STREAM,
    parameters: [time("for", 3600e6)],
    ...AT_LAST,
  }),
  faultRow("E4", "events", "an event after the last one", {
    oracle: "ignored",
    text: OPENAI_STREAM,
    ways: {
      data: "text after the last event",
      error: {
        what: "an error after the last event",
        oracle: "ignored, or an error",
        ...EITHER,
      },
    },
    ...AT_LAST,
    excludes: "the last event",
  }),
  faultRow("E5", "events", "an odd last event", {
    oracle: "ends once",
    text: OPENAI_STREAM,
    ways: {
      twice: "the last event twice",
      bare: { what: "`[DONE]` without `data:`", oracle: "the text, or an error", ...EITHER },
      tight: { what: "`data:[DONE]` without a space", oracle: "ends", text: SSE_READING },
      quoted: { what: '`data: "[DONE]"`', oracle: "the text, or an error", ...EITHER },
    },
    ...AT_LAST,
    excludes: "the last event",
  }),
  faultRow("E6", "end", "FIN inside the body", { oracle: "an error", text: `${RFC9112}, 8`, inside: true }),
  faultRow("E7", "end", "RST inside the body", {
    oracle: "an error; the text that came is kept",
    text: `${RFC9112}, 8`,
    parameters: [time("after", 50_000)],
    inside: true,
  }),
  faultRow("E8", "end", "no head", {
    oracle: "an error, or another attempt if it knows that a POST may be repeated",
    text: `${RFC9110}, 9.2.2`,
    ways: {
      fin: "FIN instead of the head",
      rst: "RST instead of the head",
      accept: {
        what: "a whole answer, after which the next connections are closed as they are opened",
        oracle: "the text",
      },
    },
    parameters: [count("connections", 1, 100)],
    positions: ["head"],
    inside: true,
    reaches: "others",
  }),
  faultRow("E9", "end", "a kept connection that ends as its next request comes", {
    oracle: "an error, or another attempt on a new connection",
    text: `${RFC9112}, 9.3.1`,
    ways: {
      fin: "a kept connection that ends by FIN as its next request comes",
      rst: "a kept connection that ends by RST as its next request comes",
    },
    positions: ["head"],
    allows: "either",
    reaches: "others",
  }),
  faultRow("E10", "end", "an end in HTTP/2", {
    oracle: "an error, or another attempt where that is safe",
    text: `${RFC9113}, 6.4, 6.8 and 8.7`,
    ways: {
      reset: "RST_STREAM inside the answer",
      goaway: {
        what: "GOAWAY; the answer continues, then the connection ends",
        oracle: "same events, and a new connection for the next request",
      },
      unserved: "GOAWAY that says that the stream was not processed, and FIN",
    },
    parameters: [{ name: "code", type: "word", words: Object.keys(STREAM_CODES) }],
    inside: true,
    http: "2",
  }),
];
