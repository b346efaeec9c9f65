/** Rows of faults that change bytes and network segments. */
import { count, faultRow, OUR_RULE, POLICY, RFC9110, SSE_PARSING, SSE_READING, size, time } from "./row.ts";

const SAME = "same events, same text";

export const byteRows = [
  faultRow("B1", "segments", "the bytes of a character in two segments", {
    oracle: SAME,
    text: SSE_PARSING,
    parameters: [count("byte", 1, 3)],
    inside: true,
    position: "*",
  }),
  faultRow("B2", "coding", "no charset in content-type", {
    oracle: "same text: always UTF-8, and no line ends but LF, CR and CRLF",
    text: SSE_PARSING,
    ways: {
      plain: {},
      lines: "no charset in content-type, and U+2028 and U+0085 in the text",
    },
  }),
  faultRow("B3", "events", "characters that are not text", {
    oracle: "no crash; the text is unpredictable (RFC 8259, 8.2)",
    text: POLICY,
    ways: {
      replaced: { what: "U+FFFD at the end of a delta", oracle: "same text", text: "RFC 8259, 7" },
      half: "half of a surrogate pair at the end of a delta, and the other half in the next",
      lone: "half of a surrogate pair at the end of a delta, without the other half",
    },
  }),
  faultRow("B4", "segments", "an event in two segments, split inside its JSON or its field name", {
    oracle: SAME,
    text: SSE_PARSING,
    inside: true,
    position: "*",
  }),
  faultRow("B5", "segments", "several events in one segment", {
    oracle: SAME,
    text: SSE_PARSING,
    parameters: [count("events", 8)],
    positions: ["head"],
  }),
  faultRow("B6", "segments", "segments of one byte, or of a few bytes", {
    oracle: "same events; work grows with the bytes, not with their square",
    text: SSE_PARSING,
    parameters: [time("gap", 200, 1e6, 200), size("bytes", 1, 65_536)],
    positions: ["head", "event", "every", "drawn", "done", "chance"],
    position: "*",
  }),
  faultRow("B7", "segments", "the two line ends of an event in two segments", {
    oracle: SAME,
    text: SSE_PARSING,
    position: "*",
  }),
  faultRow("B8", "text", "byte order mark at the start", {
    oracle: "the mark is ignored",
    text: SSE_READING,
    positions: ["head"],
  }),
  faultRow("B9", "text", "a byte inside an event that is not UTF-8", {
    oracle: "one U+FFFD in its place (WHATWG Encoding, UTF-8 decoder), or an error",
    text: SSE_READING,
    ways: {
      ff: "the byte 0xff, which is not UTF-8, inside an event",
      cut: "the first two bytes of a character of three inside an event",
    },
    inside: true,
    allows: "either",
  }),
  faultRow("H6", "coding", "a compressed stream", {
    oracle: "same events, or an error if the client did not ask for the coding",
    text: `${RFC9110}, 8.4`,
    ways: {
      gzip: "a stream in gzip, flushed after each event",
      br: "a stream in brotli, flushed after each event",
      "gzip-cut": { what: "a stream in gzip without its end", oracle: "same text, or an error", text: OUR_RULE },
      "br-cut": { what: "a stream in brotli without its end", oracle: "same text, or an error", text: OUR_RULE },
    },
    parameters: [count("events", 1)],
    allows: "either",
    excludes: "content coding",
  }),
];
