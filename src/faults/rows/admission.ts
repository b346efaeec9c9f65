/** Rows of faults that replace the server's answer, and of acts of clients. */
import type { FaultParameter } from "../plan/types.ts";
import { INSTEAD } from "./http.ts";
import { count, EITHER, faultRow, OUR_RULE, RFC9110, RFC9112 } from "./row.ts";

/**
 * Behavior of a correct client that retries. A client whose number of retries is stated (`--retries`) must retry exactly that
 * often.
 */
const RETRIED = "an error, or as many more attempts as it says";
const statuses = (...words: readonly string[]) =>
  Object.fromEntries(words.map((status) => [status, `status ${status}`]));
const words = (name: string, ...all: readonly string[]): FaultParameter => ({ name, type: "word", words: all });

export const admissionRows = [
  faultRow("A1", "instead", "status 429 with Retry-After", {
    oracle: "an error, or another attempt after that time",
    text: `${RFC9110}, 10.2.3`,
    ways: {
      seconds: "status 429 with Retry-After in seconds",
      date: "status 429 with a date as Retry-After",
      ms: { what: "status 429 with retry-after-ms", text: OUR_RULE },
      zero: "status 429 with Retry-After: 0",
      negative: { what: "status 429 with a Retry-After below 0", text: OUR_RULE },
      absent: { what: "status 429 without Retry-After", text: OUR_RULE },
      day: { what: "status 429 with a Retry-After of a day", oracle: "an error: nobody waits so long", text: OUR_RULE },
    },
    excludes: INSTEAD,
  }),
  faultRow("A2", "instead", "a status that may pass, with JSON, text or no body", {
    oracle: RETRIED,
    text: `${RFC9110}, 15.5 and 15.6`,
    ways: statuses("503", "529", "408", "409"),
    parameters: [words("how", "503", "529", "408", "409"), words("body", "json", "text", "empty")],
    excludes: INSTEAD,
  }),
  faultRow("A3", "instead", "status 429 while too many requests are open", {
    oracle: RETRIED,
    ...EITHER,
    parameters: [count("open", 2, 65_536)],
    excludes: INSTEAD,
  }),
  faultRow("A4", "instead", "a status that does not pass, with an object, a text or a list as error", {
    oracle: "an error",
    text: `${RFC9110}, 15.5`,
    ways: statuses("401", "403", "404", "413", "422"),
    parameters: [words("error", "object", "text", "list")],
    excludes: INSTEAD,
  }),
  faultRow("A5", "instead", "the first attempts of a request fail, then one succeeds", {
    oracle: RETRIED,
    text: OUR_RULE,
    ways: Object.fromEntries(
      ["500", "503", "429"].map((status) => [status, `the first attempt fails with status ${status}`]),
    ),
    parameters: [count("times", 1, 100), words("status", "500", "503", "429")],
    excludes: INSTEAD,
  }),
];

export const clientRows = [
  faultRow("C1", "client", "a client that leaves at a token", {
    oracle: "its blocks are free within a step, and an abort is counted",
    text: OUR_RULE,
  }),
  faultRow("C2", "client", "a client that sends FIN and continues to read", {
    oracle: "as the real server does",
    text: `${RFC9112}, 9.6`,
  }),
  faultRow("C3", "client", "a client that sends requests ahead, or uses the connection early", {
    oracle: "answers in their order",
    text: `${RFC9112}, 9.3.2`,
  }),
];
