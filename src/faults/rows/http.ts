/** Rows of faults that change HTTP framing, header fields and interim answers. */
import { AT_EVENTS, count, EITHER, faultRow, OUR_RULE, oneOf, RFC9110, RFC9112, size, time } from "./row.ts";

const FRAMING = "the framing of the body";
/** Group of the faults that replace the answer. A plan may contain only one fault of a group. */
export const INSTEAD = "another answer";

export const httpRows = [
  faultRow("H1", "http", "broken chunks", {
    oracle: "an error",
    text: `${RFC9112}, 7.1 and 8`,
    http: "1.1",
    ways: {
      size: "a chunk size that is not a number",
      crlf: "a chunk without its line end",
      garbage: { what: "bytes after the last chunk", oracle: "same events, or an error", allows: "either" },
      split: { what: "a chunk size in two segments", oracle: "same events" },
    },
    positions: AT_EVENTS,
    excludes: FRAMING,
  }),
  faultRow("H2", "http", "unusual chunks", {
    oracle: "same events",
    text: `${RFC9112}, 7.1.1 and 7.1.2`,
    http: "1.1",
    ways: {
      extension: "chunk extensions",
      trailers: "trailers",
      cut: { what: "a body that ends inside its trailers", oracle: "the text, or an error", allows: "either" },
    },
    excludes: FRAMING,
  }),
  faultRow("H3", "http", "a wrong Content-Length", {
    oracle: "an error, or the whole text",
    text: `${RFC9112}, 6.3 and 8`,
    ways: {
      long: "a Content-Length that is too long",
      short: "a Content-Length that is too short",
      both: { what: "a Content-Length and chunks", oracle: "the chunks count, or an error" },
    },
    parameters: [size("bytes", 10)],
    allows: "either",
    excludes: FRAMING,
  }),
  faultRow("H4", "http", "a stream without chunks", {
    oracle: "same events",
    text: `${RFC9112}, 6.3`,
    ways: {
      length: "the whole stream at once, with its Content-Length",
      close: "a stream without a length, as in HTTP/1.0, ended by FIN",
    },
    excludes: FRAMING,
  }),
  faultRow("H5", "http", "a wrong content-type", {
    oracle: "reads the body as it is, or an error",
    ...EITHER,
    ways: {
      plain: "the content-type text/plain",
      json: "the content-type application/json before an event stream",
      octets: "the content-type application/octet-stream",
      none: "no content-type",
      swap: "JSON in one piece instead of a stream, and a stream instead of JSON",
    },
  }),
  faultRow("H7", "http", "chunks of a fixed size that cut events", {
    oracle: "same events, later",
    text: `${RFC9112}, 7.1`,
    parameters: [size("bytes", 4096, 65_536), time("for", 0, 60e6)],
    excludes: FRAMING,
  }),
  faultRow("H8", "http", "an HTML page", {
    oracle: "an error",
    text: OUR_RULE,
    ways: {
      inject: { what: "an HTML page inside the body, which it ends", oracle: "an error, since text is lost" },
      "502": { what: "status 502 with an HTML page", text: `${RFC9110}, 15.6.3` },
      "504": { what: "status 504 with an HTML page", text: `${RFC9110}, 15.6.5` },
    },
    parameters: [oneOf("inject", "502", "504")],
    positions: AT_EVENTS,
    excludes: INSTEAD,
  }),
  faultRow("H9", "http", "an interim answer or a redirect", {
    oracle: "passed over",
    text: `${RFC9110}, 15.2`,
    ways: {
      "103": "status 103 before the head",
      "100": "status 100 before the head",
      "307": {
        what: "a redirect of the POST by status 307",
        oracle: "followed, or an error",
        text: `${RFC9110}, 15.4.8`,
      },
      "308": {
        what: "a redirect of the POST by status 308",
        oracle: "followed, or an error",
        text: `${RFC9110}, 15.4.9`,
      },
    },
    parameters: [oneOf("103", "100", "307", "308"), time("before", 0.2e6, 600e6)],
    excludes: INSTEAD,
  }),
  faultRow("H10", "http", "an unusual head", {
    oracle: "accepted, or an error",
    text: `${RFC9110}, 5.4 and 5.5`,
    ways: {
      many: "hundreds of fields in the head",
      long: "a field of 64 KiB in the head",
      bytes: "a field in the head that is not ASCII",
    },
    parameters: [count("fields", 200, 10_000)],
    allows: "either",
  }),
];
