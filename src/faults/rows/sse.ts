/** Rows of faults that change the lines of an event stream. */
import { AT_LAST, count, EITHER, faultRow, OUR_RULE, POLICY, SSE_PARSING, SSE_READING, size, time } from "./row.ts";

const SAME = "same events, same text";
const IGNORED = "ignored";

export const sseRows = [
  faultRow("S1", "text", "lines that end with CRLF", {
    oracle: SAME,
    text: SSE_PARSING,
    ways: {
      whole: {},
      split: "lines that end with CRLF, CR and LF in two segments",
    },
    position: "*",
    excludes: "line ends",
  }),
  faultRow("S2", "text", "lines that end with CR", {
    oracle: SAME,
    text: SSE_PARSING,
    ways: {
      cr: {},
      mixed: "lines that end with LF, CR and CRLF in turn",
    },
    position: "*",
    excludes: "line ends",
  }),
  faultRow("S3", "text", "no space after the colon of a field", { oracle: SAME, text: SSE_READING, position: "*" }),
  faultRow("S4", "text", "a comment before an event", {
    oracle: IGNORED,
    text: SSE_READING,
    ways: {
      ping: "the comment `: ping` and an empty line before an event",
      line: "an empty comment before an event",
      block: "an empty comment and an empty line before an event",
    },
    position: "*",
  }),
  faultRow("S5", "text", "only comments for some time", {
    oracle: "as its documentation says: no text says whether comments count as a sign of life",
    text: POLICY,
    parameters: [time("for", 5e6), time("every", 0.5e6, 600e6, 1000)],
  }),
  faultRow("S6", "text", "an event whose data is empty", {
    oracle: "the event is dispatched with empty data (WHATWG HTML, 9.2.6); no API says what it means",
    text: POLICY,
    ways: {
      colon: "an event with an empty `data:` field",
      bare: "an event with the field `data` without a colon",
    },
  }),
  faultRow("S7", "text", "a comment and an empty line inside the data line of an event", {
    oracle: "an error, since text is lost, and no hang",
    ...EITHER,
    inside: true,
  }),
  faultRow("S8", "text", "a comment as data: `data: : ping`", { oracle: "skipped, or an error", ...EITHER }),
  faultRow("S9", "text", "event data in several lines", {
    oracle: "the lines are joined with LF",
    text: SSE_READING,
    ways: {
      lines: "an event whose data is several lines",
      single: {
        what: "one line end instead of two between two events",
        oracle: "both events, or an error, since text is lost",
        ...EITHER,
      },
    },
  }),
  faultRow("S10", "text", "other fields before the data of an event", {
    oracle: IGNORED,
    text: SSE_READING,
    ways: {
      all: "the fields event, id, retry, an unknown one and one without a colon",
      event: "the field `event: message`",
      id: "the field `id: 42`",
      retry: "the field `retry: 3000`",
      unknown: "the unknown field `x-unknown: 1`",
      bare: "an unknown field without a colon",
    },
    position: "*",
  }),
  faultRow("S11", "text", "no empty line after the last event", {
    oracle: "discarded by WHATWG HTML, 9.2.6; most clients read it",
    text: POLICY,
    ...AT_LAST,
    excludes: "the last event",
  }),
  faultRow("S12", "text", "a very long event, filled with white space in its JSON", {
    oracle: "delivered, or an error",
    ...EITHER,
    parameters: [size("bytes", 65_536)],
  }),
  faultRow("S13", "text", "no line end from here on, and many more bytes", {
    oracle: "an error, since text is lost, and bounded memory",
    text: OUR_RULE,
    parameters: [size("bytes", 8 * 2 ** 20)],
    positions: ["head", "event", "drawn"],
    excludes: "the last event",
  }),
  faultRow("S14", "events", "events that are not in order", {
    oracle: "the text as sent or as meant, or an error",
    ...EITHER,
    ways: {
      twice: "an event that comes twice",
      dropped: "an event that is missing",
      swapped: "an event after the next one",
    },
  }),
  faultRow("S15", "text", "an event cut off inside its JSON, and the next `data:` on the same line", {
    oracle: "an error, since text is lost",
    text: OUR_RULE,
    inside: true,
  }),
  faultRow("S16", "text", "an event with a type and no data", {
    oracle: "ignored, as browsers do: WHATWG HTML, 9.2.6 leaves the dispatch to other clients",
    text: OUR_RULE,
  }),
];

export const timingRows = [
  faultRow("T1", "segments", "a pause", {
    oracle: "its timeout, or the whole text",
    text: POLICY,
    parameters: [time("for", 2e6)],
    inside: true,
  }),
  faultRow("T2", "end", "a half-open connection: the peer is gone, no FIN comes", {
    oracle: "its idle timeout",
    text: POLICY,
    parameters: [time("for", 3600e6)],
    inside: true,
    reaches: "others",
  }),
  faultRow("T3", "segments", "a limited number of bytes a second", {
    oracle: "its total timeout, or the whole text",
    text: POLICY,
    parameters: [size("rate", 1000)],
    positions: ["head", "event", "every", "drawn", "done", "chance"],
    position: "*",
  }),
  faultRow("T4", "segments", "a pause, then several events at once", {
    oracle: "same events; gaps are reported as they were",
    text: SSE_PARSING,
    parameters: [count("events", 8), time("pause", 0.2e6)],
    positions: ["head"],
  }),
  faultRow("T5", "segments", "jitter before each event", {
    oracle: "same events",
    text: SSE_PARSING,
    ways: {
      lognormal: "lognormal jitter before each event",
      pareto: "Pareto jitter before each event",
      clock: "lognormal jitter before each event, and a date that is an hour early",
    },
    parameters: [time("median", 5000, 10e6)],
    position: "*",
  }),
  faultRow("T6", "client", "a client that reads slowly", {
    oracle: "the server holds a bounded number of bytes, and serves others in time",
    text: OUR_RULE,
  }),
  faultRow("T7", "text", "a long time before the first event", {
    oracle: "no end before its own timeout",
    text: POLICY,
    ways: {
      silent: "a long time without a byte before the first event",
      comments: "a long time with only comments before the first event",
    },
    parameters: [time("for", 5e6), time("every", 0.5e6, 600e6, 1000)],
    positions: ["head"],
  }),
];
